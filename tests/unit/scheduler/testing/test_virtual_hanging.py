"""Hangs that a test scripts in threads and coroutines: they go as those of a node."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
import tenacity

from hourhand import BatchExecutor, RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.operations.events import AttemptAbandoned, AttemptStuck
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import NOON, a_task

MINUTE, SECONDS_90 = timedelta(minutes=1), timedelta(seconds=90.5)


class InThread(TaskExecutor):
    """Is called in a thread."""

    retry = RetryPolicy(attempts_max=3, wait=tenacity.wait_fixed(10))

    def execute(self, task: Task) -> None:
        """Succeed."""


class AsCoroutine(TaskExecutor):
    """Is called as a coroutine."""

    retry = InThread.retry

    async def execute(self, task: Task) -> None:
        """Succeed."""


class ThreadRows(BatchExecutor):
    """Runs batches in a thread."""

    retry = InThread.retry

    def execute_many(self, tasks: Sequence[Task]) -> None:
        """Succeed."""


class AsyncRows(BatchExecutor):
    """Runs batches as coroutines."""

    retry = InThread.retry

    async def execute_many(self, tasks: Sequence[Task]) -> None:
        """Succeed."""


def hung(executor: type[TaskExecutor], tree: TreeSettings | None = None) -> VirtualScheduler:
    """Return a scheduler whose first attempt has begun, and hangs."""
    scheduler = VirtualScheduler(executor, tree=tree, now=NOON)
    scheduler.next_attempt(ordering_id="customer-7").hangs()
    scheduler.schedule_task(a_task())
    scheduler.schedule_task(a_task(name="2"))
    scheduler.run_due()
    assert not scheduler.executions
    return scheduler


def told(scheduler: VirtualScheduler) -> list[tuple[str, int]]:
    """Return which limits were passed, with their milliseconds."""
    return [(each.limit, each.limit_ms) for each in scheduler.telemetry.of(AttemptStuck)]


@pytest.mark.parametrize("made", [InThread, ThreadRows])
def test_a_thread_that_hangs_is_told_of_and_keeps_its_ordering_id(made: type[TaskExecutor]) -> None:
    """Once for its timeout and once for its silence; nobody can end it."""

    class Limited(made):  # type: ignore[valid-type, misc]
        timeout, stuck_after = MINUTE, SECONDS_90

    scheduler = hung(Limited)

    scheduler.advance(milliseconds=59_999)
    before = told(scheduler)
    scheduler.advance(milliseconds=1)
    timed_out = told(scheduler)
    scheduler.advance(milliseconds=30_499)
    same = told(scheduler)
    scheduler.advance(hours=2)

    assert before == [] and timed_out == same == [("timeout", 60_000)]
    assert told(scheduler) == [("timeout", 60_000), ("stuck_after", 90_500)]
    with pytest.raises(AssertionError, match="still open after 366 days"):
        scheduler.drain()


@pytest.mark.parametrize("made", [AsCoroutine, AsyncRows])
def test_a_coroutine_that_hangs_is_cancelled_as_stuck(made: type[TaskExecutor]) -> None:
    """The next attempt follows by the policy, and then what waits behind it."""

    class Silent(made):  # type: ignore[valid-type, misc]
        stuck_after = SECONDS_90

    scheduler = hung(Silent)

    assert scheduler.advance(milliseconds=90_499) == []
    (stuck,) = scheduler.advance(milliseconds=1)

    assert told(scheduler) == [("stuck_after", 90_500)]
    assert stuck.result.value == "timeout"
    assert stuck.error_message == "stuck: no checkpoint for 90.5 s (stuck_after)"
    ran = [(each.key.uniqueness_key, each.attempt) for each in scheduler.drain()]
    assert ran == [("1", 2), ("2", 1)]


def test_a_coroutine_that_hangs_ends_at_its_timeout() -> None:
    """Before it counts as stuck."""

    class Limited(AsCoroutine):
        timeout, stuck_after = MINUTE, SECONDS_90

    scheduler = hung(Limited)

    (timed_out,) = scheduler.advance(minutes=1)

    assert (timed_out.result.value, timed_out.error_class) == ("timeout", "TimeoutError")
    assert timed_out.at == NOON + MINUTE and told(scheduler) == []


def test_the_setting_is_for_what_declares_no_limit() -> None:
    """As on a node."""
    tree = TreeSettings(execution=ExecutionSettings(stuck_after_ms=5_000))
    scheduler = hung(AsCoroutine, tree)

    (stuck,) = scheduler.advance(seconds=5)

    assert stuck.result.value == "timeout"


def test_a_command_ends_a_coroutine_and_no_thread() -> None:
    """The thread is asked, and does not listen."""
    outcomes = []
    for made in (AsCoroutine, InThread):
        scheduler = hung(made)
        receipt = scheduler.client.cancel_task(a_task().key, running=True).result()
        scheduler.advance(seconds=1)
        outcome = scheduler.client.outcome(receipt)
        assert outcome is not None
        outcomes.append(outcome.outcome.value)
        assert scheduler.result_of(a_task().key) is CompletionResult.CANCELLED

    assert outcomes == ["cancelled", "running"]


@pytest.mark.parametrize("made", [InThread, AsCoroutine])
def test_a_stop_leaves_what_hangs_behind(made: type[TaskExecutor]) -> None:
    """At the drain deadline; the next node starts the task again."""
    scheduler = hung(made)

    scheduler.restart()

    assert [each.key.uniqueness_key for each in scheduler.executions][-2:] == ["1", "2"]
    assert len(scheduler.telemetry.of(AttemptAbandoned)) == 1


def test_a_task_of_one_attempt_that_takes_its_node_along_starts_twice() -> None:
    """A crash while it hangs is that of a task which ends its node."""

    class Once(InThread):
        retry = RetryPolicy(attempts_max=1)

    scheduler = VirtualScheduler(Once, now=NOON)
    scheduler.next_attempt().hangs(times=9)
    scheduler.schedule_task(a_task())
    scheduler.run_due()
    results = []
    for _ in range(2):
        scheduler.crash()
        results.append(scheduler.result_of(a_task().key))

    assert results == [None, CompletionResult.FAILURE]
