"""NodeRunner: what is told of an attempt, to its listener, to operators and to user code."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.outcome import Retry
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFailed, AttemptStarted, Event
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.task.task import AttemptState, Task
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.node.endings import ERROR_STACK_CHARS_MAX
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt
from tests.conformance.telemetry import Unshowable
from tests.unit.scheduler.node.runner_bench import (
    TIMEOUT_S,
    Bench,
    Blocking,
    Quick,
    Waiting,
    task_of,
)


def fail() -> None:
    """Fail as user code does."""
    raise ValueError("no")


class Failing(Quick):
    """An async executor that fails at once."""

    async def execute(self, task: Task) -> None:
        """Fail."""
        fail()


class Promising:
    """A blocking executor that returns an awaitable, which waits for ever."""

    attempt = 0
    fence = 0

    def execute(self, task: Task) -> Awaitable[None]:
        """Promise."""
        return Waiting().execute(task)


@pytest.mark.parametrize(
    "executor", [Blocking(), Blocking(fail), Quick(), Failing(), Waiting(), Promising()]
)
def test_an_end_says_when_user_code_began_and_ended(bench: Bench, executor: Executable) -> None:
    """True if it ended well, failed or took too long; as history shows it."""
    clock = SystemClock()
    asked_ms = clock.now_ms()

    bench.run(executor, an_attempt(timeout_ms=None if isinstance(executor, Blocking) else 20))
    ended = bench.ended()

    assert asked_ms <= ended.started_ms <= ended.finished_ms <= clock.now_ms()


@pytest.mark.parametrize("executor", [Blocking, Quick])
def test_an_attempt_that_was_not_begun_says_when_that_was_decided(
    bench: Bench, executor: type[Blocking] | type[Quick], caplog: pytest.LogCaptureFixture
) -> None:
    """Blocking and async, and no fault of ours is logged."""
    clock = SystemClock()
    asked_ms = clock.now_ms()
    bench.open = False

    bench.run(executor())
    ended = bench.ended()

    assert ended.ending is Ending.NOT_STARTED
    assert asked_ms <= ended.finished_ms <= clock.now_ms() and not caplog.text


@pytest.mark.parametrize("executor", [Blocking, Quick])
def test_p15_a_start_is_not_recorded_behind_a_closed_gate(
    bench: Bench, executor: type[Blocking] | type[Quick]
) -> None:
    """What lost its lease writes nothing more."""
    asked: list[Attempt] = []
    bench.open = False

    def record(attempts: Sequence[Attempt]) -> "Future[None]":
        asked.extend(attempts)
        return Future()

    bench.run(executor(), replace(an_attempt(), record_starts=record))

    assert bench.ended().ending is Ending.NOT_STARTED and not asked


def test_the_start_of_a_retry_is_late_by_what_passed_since_it_was_due(bench: Bench) -> None:
    """Not since its task was due first."""
    now_ms = SystemClock().now_ms()
    retried = AttemptState(next_attempt_ms=now_ms - 500)

    bench.run(Blocking(), an_attempt(task=a_stored_task(due_in_ms=0, attempts=retried)))
    bench.ended()
    later_ms = SystemClock().now_ms() - now_ms

    (told,) = bench.telemetry.of(AttemptStarted)
    assert 500 <= told.delay_ms <= 500 + later_ms


@pytest.mark.parametrize(
    ("executor", "timeout_ms", "error_class", "result"),
    [
        (Blocking(fail), None, ValueError, AttemptResult.FAILURE),
        (Blocking(lambda: "done"), None, TypeError, AttemptResult.FAILURE),
        (Failing(), None, ValueError, AttemptResult.FAILURE),
        (Waiting(), 20, TimeoutError, AttemptResult.TIMEOUT),
        (Promising(), 20, TimeoutError, AttemptResult.TIMEOUT),
    ],
)
def test_the_error_of_a_failed_attempt_is_told_once(
    bench: Bench,
    executor: Executable,
    timeout_ms: int | None,
    error_class: type[Exception],
    result: AttemptResult,
) -> None:
    """The exception itself, with its trace, before anybody hears of the end."""
    attempt = bench.run(executor, an_attempt(number=3, timeout_ms=timeout_ms))
    ended = bench.ended()

    (told,) = bench.telemetry.of(AttemptFailed)
    assert (told.partition, told.key, told.attempt) == (0, attempt.task.key, 3)
    assert isinstance(told.error, error_class) and told.error.__traceback__ is not None
    assert (told.result, told.duration_ms) == (result, ended.finished_ms - ended.started_ms)
    assert told.is_showable and told.stack == ended.error_stack is not None


def test_an_error_whose_trace_cannot_be_shown_says_so(bench: Bench) -> None:
    """A logger need not try it, which costs as much as all else that a failure does."""

    def fail() -> None:
        raise Unshowable

    bench.run(Blocking(fail))
    bench.ended()

    (told,) = bench.telemetry.of(AttemptFailed)
    assert not told.is_showable and told.stack is None


def test_a_stack_that_history_cuts_is_left_to_the_handlers_of_the_log(bench: Bench) -> None:
    """They show all of it."""

    def fail() -> None:
        raise ValueError("x" * ERROR_STACK_CHARS_MAX)

    bench.run(Blocking(fail))
    ended = bench.ended()

    (told,) = bench.telemetry.of(AttemptFailed)
    assert told.is_showable and told.stack is None
    assert len(ended.error_stack or "") == ERROR_STACK_CHARS_MAX


@pytest.mark.parametrize("executor", [Blocking(), Quick(), Blocking(Retry)])
def test_an_attempt_that_ends_as_it_wants_to_has_no_error_to_tell(
    bench: Bench, executor: Executable
) -> None:
    """A retry that is asked for is no error."""
    bench.run(executor)
    bench.ended()

    assert not bench.telemetry.of(AttemptFailed)


def test_what_ends_after_its_drain_deadline_is_told_unless_it_was_cancelled(bench: Bench) -> None:
    """Nobody hears of its end; but whoever reads the log should know of the error."""
    begun, gate, told = threading.Event(), threading.Event(), threading.Event()
    waiting = Waiting()

    def work() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)
        raise LookupError("late")

    class Telling(RecordingTelemetry):
        def emit(self, event: Event) -> None:
            super().emit(event)
            if isinstance(event, AttemptFailed):
                told.set()

    bench.calls.telemetry = telemetry = Telling()
    bench.run(waiting, an_attempt(task=task_of("cancelled")))
    bench.run(Blocking(work))
    assert begun.wait(TIMEOUT_S) and waiting.begun.wait(TIMEOUT_S)
    bench.runner.drain((0,), give_up="the test says so")
    assert waiting.cancelled.wait(TIMEOUT_S)
    gate.set()

    assert told.wait(TIMEOUT_S)
    assert [type(event.error) for event in telemetry.of(AttemptFailed)] == [LookupError]


@pytest.mark.parametrize("suspect", [False, True])
def test_user_code_is_given_the_task_on_a_thread_that_keeps_no_process(
    bench: Bench, *, suspect: bool
) -> None:
    """Its name tells in a dump of threads what runs there."""
    given: list[Task] = []
    threads: list[threading.Thread] = []

    class Noting(Blocking):
        def execute(self, task: Task) -> None:
            given.append(task)
            threads.append(threading.current_thread())

    attempt = bench.run(Noting(), an_attempt(suspect=suspect))
    bench.ended()

    assert given == [attempt.task.to_task()] and threads[0].daemon
    assert threads[0].name == ("hourhand-suspects-0" if suspect else "hourhand-worker-0")


def test_a_listener_that_fails_is_logged_and_costs_no_worker(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a fault of ours, and the next attempt runs."""

    def refuse(_ended: AttemptEnded) -> None:
        raise ValueError("nobody listens")

    ends: SimpleQueue[AttemptEnded] = SimpleQueue()

    with caplog.at_level(logging.ERROR, "hourhand.runner"):
        bench.runner.start([(an_attempt(suspect=True), Blocking())], refuse)
        bench.runner.start([(an_attempt(task=task_of("b"), suspect=True), Blocking())], ends.put)
        ended = ends.get(timeout=TIMEOUT_S)

    assert ended.ending is Ending.DONE
    assert "a worker failed outside user code" in caplog.text


