"""P7: a failing, slow or blocked ordering id delays no other."""

import threading
from pathlib import Path

import pytest
import tenacity

from hourhand import Scheduler, Settings
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import PartitionLoadReported
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group

POLICIES = {
    "retrying": RetryPolicy(attempts_max=1_000, wait=tenacity.wait_fixed(60)),
    "blocked": RetryPolicy(attempts_max=1, on_exhausted="block"),
}


def _fail_unless_healthy(task: Task, _attempt: int) -> None:
    if not task.ordering_id.startswith("healthy"):
        raise ValueError("this id fails")


@pytest.mark.parametrize("policy", POLICIES)
def test_p7_thousands_of_failing_ids_do_not_delay_a_healthy_one(policy: str) -> None:
    """Each costs one slot of the partition's 2,000."""
    group = Group()
    group.journal.retry = POLICIES[policy]
    group.journal.says = _fail_unless_healthy
    group.join()
    for number in range(1_900):
        group.append(a_task(due_in_ms=1_000, ordering_id=f"id-{number}"))
    group.append(a_task(due_in_ms=30_000, ordering_id="healthy"))
    group.advance(30_000)

    healthy = [ran.at_ms for ran in group.journal.ran if ran.ordering_id == "healthy"]
    assert healthy == [NOW_MS + 30_000]


@pytest.mark.parametrize("policy", POLICIES)
def test_p7_what_queues_behind_a_failing_task_is_not_in_memory(policy: str) -> None:
    """A thousand tasks behind it, and the partition holds as good as none of them."""
    group = Group()
    group.journal.retry = POLICIES[policy]
    group.journal.says = _fail_unless_healthy
    member = group.join()
    group.append(a_task(due_in_ms=1_000, uniqueness_key="0000"))
    for number in range(1, 1_001):
        group.append(a_task(due_in_ms=1_000 + number, uniqueness_key=f"{number:04}"))
    group.advance(30_000)
    group.advance(300_000)

    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    assert loads[-1].waiting + loads[-1].executing <= 1
    assert set(group.journal.names) == {"0000"}


def test_p7_what_was_behind_it_runs_in_order_once_it_is_closed() -> None:
    """All thousand come back from the store."""
    group = Group()
    group.journal.retry = POLICIES["blocked"]
    group.journal.says = _fail_unless_healthy
    group.join()
    tasks = [a_task(due_in_ms=1_000 + n, uniqueness_key=f"{n:04}") for n in range(1_001)]
    for task in tasks:
        group.append(task)
    group.advance(30_000)
    group.journal.says = lambda _task, _attempt: None
    group.client.drop_task(tasks[0].key).result(0)
    group.advance(1_000)

    assert group.journal.names == [task.uniqueness_key for task in tasks]


def test_p7_a_long_queue_behind_a_failing_id_leaves_the_window_to_others() -> None:
    """Its queue alone would fill every limit many times."""
    window = WindowSettings(tasks_max=50, executing_tasks_max=20, page_tasks=10)
    group = Group(tree=TreeSettings(window=window))
    group.journal.retry = POLICIES["retrying"]
    group.journal.says = _fail_unless_healthy
    group.join()
    for number in range(500):
        group.append(a_task(due_in_ms=1_000, uniqueness_key=f"{number:04}"))
    for number in range(100):
        group.append(a_task(due_in_ms=5_000, ordering_id=f"healthy-{number}"))
    group.advance(10_000)

    healthy = [ran for ran in group.journal.ran if ran.ordering_id.startswith("healthy")]
    assert len(healthy) == 100


def test_p7_failing_ids_that_leave_one_slot_do_not_delay_a_healthy_one() -> None:
    """Each costs one slot; what follows when none is left is in docs/promises.md."""
    window = WindowSettings(tasks_max=100, executing_tasks_max=20)
    group = Group(tree=TreeSettings(window=window))
    group.journal.retry = POLICIES["retrying"]
    group.journal.says = _fail_unless_healthy
    group.join()
    for number in range(19):
        group.append(a_task(due_in_ms=1_000, ordering_id=f"id-{number}"))
    group.append(a_task(due_in_ms=30_000, ordering_id="healthy"))
    group.advance(40_000)

    assert "healthy" in {ran.ordering_id for ran in group.journal.ran}


class _Slow(TaskExecutor):
    release = threading.Event()
    finished = threading.Semaphore(0)

    def execute(self, task: Task) -> None:
        if task.ordering_id == "slow":
            self.release.wait(120)
        else:
            self.finished.release()


def test_p7_a_slow_blocking_attempt_holds_no_other_id_up(tmp_path: Path) -> None:
    """On real threads, in the same partition."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path), topic=TopicSettings(partitions=1)
    )
    due = from_millis(SystemClock().now_ms())
    with Scheduler(settings, executor=_Slow) as scheduler:
        for ordering_id in ("slow", "slow", *(f"id-{n}" for n in range(50))):
            scheduler.schedule_task(
                Task(ordering_id=ordering_id, scheduled_time=due, uniqueness_key="x")
            ).result(60)
        done = [_Slow.finished.acquire(timeout=60) for _ in range(50)]
        _Slow.release.set()

    assert all(done)
