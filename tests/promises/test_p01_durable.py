"""P1: accepted is durable, and from then on the key runs at least once."""

import threading
from concurrent.futures import Future
from pathlib import Path

from hourhand import Receipt, Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from tests.builders import a_task
from tests.promises.faults import every
from tests.promises.group import Group


def test_p1_the_future_waits_for_the_acknowledgement() -> None:
    """A record under way is not accepted; one the log holds is, with its place."""
    group = Group()
    group.log_faults.keeps = every("append")

    future = group.client.schedule_task(a_task())
    before = future.done()
    group.log_faults.release()

    assert not before
    assert future.result(0) == Receipt(a_task().key, 0, 0)
    assert group.broker.partitions[0].end_offset == 1


def test_p1_a_refused_record_fails_the_future_and_never_runs() -> None:
    """The future tells that the log did not take it."""
    group = Group()
    group.join()
    group.log_faults.fails = every("append")

    future = group.client.schedule_task(a_task())
    group.advance(minutes=5)

    assert isinstance(future.exception(0), StoreUnavailable)
    assert group.journal.ran == []


def test_p1_what_was_accepted_runs_although_no_node_lived_then() -> None:
    """Nobody needs to run when a task is accepted, only later."""
    group = Group(partitions=4)
    tasks = [a_task(ordering_id=f"id-{n}", uniqueness_key=str(n)) for n in range(50)]
    for task in tasks:
        group.client.schedule_task(task).result(0)

    group.advance(hours=3)
    group.join()
    group.advance(minutes=2)

    assert sorted(group.journal.names) == sorted(task.uniqueness_key for task in tasks)


def test_p1_it_runs_whenever_its_node_is_killed() -> None:
    """A new process after every second: the task still runs."""
    group = Group()
    member = group.join()
    group.client.schedule_task(a_task(due_in_ms=30_000)).result(0)
    for _ in range(40):
        member = group.replace(member)
        group.advance(seconds=1)

    assert group.journal.names == ["invoice-42"]


class _Noting(TaskExecutor):
    def execute(self, task: Task) -> None:
        ran = _RAN.get(task.uniqueness_key)
        if ran is not None:
            ran.set()


_RAN = {"now": threading.Event()}


def test_p1_a_record_acknowledged_by_the_embedded_log_outlives_its_client(tmp_path: Path) -> None:
    """The client's process may end right after the future resolved."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    due = Task(
        ordering_id="customer-7",
        scheduled_time=from_millis(SystemClock().now_ms()),
        uniqueness_key="now",
    )
    client = SchedulerClient(settings)
    future: Future[Receipt] = client.schedule_task(due)
    future.result(timeout=60)
    client.close()

    with Scheduler(settings, executor=_Noting):
        assert _RAN["now"].wait(60)
