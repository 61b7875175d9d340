"""P3: no attempt of an ordering id starts while another of it runs anywhere in the group."""

import os
import threading
from pathlib import Path

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from tests.builders import a_task
from tests.promises.faults import the_nth
from tests.promises.group import Group


def _two_due(group: Group) -> None:
    for name in ("first", "second"):
        group.client.schedule_task(a_task(due_in_ms=1_000, uniqueness_key=name)).result(0)


def test_p3_the_second_task_waits_for_the_end_of_the_first() -> None:
    """However long the first one runs."""
    group = Group()
    member = group.join(held=True)
    _two_due(group)
    group.advance(1_000)
    member.runner.begin()
    group.advance(minutes=10)
    meanwhile = member.runner.begin()

    member.runner.end()
    group.settle()

    assert meanwhile == 0
    assert member.runner.begin() == 1
    assert [attempt.task.key.uniqueness_key for attempt in member.runner.begun] == [
        "first",
        "second",
    ]


def test_p3_the_second_task_waits_until_the_first_is_durably_closed() -> None:
    """Its end alone is not enough: a crash would repeat both."""
    group = Group()
    member = group.join(held=True)
    _two_due(group)
    group.advance(1_000)
    member.runner.begin()
    member.faults.keeps = lambda request: request.kind == "insert_completions"
    member.runner.end()
    group.advance(2_000)
    undurable = member.runner.begin()

    member.faults.release()
    group.settle()

    assert undurable == 0
    assert member.runner.begin() == 1


def test_p3_a_rebuilt_tree_starts_nothing_beside_an_old_attempt() -> None:
    """Rebuilt five times while the first attempt runs on."""
    group = Group()
    member = group.join(held=True)
    _two_due(group)
    group.advance(1_000)
    member.runner.begin()
    for _ in range(5):
        member.faults.fails = the_nth(1, "insert_tasks")
        group.client.schedule_task(a_task(due_in_ms=900_000, uniqueness_key="later")).result(0)
        group.advance(60_000)

    rebuilt, beside = member.count(TreeRebuilt), len(member.runner.queued)
    member.runner.end()
    group.settle()
    member.runner.begin()

    assert rebuilt == 5
    assert beside == 0
    assert [attempt.task.key.uniqueness_key for attempt in member.runner.begun] == [
        "first",
        "second",
    ]


def test_p3_a_partition_moves_only_after_its_attempt_ended() -> None:
    """A joining node is given nothing whose attempt still runs."""
    group = Group(partitions=2)
    first = group.join(held=True)
    group.settle()
    for number in range(20):
        group.client.schedule_task(
            a_task(due_in_ms=1_000, ordering_id=f"id-{number}", uniqueness_key=str(number))
        ).result(0)
    group.advance(1_000)
    first.runner.begin()

    second = group.join(held=True)
    group.advance(3_000)
    beside = second.runner.begin()
    first.runner.end()
    group.advance(15_000)
    second.runner.begin()

    started = [attempt.task.key.ordering_id for attempt in first.runner.begun]
    assert beside == 0
    assert len(started) == 20
    assert second.runner.begun == []
    assert {attempt.task.key.ordering_id for attempt in second.runner.begun}.isdisjoint(started)


def test_p3_an_attempt_that_outlived_its_lease_here_is_waited_for_here() -> None:
    """The partition comes back to the node whose old attempt of it still runs."""
    group = Group()
    member = group.join(held=True)
    _two_due(group)
    group.advance(1_000)
    member.runner.begin()
    node = member.virtual.node
    node.lost((0,))
    node.assigned((0,))
    group.advance(60_000)

    beside = member.runner.begin()
    member.runner.end()
    group.advance(5_000)
    member.runner.begin()

    assert beside == 0
    # Nobody else owned the partition meanwhile, so the outcome counts.
    assert [attempt.task.key.uniqueness_key for attempt in member.runner.begun] == [
        "first",
        "second",
    ]


class _Overlap(TaskExecutor):
    running: dict[str, int] = {}  # noqa: RUF012 - what the test looks at
    overlapped = threading.Event()
    finished = threading.Semaphore(0)

    def execute(self, task: Task) -> None:
        running = self.running
        running[task.ordering_id] = running.get(task.ordering_id, 0) + 1
        if running[task.ordering_id] > 1:
            self.overlapped.set()
        for _ in range(100):
            os.sched_yield()
        running[task.ordering_id] -= 1
        self.finished.release()


def test_p3_real_threads_never_overlap_within_an_ordering_id(tmp_path: Path) -> None:
    """300 tasks of three ordering ids on 32 workers."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    due = from_millis(SystemClock().now_ms())
    with Scheduler(settings, executor=_Overlap) as scheduler:
        result = scheduler.schedule_tasks(
            Task(ordering_id=f"id-{n % 3}", scheduled_time=due, uniqueness_key=str(n))
            for n in range(300)
        )
        result.raise_if_rejected()
        for _ in range(300):
            assert _Overlap.finished.acquire(timeout=60)

    assert not _Overlap.overlapped.is_set()
