"""What the paths of a command make of a node's executors: a default one, kinds, registries."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.loading import load_executors

_MODULE = """
from hourhand import Hourhand, TaskExecutor

class SendMail(TaskExecutor):
    def execute(self, task):
        return None

class Charge(SendMail):
    pass

app = Hourhand()

@app.task("ship")
def ship():
    return None
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a folder with a module of executors."""
    (tmp_path / "loaded_tasks.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("loaded_tasks", None)


def test_paths_name_a_default_kinds_and_registries() -> None:
    """In any order, and as many as there are kinds."""
    loaded = load_executors(
        ["mail=loaded_tasks:SendMail", "loaded_tasks:app", "loaded_tasks:Charge"]
    )

    assert loaded.executor is not None and type(loaded.executor()).__name__ == "Charge"
    assert sorted(loaded.executors) == ["mail", "ship"]
    assert type(loaded.executors["mail"].executor()).__name__ == "SendMail"


def test_no_path_names_nothing() -> None:
    """A node that only serves others."""
    loaded = load_executors([])

    assert loaded.executor is None and not loaded.executors


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["loaded_tasks:SendMail", "loaded_tasks:Charge"], "write kind=loaded_tasks:Charge"),
        (["mail=loaded_tasks:app"], "leave out mail="),
        (["mail=loaded_tasks:Charge", "mail=loaded_tasks:SendMail"], "registered already"),
        (["ship=loaded_tasks:Charge", "loaded_tasks:app"], "registered already"),
        (["a kind=loaded_tasks:Charge"], "is not a kind"),
    ],
)
def test_paths_that_contradict_each_other_are_refused(paths: Sequence[str], said: str) -> None:
    """The error names the path, or the kind, and what to write."""
    with pytest.raises(InvalidExecutor, match=said):
        load_executors(paths)