@pytest.mark.parametrize(("is_async", "where"), [(False, "thread"), (True, "loop")])
def test_who_looks_is_told_where_an_attempt_runs(bench: Bench, is_async: bool, where: str) -> None:
    """A suspect runs in a thread, too, whatever it is."""
    waiting, go = Waiting(), threading.Event()
    attempt = bench.run(waiting if is_async else Blocking(partial(go.wait, TIMEOUT_S)))

    told = bench.runner.where(attempt)
    go.set()
    bench.runner.withdraw(attempt, interrupts=True)

    assert told == where and bench.runner.where(an_attempt()) == ""


# A command asks what runs to end.


def test_p6_a_coroutine_that_is_asked_to_end_is_cancelled(bench: Bench) -> None:
    """Nobody is told of a failure: this end was wanted."""
    executor = Waiting()
    attempt = bench.run(executor)
    assert executor.begun.wait(TIMEOUT_S)

    withdrawn = bench.runner.withdraw(attempt, interrupts=True)
    ended = bench.ended()

    assert not withdrawn and executor.cancelled.is_set()
    assert (ended.ending, ended.error_class, ended.ruling) == (
        Ending.CANCELLED,
        "CancelledError",
        None,
    )
    assert not bench.telemetry.of(AttemptFailed)


@pytest.mark.parametrize("raises", [False, True])
def test_p6_code_in_a_thread_sees_that_it_is_to_end(bench: Bench, raises: bool) -> None:
    """Whatever it makes of that counts for nothing, and the next attempt is not asked."""
    begun, told, seen = threading.Event(), threading.Event(), []

    class Long(TaskExecutor):
        def execute(self, task: Task) -> None:
            seen.append(self.cancelled)
            begun.set()
            assert told.wait(TIMEOUT_S)
            seen.append(self.cancelled)
            if raises:
                raise ValueError("asked to end")

    executor = Long()
    attempt = bench.run(executor)
    assert begun.wait(TIMEOUT_S)
    bench.runner.withdraw(attempt, interrupts=True)
    told.set()
    first = bench.ended()
    bench.run(executor)
    bench.ended()

    assert first.ending is Ending.CANCELLED
    assert seen[:3] == [False, True, False]


