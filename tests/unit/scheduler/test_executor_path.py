"""What an executor path may name, and what is said of one that names nothing useful."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.model.errors import InvalidExecutor
from scheduler.executor_path import load_executor

_MODULE = """
from scheduler import TaskExecutor

class Good(TaskExecutor):
    def execute(self, task):
        return None

class Unwritten(TaskExecutor):
    pass

class Stranger:
    pass

def make():
    return Good()

NUMBER = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a working folder with a module of executors."""
    (tmp_path / "wired_executors.py").write_text(_MODULE)
    (tmp_path / "wired_broken.py").write_text("import no_such_package_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "wired_executors", raising=False)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before


def test_a_class_or_a_factory_is_loaded_from_the_working_folder(folder: Path) -> None:
    """Both make an executor when called without arguments."""
    made = [load_executor(f"wired_executors:{name}")() for name in ("Good", "make")]

    assert [type(one).__name__ for one in made] == ["Good", "Good"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("wired_executors", "expected module:Class"),
        (":Good", "expected module:Class"),
        ("wired_executors:", "expected module:Class"),
        ("wired_nowhere:Good", "No module named 'wired_nowhere'"),
        ("wired_broken:Good", "No module named 'no_such_package_at_all'"),
        ("wired_executors:Missing", "has no 'Missing'"),
        ("wired_executors:Stranger", "no TaskExecutor"),
        ("wired_executors:Unwritten", "does not define execute"),
        ("wired_executors:NUMBER", "is a int"),
    ],
)
def test_a_bad_path_says_which_part_is_wrong(folder: Path, path: str, said: str) -> None:
    """One error class, and the text tells them apart."""
    with pytest.raises(InvalidExecutor) as caught:
        load_executor(path)

    assert path in str(caught.value)
    assert said in str(caught.value)
