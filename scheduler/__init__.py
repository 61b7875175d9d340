"""Hourhand: runs a piece of your code at a time you choose, once, in order per key.

::

    class SendInvoice(TaskExecutor):
        def execute(self, task: Task) -> None:
            mail(task.data["invoice"])

    with Scheduler(Settings(), executor=SendInvoice) as scheduler:
        future = scheduler.schedule_task(Task(...))

Importing this package loads no driver.
"""

from actors.model.backoff import RetryPolicy
from actors.model.errors import HourhandError
from actors.model.key import TaskKey
from actors.model.outcome import Done, Drop, Retry
from actors.model.task import Task
from actors.task_executor import TaskExecutor
from scheduler.client import Receipt, SchedulerClient
from scheduler.scheduler import Scheduler
from scheduler.settings import Settings

__all__ = [
    "Done",
    "Drop",
    "HourhandError",
    "Receipt",
    "Retry",
    "RetryPolicy",
    "Scheduler",
    "SchedulerClient",
    "Settings",
    "Task",
    "TaskExecutor",
    "TaskKey",
]