def test_p6_a_coroutine_that_swallows_its_cancellation_runs_on(bench: Bench) -> None:
    """It is asked again by a second command."""
    stubborn = Stubborn()
    attempt = bench.run(stubborn)
    assert stubborn.begun.wait(TIMEOUT_S)

    bench.runner.withdraw(attempt, interrupts=True)
    assert stubborn.swallowed.wait(TIMEOUT_S)
    still_runs = attempt in bench.runner.long_running(attempt.partition, 0)
    bench.runner.withdraw(attempt, interrupts=True)

    assert still_runs and bench.ended().ending is Ending.CANCELLED


def test_what_ended_before_it_was_asked_counts(bench: Bench) -> None:
    """Its end is on its way."""
    attempt = bench.run(Blocking())
    ended = bench.ends.get(timeout=TIMEOUT_S)

    withdrawn = bench.runner.withdraw(attempt, interrupts=True)

    assert not withdrawn and ended.ending is Ending.DONE


def test_blocking_code_that_awaits_ends_when_its_coroutine_has_ended(bench: Bench) -> None:
    """Its thread waits for what the coroutine does last."""
    begun, cleans_up, may_end = threading.Event(), threading.Event(), threading.Event()

    async def awaited() -> None:
        loop = asyncio.get_running_loop()
        begun.set()
        try:
            await loop.create_future()
        finally:
            cleans_up.set()
            await loop.run_in_executor(None, may_end.wait, TIMEOUT_S)

    attempt = bench.run(Blocking(awaited))
    assert begun.wait(TIMEOUT_S)

    bench.runner.withdraw(attempt, interrupts=True)
    assert cleans_up.wait(TIMEOUT_S)
    still_runs = bench.ends.empty() and bench.runner.unsettled(attempt.partition)
    may_end.set()

    assert still_runs and bench.ended().ending is Ending.CANCELLED


class Stubborn(Waiting):
    """Swallows its first cancellation."""

    def __init__(self) -> None:
        super().__init__()
        self.swallowed = threading.Event()

    async def execute(self, task: Task) -> None:
        """Wait for ever, twice."""
        with suppress(asyncio.CancelledError):
            await super().execute(task)
        self.swallowed.set()
        await super().execute(task)
