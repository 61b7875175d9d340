"""P14: a stop lets running attempts finish up to a deadline, and loses nothing."""

import threading
from pathlib import Path

import pytest

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptAbandoned, PartitionRevoked, TreeRebuilt
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_task
from tests.promises.group import Group, Member

TASK = a_task(due_in_ms=1_000)


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("not this time")


def _drained(member: Member) -> list[bool]:
    events = member.telemetry.events
    return [event.drained for event in events if isinstance(event, PartitionRevoked)]


@pytest.mark.parametrize("outcome", [None, ValueError("not this time")])
def test_p14_a_running_attempt_may_end_and_its_outcome_is_kept(outcome: Exception | None) -> None:
    """Well or badly; the next task of its id does not start any more."""
    group = Group()
    member = group.join(held=True)
    group.append(TASK)
    group.append(a_task(due_in_ms=1_000, uniqueness_key="next"))
    group.advance(1_000)
    member.runner.begin()
    drained = member.virtual.node.request_stop()
    group.advance(5_000)
    waited = not drained.done()
    member.runner.end(outcome)
    group.settle()
    member.virtual.node.close()

    assert waited
    assert drained.done()
    assert member.runner.begin() == 0
    assert _drained(member) == [True]
    assert member.count(TreeRebuilt) == 0
    if outcome is None:
        assert group.result_of(TASK) is CompletionResult.SUCCESS
    else:
        [row] = group.data.attempts.of_key(0, TASK.key)
        assert (row.attempt, row.used) == (1, 1)


@pytest.mark.parametrize("state", ["waiting for a retry", "blocked", "idle"])
def test_p14_without_anything_running_it_ends_at_once(state: str) -> None:
    """What waits is in the store."""
    group = Group()
    member = group.join()
    group.journal.says = _fail
    if state == "blocked":
        group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    if state != "idle":
        group.append(TASK)
    group.advance(1_000)

    drained = member.virtual.node.request_stop()
    group.settle()

    assert drained.done()
    assert _drained(member) == [True]
    assert member.count(TreeRebuilt) == 0


def test_p14_an_attempt_that_outlives_the_deadline_is_reported_and_runs_again() -> None:
    """The deadline is ten seconds."""
    group = Group()
    member = group.join(held=True)
    group.append(TASK)
    group.advance(1_000)
    member.runner.begin()
    drained = member.virtual.node.request_stop()
    group.advance(9_900)
    in_time = drained.done()
    group.advance(200)
    late = drained.done()
    member.virtual.node.close()
    group.members.remove(member)
    member.runner.end()
    group.join()
    group.advance(60_000)

    assert (in_time, late) == (False, True)
    (abandoned,) = member.telemetry.of(AttemptAbandoned)
    deadline_ms = group.settings.tree.recovery.drain_deadline_ms
    assert f"{deadline_ms} ms (tree.recovery.drain_deadline_ms)" in abandoned.reason
    assert _drained(member) == [False]
    assert group.journal.names == ["invoice-42"]


def test_p14_a_completion_reached_in_time_is_durable_before_it_leaves() -> None:
    """The store is slow, and the stop waits for it."""
    group = Group()
    member = group.join(held=True)
    group.append(TASK)
    group.advance(1_000)
    member.runner.begin()
    member.faults.keeps = lambda request: request.kind == "insert_completions"
    drained = member.virtual.node.request_stop()
    member.runner.end()
    group.advance(3_000)
    undurable = drained.done()
    member.faults.release()
    group.settle()

    assert not undurable
    assert drained.done()
    assert group.result_of(TASK) is CompletionResult.SUCCESS


@pytest.mark.parametrize("steps", range(6))
def test_p14_a_stop_amid_the_assignment_starts_nothing(steps: int) -> None:
    """Between any two steps of taking over a partition with an overdue task."""
    group = Group()
    group.append(TASK)
    group.advance(2_000)
    member = group.join()
    for _ in range(steps):
        member.virtual.node.step(0)
    drained = member.virtual.node.request_stop()
    ran = len(group.journal.ran)
    group.advance(20_000)

    assert drained.done()
    assert len(group.journal.ran) == ran


def test_p14_offsets_are_committed_when_it_leaves() -> None:
    """So that its heir reads nothing twice."""
    group = Group()
    member = group.join()
    for number in range(10):
        group.append(a_task(due_in_ms=60_000, uniqueness_key=str(number)))
    group.settle()
    group.stop(member)

    assert group.committed() == 10


def test_p14_stopping_again_and_again_under_load_loses_nothing() -> None:
    """A node lives for three seconds, its heir as long; every task runs once."""
    group = Group(partitions=4)
    for number in range(600):
        group.append(
            a_task(
                due_in_ms=number * 50,
                ordering_id=f"id-{number % 37}",
                uniqueness_key=str(number),
            )
        )
    for _ in range(12):
        member = group.join()
        group.advance(3_000)
        group.stop(member)

    assert sorted(map(int, group.journal.names)) == list(range(600))


class _Counting(TaskExecutor):
    lock = threading.Lock()
    ran: list[str] = []  # noqa: RUF012 - what the test looks at
    some = threading.Semaphore(0)

    def execute(self, task: Task) -> None:
        with self.lock:
            self.ran.append(task.uniqueness_key)
        self.some.release()


def test_p14_real_nodes_stopped_under_load_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """A thousand tasks, and a stop after every hundred of them."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    due = from_millis(SystemClock().now_ms())
    telemetry = RecordingTelemetry()
    tasks = [
        Task(ordering_id=f"id-{n % 90}", scheduled_time=due, uniqueness_key=str(n))
        for n in range(1_000)
    ]
    with Scheduler(settings, executor=_Counting, telemetry=telemetry) as scheduler:
        scheduler.schedule_tasks(tasks).raise_if_rejected()
    while len(_Counting.ran) < 1_000:
        with Scheduler(settings, executor=_Counting, telemetry=telemetry):
            left = 1_000 - len(_Counting.ran)
            for _ in range(min(100, left)):
                assert _Counting.some.acquire(timeout=60)

    assert sorted(map(int, _Counting.ran)) == list(range(1_000))
    assert not [event for event in telemetry.events if isinstance(event, TreeRebuilt)]
