"""Hourhand: runs your code at the time you choose, in order for each key.

::

    class SendInvoice(TaskExecutor):
        def execute(self, task: Task) -> None:
            mail(task.data["invoice"])

    with Scheduler(Settings(), executor=SendInvoice) as scheduler:
        future = scheduler.schedule_task(Task(...))

Importing this package loads nothing: each name is loaded when it is first used.  A module that
only defines tasks and executors needs no driver and no settings, and a command can take
interrupts before anything that takes time.
"""

import importlib

TYPE_CHECKING = False
"""Type checkers take it for true; ``typing`` has the same, and takes time to load."""
if TYPE_CHECKING:
    from actors.model.backoff import RetryPolicy
    from actors.model.batch_executor import BatchExecutor, BatchOutcome
    from actors.model.errors import HourhandError
    from actors.model.flow import FairShare, Limit
    from actors.model.key import TaskKey
    from actors.model.outcome import Done, Drop, Retry, Snooze
    from actors.model.status import AttemptResult, CommandOutcome, RecordedOutcome
    from actors.model.task import Task
    from actors.model.task_executor import TaskExecutor
    from scheduler.client.client import SchedulerClient
    from scheduler.configuration.settings import Settings
    from scheduler.executors.middleware import AttemptContext, Middleware
    from scheduler.executors.registry import Hourhand, TaskFunction
    from scheduler.executors.user_executors import TaskKind
    from scheduler.reading.task_info import Absence, AttemptInfo, TaskInfo
    from scheduler.reading.task_state import TaskState
    from scheduler.records.receipt import PairReceipt, Receipt
    from scheduler.scheduler import Scheduler

__all__ = [
    "Absence",
    "AttemptContext",
    "AttemptInfo",
    "AttemptResult",
    "BatchExecutor",
    "BatchOutcome",
    "CommandOutcome",
    "Done",
    "Drop",
    "FairShare",
    "Hourhand",
    "HourhandError",
    "Limit",
    "Middleware",
    "PairReceipt",
    "Receipt",
    "RecordedOutcome",
    "Retry",
    "RetryPolicy",
    "Scheduler",
    "SchedulerClient",
    "Settings",
    "Snooze",
    "Task",
    "TaskExecutor",
    "TaskFunction",
    "TaskInfo",
    "TaskKey",
    "TaskKind",
    "TaskState",
]

_LOADED_WHEN_NAMED = {
    "Absence": "scheduler.reading.task_info",
    "AttemptContext": "scheduler.executors.middleware",
    "AttemptInfo": "scheduler.reading.task_info",
    "AttemptResult": "actors.model.status",
    "BatchExecutor": "actors.model.batch_executor",
    "BatchOutcome": "actors.model.batch_executor",
    "CommandOutcome": "actors.model.status",
    "Done": "actors.model.outcome",
    "Drop": "actors.model.outcome",
    "FairShare": "actors.model.flow",
    "Hourhand": "scheduler.executors.registry",
    "HourhandError": "actors.model.errors",
    "Limit": "actors.model.flow",
    "Middleware": "scheduler.executors.middleware",
    "PairReceipt": "scheduler.records.receipt",
    "Receipt": "scheduler.records.receipt",
    "RecordedOutcome": "actors.model.status",
    "Retry": "actors.model.outcome",
    "RetryPolicy": "actors.model.backoff",
    "Scheduler": "scheduler.scheduler",
    "SchedulerClient": "scheduler.client.client",
    "Settings": "scheduler.configuration.settings",
    "Snooze": "actors.model.outcome",
    "Task": "actors.model.task",
    "TaskExecutor": "actors.model.task_executor",
    "TaskFunction": "scheduler.executors.registry",
    "TaskInfo": "scheduler.reading.task_info",
    "TaskKey": "actors.model.key",
    "TaskKind": "scheduler.executors.user_executors",
    "TaskState": "scheduler.reading.task_state",
}

# Hidden from type checkers, to which it would mean that any name can be imported.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a name at its first use; then it is an attribute like any other."""
        if name not in _LOADED_WHEN_NAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_LOADED_WHEN_NAMED[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Include names that are not loaded yet."""
    return sorted({*globals(), *_LOADED_WHEN_NAMED})
