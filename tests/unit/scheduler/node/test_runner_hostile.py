"""NodeRunner: user code that is hostile to whoever looks at it costs one attempt, no worker."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.execution.batch_executor import BatchExecutor
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.executors.batches import KindBatches
from hourhand.scheduler.executors.guests import GuestKind
from hourhand.scheduler.executors.middleware import MiddlewareStack
from hourhand.scheduler.ports.batches import BatchMember
from tests.builders import an_attempt
from tests.unit.scheduler.node.runner_bench import (
    TIMEOUT_S,
    WORKERS,
    Bench,
    Blocking,
    Quick,
    task_of,
)


def _refuse(_self: object) -> object:
    raise SystemExit("not for you")


# Made by hand: a checker of types rightly refuses such overrides.
_Unreadable: type[Exception] = type(
    "_Unreadable", (Exception,), {"__str__": _refuse, "__cause__": property(_refuse)}
)
_UnreadableNotes: type[Exception] = type(
    "_UnreadableNotes", (Exception,), {"__notes__": property(_refuse)}
)


def _setter(name: str, error: type[BaseException]) -> property:
    """Return an attribute that can be read and raises when it is set."""

    def refuse(_self: object, _value: object) -> None:
        raise error(f"{name} is mine")

    return property(lambda _self: 0, refuse)


def _refusing(base: type, name: str, error: type[BaseException]) -> Executable:
    """Return an executor that lets nobody tell it its attempt, or its fence."""
    made: Executable = type("Refusing", (base,), {name: _setter(name, error)})()
    return made


class _Plain:
    """A blocking executor without a constructor."""

    attempt = 0
    fence = 0

    def execute(self, task: Task) -> Outcome | None:
        """End well."""
        return None


class _Raising:
    """An async executor that raises what it is given."""

    attempt = 0
    fence = 0
    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def execute(self, task: Task) -> None:
        """Raise after it was suspended once."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        loop.call_soon(woken.set_result, None)
        await woken
        raise self.error


def _expect_all_workers(bench: Bench, make: Callable[[], Executable]) -> None:
    """Every worker, and the loop, goes on: as many attempts in a row as would use them up."""
    for number in range(WORKERS + 1):
        bench.run(make(), an_attempt(task=task_of(f"after-{number}")))
        assert bench.ended().ending is Ending.DONE


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["attempt", "fence"])
def test_an_executor_that_refuses_its_attributes_has_failed(
    bench: Bench, name: str, error: type[BaseException], *, suspect: bool
) -> None:
    """Setting them is user code too; all workers are used up once and are there again."""
    for number in range(WORKERS + 1):
        attempt = an_attempt(task=task_of(f"id-{number}"), suspect=suspect)
        bench.run(_refusing(_Plain, name, error), attempt)
        ended = bench.ended()
        assert (ended.attempt, ended.ending) == (attempt, Ending.FAILED)
        assert (ended.error_class, ended.error_message) == (error.__name__, f"{name} is mine")

    _expect_all_workers(bench, Blocking)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["attempt", "fence"])
def test_an_async_executor_that_refuses_its_attributes_has_failed(
    bench: Bench, name: str, error: type[BaseException]
) -> None:
    """The loop, which all async attempts share, goes on."""
    for number in range(WORKERS + 1):
        attempt = an_attempt(task=task_of(f"id-{number}"))
        bench.run(_refusing(Quick, name, error), attempt)
        ended = bench.ended()
        assert (ended.attempt, ended.ending) == (attempt, Ending.FAILED)
        assert (ended.error_class, ended.error_message) == (error.__name__, f"{name} is mine")

    bench.run(Quick())
    assert bench.ended().ending is Ending.DROPPED


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize("error", [_Unreadable, _UnreadableNotes])
def test_an_error_that_cannot_be_shown_is_a_failed_attempt(
    bench: Bench, error: type[Exception], *, suspect: bool
) -> None:
    """History says that it cannot; the worker lives on."""

    def fail() -> None:
        raise error

    for number in range(WORKERS + 1):
        bench.run(Blocking(fail), an_attempt(task=task_of(f"id-{number}"), suspect=suspect))
        ended = bench.ended()
        assert ended.ending is Ending.FAILED and ended.error_class == error.__name__
        assert ended.error_stack == "its trace cannot be shown"

    _expect_all_workers(bench, Blocking)


