"""The smallest whole story: a node over some servers is told of a task and runs it."""

import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor

WAIT_S = 60.0


def a_task() -> Task:
    """Return a task that is due."""
    return Task(
        ordering_id="customer-7",
        scheduled_time=datetime.now(UTC),
        uniqueness_key=f"invoice-{uuid.uuid4().hex}",
        data={"invoice": 42},
    )


def run_one_task(settings: Settings, execute: Callable[[Task], None] = lambda _: None) -> Task:
    """Start a node, schedule a task that is due, and return it as it was run."""
    ran: list[Task] = []
    done = threading.Event()

    class Noting(TaskExecutor):
        """Notes the task."""

        def execute(self, task: Task) -> None:
            """Note the task."""
            execute(task)
            ran.append(task)
            done.set()

    task = a_task()
    with Scheduler(settings, executor=Noting) as scheduler:
        scheduler.schedule_task(task).result(timeout=WAIT_S)
        assert done.wait(WAIT_S), "the task did not run"
    assert [each.key for each in ran] == [task.key]
    return ran[0]
