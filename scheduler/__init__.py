"""Hourhand: runs a piece of your code at a time you choose, once, in order per key.

::

    class SendInvoice(TaskExecutor):
        def execute(self, task: Task) -> None:
            mail(task.data["invoice"])

    with Scheduler(Settings(), executor=SendInvoice) as scheduler:
        future = scheduler.schedule_task(Task(...))

Importing this package loads no driver.  What reads settings and opens connections is loaded
when it is first named: a module that only defines tasks and executors, and one that is imported
to be looked at, need none of it.
"""

import importlib
import typing

from actors.model.backoff import RetryPolicy
from actors.model.errors import HourhandError
from actors.model.key import TaskKey
from actors.model.outcome import Done, Drop, Retry
from actors.model.task import Task
from actors.task_executor import TaskExecutor

if typing.TYPE_CHECKING:
    from scheduler.client import SchedulerClient
    from scheduler.receipt import Receipt
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

_LOADED_WHEN_NAMED = {
    "Receipt": "scheduler.receipt",
    "Scheduler": "scheduler.scheduler",
    "SchedulerClient": "scheduler.client",
    "Settings": "scheduler.settings",
}

# Hidden from type checkers, to which it would mean that any name can be imported.
if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load what was named for the first time; then it is an attribute like any other."""
        if name not in _LOADED_WHEN_NAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_LOADED_WHEN_NAMED[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Name also what is not loaded yet."""
    return sorted({*globals(), *_LOADED_WHEN_NAMED})
