"""What an executor path may name, and what is said of one that names nothing useful."""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from pathlib import Path

import pytest

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.executor_path import checked_factory, tried_factory
from hourhand.scheduler.executors.loading import load_executors

_MODULE = """
from hourhand import TaskExecutor

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
    loaded = [load_executors([f"wired_executors:{name}"]).executor for name in ("Good", "make")]

    assert [type(factory()).__name__ for factory in loaded if factory] == ["Good", "Good"]


@pytest.mark.parametrize("path", ["hourhand:SendInvoice", "hourhand.mails:SendInvoice"])
def test_a_module_that_hourhand_hides_is_named(folder: Path, path: str) -> None:
    """The user's own was meant, and Hourhand's package of that name is loaded already."""
    (folder / "hourhand.py").write_text(_MODULE)

    with pytest.raises(InvalidExecutor, match="package of Hourhand") as raised:
        load_executors([path])

    assert f"{folder / 'hourhand.py'} is hidden by it: rename that" in str(raised.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("wired_executors", "expected module:Class"),
        (":Good", "expected module:Class"),
        ("wired_executors:", "expected module:Class"),
        ("wired_nowhere:Good", "No module named 'wired_nowhere'"),
        ("wired_broken:Good", "No module named 'no_such_package_at_all'"),
        ("wired_executors:Missing", "has no 'Missing'"),
        ("wired_executors:Stranger", "is a class but not a TaskExecutor"),
        ("wired_executors:Unwritten", "does not define execute"),
        ("wired_executors:NUMBER", "is a int"),
    ],
)
def test_a_bad_path_says_which_part_is_wrong(folder: Path, path: str, said: str) -> None:
    """One error class, and the text tells them apart."""
    with pytest.raises(InvalidExecutor) as caught:
        load_executors([path])

    assert path in str(caught.value)
    assert said in str(caught.value)


def _with_execute(execute: object) -> type[TaskExecutor]:
    made: type[TaskExecutor] = type("Made", (TaskExecutor,), {"execute": execute})
    return made


class _NeedsName(TaskExecutor):
    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, task: Task) -> None:
        """Do nothing."""


def _yields(_self: object, _task: object) -> Iterator[None]:
    yield


async def _yields_later(_self: object, _task: object) -> AsyncIterator[None]:
    yield


def _wrapped(needs_more: Callable[..., None]) -> Callable[..., None]:
    @wraps(needs_more)
    def passes_it(*arguments: object) -> None:
        needs_more(*arguments, "more")

    return passes_it


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (json.loads, "cannot be called without arguments (missing a required argument: 's')"),
        (_NeedsName, "cannot be called without arguments (missing a required argument: 'name')"),
        (_with_execute(lambda self, task: None)(), "it is an instance of Made: pass the class"),
        (_with_execute(lambda self: None), "Made.execute cannot take one task"),
        (_with_execute(lambda self, task, more: None), "Made.execute cannot take one task"),
        (_with_execute(staticmethod(lambda self, task: None)), "Made.execute cannot take one task"),
        (_with_execute(_yields), "Made.execute yields"),
        (_with_execute(_yields_later), "Made.execute yields"),
    ],
)
def test_what_can_never_run_a_task_is_refused(found: object, part: str) -> None:
    """Without calling anything of the user's."""
    with pytest.raises(InvalidExecutor, match=re.escape(part)):
        checked_factory("it", found)


@pytest.mark.parametrize(
    "found",
    [
        partial(_NeedsName, "a name"),
        _with_execute(staticmethod(lambda task: None)),
        _with_execute(classmethod(lambda cls, task: None)),
        _with_execute(lambda self, task, more=None: None),
        _with_execute(lambda *arguments: None),
        _with_execute(_wrapped(lambda self, task, more: None)),
        _with_execute(partial(print)),
    ],
)
def test_what_may_run_a_task_is_not(found: object) -> None:
    """A decorator may pass more than it is given."""
    assert checked_factory("it", found) is found


@pytest.mark.parametrize(
    ("made", "part"),
    [
        ("text", "it returned a str: expected a TaskExecutor"),
        (_with_execute(lambda self: None)(), "Made.execute cannot take one task"),
    ],
)
def test_a_function_is_called_once_to_see_what_it_returns(made: object, part: str) -> None:
    """Its product's class says whether it can take a task."""
    with pytest.raises(InvalidExecutor, match=re.escape(part)):
        tried_factory("it", lambda: made)


def test_a_class_is_not_made_to_be_tried() -> None:
    """A constructor is user code, and may do anything."""

    class Counted(TaskExecutor):
        made = 0

        def __init__(self) -> None:
            Counted.made += 1

        def execute(self, task: Task) -> None:
            """Do nothing."""

    assert tried_factory("it", Counted) is Counted
    tried_factory("it", partial(Counted))
    assert Counted.made == 0


def test_a_function_that_raises_may_work_later() -> None:
    """What it needs may be away for a moment; each attempt says so until then."""

    def fail() -> TaskExecutor:
        raise OSError("away")

    assert tried_factory("it", fail) is fail