@pytest.mark.parametrize("error", [_Unreadable(), _UnreadableNotes()])
def test_an_async_error_that_cannot_be_shown_is_a_failed_attempt(
    bench: Bench, error: Exception
) -> None:
    """The same on the loop."""
    for number in range(WORKERS + 1):
        bench.run(_Raising(error), an_attempt(task=task_of(f"id-{number}")))
        ended = bench.ended()
        assert ended.ending is Ending.FAILED and ended.error_class == type(error).__name__
        assert ended.error_stack == "its trace cannot be shown"

    bench.run(Quick())
    assert bench.ended().ending is Ending.DROPPED


def test_the_text_of_an_unreadable_error_is_said_to_be(bench: Bench) -> None:
    """In place of the message, which nobody can have."""
    bench.run(_Raising(_Unreadable()))

    assert bench.ended().error_message == "its message cannot be shown"


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


class _Secretive(type):
    """A metaclass that does not tell the name of its classes."""

    def __getattribute__(cls, name: str) -> object:
        return _refuse(cls) if name == "__qualname__" else type.__getattribute__(cls, name)


class _Nameless(Exception, metaclass=_Secretive):
    """An error of no name."""


def test_an_error_of_a_class_without_a_name_is_a_failed_attempt(bench: Bench) -> None:
    """A metaclass may be anybody's code too."""

    def fail() -> None:
        raise _Nameless

    bench.run(Blocking(fail))

    assert bench.ended().error_class == "class without a name"


@pytest.mark.parametrize("suspect", [False, True])
def test_where_the_machine_has_no_thread_a_task_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, suspect: bool
) -> None:
    """Nothing is raised where the tree would end of it, and no attempt is used up."""
    attempt = an_attempt(task=task_of("a"), suspect=suspect)
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    bench.run(Blocking(), attempt)
    assert bench.ended().ending is Ending.NOT_STARTED
    monkeypatch.undo()
    bench.run(Blocking(), attempt)

    assert bench.ended().ending is Ending.DONE


