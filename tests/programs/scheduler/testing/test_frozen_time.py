"""A node under freezegun, which replaces ``datetime`` in every module."""

from datetime import UTC, datetime
from pathlib import Path

from freezegun import freeze_time

from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor, TaskState

FROZEN = "2030-01-01 00:00:00"
WAIT_S = 60


class Noted(TaskExecutor):
    """Does nothing."""

    def execute(self, task: Task) -> None: ...


def a_frozen_task(name: str) -> Task:
    """Return a task whose time is an instance of freezegun's own class."""
    at = datetime.now(UTC)
    return Task(ordering_id="o", scheduled_time=at, uniqueness_key=name, data={"a": 1})


def test_a_task_that_a_node_accepted_under_frozen_time_runs(tmp_path: Path) -> None:
    """The node's clock stands still too, so what is due by it runs, and the client knows."""
    settings = Settings(embedded={"folder": tmp_path / "data"})
    with freeze_time(FROZEN):
        with SchedulerClient(settings) as client:
            early = client.schedule_task(a_frozen_task("early")).result(WAIT_S).key
        with Scheduler(settings, executor=Noted) as scheduler:
            late = scheduler.schedule_task(a_frozen_task("late")).result(WAIT_S).key
            states = [scheduler.wait_task(key, timeout=WAIT_S).state for key in (early, late)]

    assert states == [TaskState.SUCCESS, TaskState.SUCCESS]
