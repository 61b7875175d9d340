"""The virtual workers: the same promises as real ones, one attempt at a time in a test's thread."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import Context

import pytest
from msgspec.structs import replace

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.execution.outcome import Drop, Outcome, Retry
from hourhand.actors.model.operations.events import AttemptAbandoned, AttemptStarted
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.testing import RecordingTelemetry
from hourhand.scheduler.testing.virtual import virtual_runner
from tests.builders import NOW_MS, RecordingExecutable, a_stored_task, an_attempt


class Async:
    """An async executor."""

    attempt = 0
    fence = 0
    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

    async def execute(self, task: Task) -> Outcome | None:
        """Ask for a retry."""
        return Retry()


class Bench:
    """A virtual runner whose gate the test holds."""

    def __init__(self) -> None:
        self.open = True
        self.clock = VirtualClock(NOW_MS)
        self.telemetry = RecordingTelemetry()
        self.ends: list[AttemptEnded] = []
        made = virtual_runner(
            clock=self.clock, gate=lambda _attempt: self.open, telemetry=self.telemetry
        )
        self.runner, self.run_one = made.runner, made.run_one

    def start(self, executor: Executable | None = None, attempt: Attempt | None = None) -> Attempt:
        """Queue an attempt."""
        started = attempt or an_attempt()
        self.runner.start([(started, executor or RecordingExecutable())], self.ends.append)
        return started

    @property
    def endings(self) -> list[Ending]:
        """How attempts ended so far."""
        return [ended.ending for ended in self.ends]


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (None, Ending.DONE),
        (Drop("old"), Ending.DROPPED),
        (ValueError("no"), Ending.FAILED),
        (Retry(), Ending.RETRY),
    ],
)
def test_an_attempt_runs_when_it_is_its_turn(
    outcome: Outcome | Exception | None, ending: Ending
) -> None:
    """Not by itself."""
    bench, executor = Bench(), RecordingExecutable(outcome)
    bench.start(executor, an_attempt(number=2, epoch=4))

    early = list(executor.ran)
    worked = bench.run_one()

    assert not early and worked and len(executor.ran) == 1
    assert bench.endings == [ending] and (executor.attempt, executor.fence) == (2, 4)
    assert not bench.run_one()


def test_what_a_test_logs_after_an_attempt_is_not_marked_as_its() -> None:
    """User code runs in the test's own thread here."""
    bench = Bench()
    bench.start()

    def marked_after_it() -> Attempt | None:
        bench.run_one()
        return current_attempt()

    # Tests before this one may have left a mark in the thread.
    assert Context().run(marked_after_it) is None


def test_an_async_execute_is_run_to_its_end() -> None:
    """In the caller's thread."""
    bench = Bench()
    bench.start(Async())

    bench.run_one()

    assert bench.endings == [Ending.RETRY]


def test_how_late_an_attempt_began_is_told() -> None:
    """From when it was due, or was to be tried again."""
    bench = Bench()
    bench.start()
    bench.clock.advance(25)

    bench.run_one()

    assert [event.delay_ms for event in bench.telemetry.of(AttemptStarted)] == [25]


def test_p15_the_gate_is_asked_last() -> None:
    """It may have closed since the attempt was queued."""
    bench, executor = Bench(), RecordingExecutable()
    bench.start(executor)

    bench.open = False
    bench.run_one()

    assert bench.endings == [Ending.NOT_STARTED] and not executor.ran


def test_user_code_waits_until_its_start_is_durable() -> None:
    """The store may take its time."""
    bench, executor, recorded = Bench(), RecordingExecutable(), Future[None]()
    bench.start(executor, replace(an_attempt(), record_starts=lambda _attempts: recorded))

    early = bench.run_one()
    recorded.set_result(None)
    bench.run_one()

    assert not early and len(executor.ran) == 1


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_start_that_could_not_be_recorded_calls_no_user_code(cancelled: bool) -> None:
    """As with the real runner: the tree went away, or the store did."""
    bench, executor, recorded = Bench(), RecordingExecutable(), Future[None]()
    bench.start(executor, replace(an_attempt(), record_starts=lambda _attempts: recorded))

    if cancelled:
        recorded.cancel()
    else:
        recorded.set_exception(StoreUnavailable("gone"))
    bench.run_one()

    assert not executor.ran and bench.endings == [Ending.NOT_STARTED]


def test_without_a_lease_no_start_is_recorded() -> None:
    """It would make a suspect of a task that never ran."""
    bench = Bench()
    asked: list[int] = []
    bench.open = False

    def record(_attempts: Sequence[Attempt]) -> "Future[None]":
        asked.append(1)
        return Future()

    bench.start(attempt=replace(an_attempt(), record_starts=record))

    assert not asked and bench.endings == [Ending.NOT_STARTED]


def test_p3_an_ordering_id_has_one_attempt_at_a_time() -> None:
    """Until its outcome is settled."""
    bench = Bench()
    attempt = bench.start()
    bench.run_one()

    with pytest.raises(AssertionError, match="still running"):
        bench.start(attempt=an_attempt(number=2))
    bench.runner.settle([attempt])
    bench.start(attempt=an_attempt(number=2))

    assert not bench.runner.long_running(attempt.partition, 0)


def test_p16_an_outcome_that_nobody_settled_is_told_to_the_adopter() -> None:
    """It ended while no tree was listening."""
    bench = Bench()
    attempt = bench.start()
    bench.run_one()
    adopted: list[AttemptEnded] = []

    unsettled = list(bench.runner.unsettled(0))
    bench.runner.adopt(attempt, adopted.append)

    assert unsettled == [attempt] and [ended.ending for ended in adopted] == [Ending.DONE]


def test_what_waits_in_the_queue_of_an_abandoned_partition_ends_unheard() -> None:
    """The gate is closed for it by then."""
    bench = Bench()
    bench.start()
    bench.start(attempt=an_attempt(task=a_stored_task(ordering_id="o", due_in_ms=0), partition=1))

    bench.runner.drain((0,), give_up="the test says so")
    bench.run_one()
    bench.run_one()

    assert len(bench.ends) == 1 and not bench.runner.unsettled(0, given_up=False)
    assert not bench.telemetry.of(AttemptAbandoned)