def test_fewer_workers_than_allowed_do_all_the_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one starts as soon as the machine has a thread for it."""
    bench.run(Blocking(), an_attempt(task=task_of("first")))
    assert bench.ended().ending is Ending.DONE
    free = threading.Event()
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    bench.run(Blocking(free.wait), an_attempt(task=task_of("a")))
    bench.run(Blocking(), an_attempt(task=task_of("b")))
    monkeypatch.undo()
    bench.run(Blocking(), an_attempt(task=task_of("c")))

    assert {bench.ended().attempt.task.key.ordering_id for _ in range(2)} == {"b", "c"}
    free.set()
    assert bench.ended().attempt.task.key.ordering_id == "a"


def test_a_start_that_nobody_can_make_durable_is_tried_again(bench: Bench) -> None:
    """Whatever it fails with: an attempt without an end would hold its ordering id for ever."""

    def fail(_attempts: Sequence[Attempt]) -> "Future[None]":
        failed = Future[None]()
        failed.set_exception(SystemExit("no"))
        return failed

    for make in (Blocking, Quick):
        bench.run(make(), replace(an_attempt(task=task_of("id")), record_starts=fail))
        assert bench.ended().ending is Ending.NOT_STARTED

    _expect_all_workers(bench, Blocking)


def _refuse_task(*_args: object, **_more: object) -> Any:
    raise RuntimeError("no task is made here")


def _replace_factory(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_task_factory(_refuse_task)


def _replace_executor(loop: asyncio.AbstractEventLoop) -> None:
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    loop.set_default_executor(ended)


class _Replacing(Quick):
    """Replaces something of the loop that it finds."""

    def __init__(self, replace_it: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        super().__init__()
        self._replace_it = replace_it

    async def execute(self, task: Task) -> Outcome | None:
        """Replace it for good."""
        self._replace_it(asyncio.get_running_loop())
        return await super().execute(task)


async def _nothing() -> None:
    """End well."""


class _Awaited(TaskExecutor):
    """A blocking executor that returns what is to be awaited."""

    def execute(self, task: Task) -> Awaitable[None]:
        """End well on the loop."""
        return _nothing()


class _AsyncBatch(BatchExecutor):
    """Its batches run on the loop."""

    batch_tasks_max = 1

    async def execute_many(self, tasks: Sequence[Task]) -> None:
        """End well."""


def _batch_member() -> TaskExecutor:
    return BatchMember(KindBatches(GuestKind(_AsyncBatch), MiddlewareStack()))


def _given_up(ordering_id: str) -> Attempt:
    """Return an attempt of what an operator brings back, whose start is durable at once."""
    task = task_of(ordering_id)
    task = replace(task, attempts=replace(task.attempts, used=1, next_attempt_ms=0))
    durable = Future[None]()
    durable.set_result(None)
    attempt = replace(an_attempt(task=task), record_starts=lambda _attempts: durable)
    assert attempt.was_given_up
    return attempt


@pytest.mark.parametrize("replace_it", [_replace_factory, _replace_executor])
@pytest.mark.parametrize("make", [Quick, _Awaited, _batch_member])
def test_what_user_code_replaces_on_the_loop_serves_no_other_attempt(
    bench: Bench,
    replace_it: Callable[[asyncio.AbstractEventLoop], None],
    make: Callable[[], Executable],
) -> None:
    """Neither a coroutine, nor what a thread awaits, nor a batch, nor what was given up."""
    bench.run(_Replacing(replace_it), an_attempt(task=task_of("replacing")))
    assert bench.ended().ending is Ending.DROPPED

    for attempt in (an_attempt(task=task_of("plain")), _given_up("given up")):
        bench.run(make(), attempt)
        ended = bench.ended()
        assert ended.ending in {Ending.DONE, Ending.DROPPED}, ended.error_stack


def test_what_is_cancelled_while_its_start_becomes_durable_has_not_begun(bench: Bench) -> None:
    """Whoever cancels all tasks of the loop cancels no attempt's user code then."""
    asked = Future[None]()

    def record(_attempts: Sequence[Attempt]) -> "Future[None]":
        asked.set_result(None)
        return Future()

    def cancel_others(_loop: asyncio.AbstractEventLoop) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    waiting = replace(_given_up("waiting"), record_starts=record)
    bench.run(Quick(), waiting)
    asked.result(TIMEOUT_S)
    bench.run(_Replacing(cancel_others), an_attempt(task=task_of("cancelling")))

    ends = {ended.attempt.task.key.ordering_id: ended for ended in (bench.ended(), bench.ended())}
    assert ends["waiting"].ending is Ending.NOT_STARTED
    assert ends["cancelling"].ending is Ending.DROPPED


def test_the_loop_cannot_be_closed_by_user_code(bench: Bench) -> None:
    """Stopped, a loop could be closed from another thread, with all attempts that wait on it."""
    found = Future[asyncio.AbstractEventLoop]()
    bench.run(_Replacing(found.set_result), an_attempt(task=task_of("finding")))
    assert bench.ended().ending is Ending.DROPPED

    with pytest.raises(RuntimeError, match="Hourhand closes its event loop itself"):
        found.result().close()

    bench.run(Quick())
    assert bench.ended().ending is Ending.DROPPED


def test_what_user_code_lets_loose_on_the_loop_leaves_it_running(bench: Bench) -> None:
    """Its runner lets these out of the loop, and anybody may stop it."""

    class Loose(Quick):
        async def execute(self, task: Task) -> Outcome | None:
            loop = asyncio.get_running_loop()
            loop.call_soon(_refuse, None)
            loop.stop()
            return await super().execute(task)

    for number in range(3):
        bench.run(Loose(), an_attempt(task=task_of(f"id-{number}")))
        assert bench.ended().ending is Ending.DROPPED
