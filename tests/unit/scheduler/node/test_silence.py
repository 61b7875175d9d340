"""Attempts without a checkpoint: which ones are told of as stuck, and which ones are ended."""

import threading
from collections.abc import Iterator

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFailed, AttemptStuck
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.silence import STOOD_STILL_MS, SilenceLimits, SilenceWatch
from tests.builders import a_stored_task, an_attempt
from tests.unit.scheduler.executors.test_batches import insert
from tests.unit.scheduler.node.runner_bench import TIMEOUT_S, Bench, Waiting

STUCK_MS = 10_000


class SilenceBench(Bench):
    """A runner under a virtual clock, looked at ten times a second."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(clock=self.clock)
        self.calls.silence_limits = SilenceLimits(default_ms=STUCK_MS)
        self.batches: list[list[RunningAttempt]] = []
        calls = self.calls
        self.watch = SilenceWatch(
            *(calls.registry, calls.stuck, calls.silence_limits), lambda: self.batches, self.clock
        )

    def wait(self, duration_ms: int) -> None:
        """Let time pass."""
        for _ in range(duration_ms // 100):
            self.clock.advance(100)
            self.watch.look()

    @property
    def told(self) -> list[AttemptStuck]:
        """Stuck attempts as they were told, in order."""
        return self.telemetry.of(AttemptStuck)


@pytest.fixture
def bench() -> Iterator[SilenceBench]:
    """Its threads end with the test."""
    made = SilenceBench()
    yield made
    made.close()


class Told(TaskExecutor):
    """Blocks until it is let go, or fails."""

    def __init__(self) -> None:
        self.begun, self.left, self.error = threading.Event(), threading.Event(), None

    def execute(self, task: Task) -> None:
        """Wait."""
        self.begun.set()
        self.left.wait(TIMEOUT_S)
        raise ValueError(task.ordering_id)


def test_a_blocking_attempt_is_told_of_once_for_each_silence(bench: SilenceBench) -> None:
    """It runs on, and what it comes to is its own; a checkpoint begins another silence."""
    executor = Told()
    attempt = bench.run(executor)
    assert executor.begun.wait(TIMEOUT_S)
    running = bench.calls.registry.find(attempt)
    assert running is not None

    bench.wait(STUCK_MS - 300)
    early = list(bench.told)
    bench.wait(STUCK_MS)
    assert not early
    assert bench.told == [AttemptStuck(0, attempt.task.key, "stuck_after", STUCK_MS)]
    assert running in bench.calls.stuck

    executor.checkpoint(1)
    bench.wait(STUCK_MS - 300)
    assert (len(bench.told), running in bench.calls.stuck) == (1, False)
    bench.wait(600)
    assert len(bench.told) == 2

    executor.left.set()
    ended = bench.ended()
    assert (ended.ending, ended.error_class) == (Ending.FAILED, "ValueError")
    bench.wait(300)
    assert running not in bench.calls.stuck


def test_a_coroutine_is_cancelled_and_its_end_says_why(bench: SilenceBench) -> None:
    """As after a timeout; the retry policy judges the error."""
    executor = Waiting()
    bench.run(executor)
    assert executor.begun.wait(TIMEOUT_S)

    bench.wait(STUCK_MS + 300)

    ended = bench.ended()
    assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")
    assert ended.error_message == "stuck: no checkpoint for 10 s (stuck_after)"
    assert "in execute" in (ended.error_stack or ""), "where it waited"
    assert ended.ruling is not None and ended.ruling.attempts_max == RetryPolicy().attempts_max
    assert len(bench.telemetry.of(AttemptFailed)) == 1


def test_time_in_which_the_node_stood_still_does_not_count(bench: SilenceBench) -> None:
    """Code stood still as well, and what it said meanwhile is not heard of yet."""
    executor = Waiting()
    bench.run(executor)
    assert executor.begun.wait(TIMEOUT_S)
    bench.wait(STUCK_MS - 1_000)

    bench.clock.advance(STOOD_STILL_MS + 60_000)
    bench.wait(STUCK_MS - 300)
    early = list(bench.told)
    bench.wait(1_000)

    assert (early, len(bench.told)) == ([], 1)


def test_a_kind_has_the_limit_that_it_declares() -> None:
    """Others have the node's, or none."""
    attempt = an_attempt(task=a_stored_task(due_in_ms=0))

    found = [
        SilenceLimits({None: 5}, 7).of(attempt),
        SilenceLimits({"other": 5}, 7).of(attempt),
        SilenceLimits({"other": 5}).of(attempt),
    ]

    assert found == [5, 7, None]
    assert [SilenceLimits().is_any, SilenceLimits({None: 1}).is_any] == [False, True]


@pytest.mark.parametrize("how", ["thread", "loop"])
def test_a_checkpoint_of_one_task_speaks_for_its_batch(bench: SilenceBench, how: str) -> None:
    """All are one call; a batch beside it is another one."""
    users = UserExecutors.of(insert())
    starts = [
        (an_attempt(task=a_stored_task(due_in_ms=0, ordering_id=name)), users.make(None))
        for name in ("a", "b", "alone")
    ]
    a, b, alone = bench.calls.registry.add(starts, bench.ends.put)
    for together in ([a, b], [alone]):
        for running in together:
            bench.calls.registry.begin(running, bench.clock.monotonic_ms())
            running.task = together if how == "loop" else None
        if how == "thread":
            bench.batches.append(together)

    bench.wait(STUCK_MS - 1_000)
    b.make(b"1")
    bench.wait(1_300)
    first = [each.key.ordering_id for each in bench.told]
    bench.wait(STUCK_MS)

    assert first == ["alone"]
    assert sorted(each.key.ordering_id for each in bench.told) == ["a", "alone", "b"]
