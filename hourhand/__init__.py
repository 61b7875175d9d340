"""Hourhand: runs your code at the time you choose, in order for each key.

::

    from hourhand import Scheduler, Settings, Task, TaskExecutor

    class SendInvoice(TaskExecutor):
        def execute(self, task: Task) -> None:
            mail(task.data["invoice"])

    with Scheduler(Settings(), executor=SendInvoice) as scheduler:
        future = scheduler.schedule_task(Task(...))

Importing this package loads nothing: each name is loaded when it is first used.  A module that
only defines tasks and executors needs no driver and no settings, and a command can take
interrupts before anything that takes time.

``errors``, ``outbox``, ``payloads`` and ``testing`` beside this file have more names for users; all
else below ``hourhand`` is for its authors and may change.
"""

import importlib

TYPE_CHECKING = False
"""Type checkers take it for true; ``typing`` has the same, and takes time to load."""
if TYPE_CHECKING:
    from hourhand.actors.model.backoff import RetryPolicy
    from hourhand.actors.model.batch_executor import BatchExecutor, BatchOutcome
    from hourhand.actors.model.errors import HourhandError
    from hourhand.actors.model.flow import FairShare, Limit
    from hourhand.actors.model.key import TaskKey
    from hourhand.actors.model.outcome import Done, Drop, Retry, Snooze
    from hourhand.actors.model.status import AttemptResult, CommandOutcome, RecordedOutcome
    from hourhand.actors.model.task import Task
    from hourhand.actors.model.task_executor import TaskExecutor
    from hourhand.scheduler.client.client import SchedulerClient
    from hourhand.scheduler.configuration.settings import Settings
    from hourhand.scheduler.executors.middleware import AttemptContext, Middleware
    from hourhand.scheduler.executors.registry import Hourhand, TaskFunction
    from hourhand.scheduler.executors.user_executors import TaskKind
    from hourhand.scheduler.reading.task_info import Absence, AttemptInfo, TaskInfo
    from hourhand.scheduler.reading.task_state import TaskState
    from hourhand.scheduler.records.receipt import PairReceipt, Receipt
    from hourhand.scheduler.scheduler import Scheduler

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
    "Absence": "hourhand.scheduler.reading.task_info",
    "AttemptContext": "hourhand.scheduler.executors.middleware",
    "AttemptInfo": "hourhand.scheduler.reading.task_info",
    "AttemptResult": "hourhand.actors.model.status",
    "BatchExecutor": "hourhand.actors.model.batch_executor",
    "BatchOutcome": "hourhand.actors.model.batch_executor",
    "CommandOutcome": "hourhand.actors.model.status",
    "Done": "hourhand.actors.model.outcome",
    "Drop": "hourhand.actors.model.outcome",
    "FairShare": "hourhand.actors.model.flow",
    "Hourhand": "hourhand.scheduler.executors.registry",
    "HourhandError": "hourhand.actors.model.errors",
    "Limit": "hourhand.actors.model.flow",
    "Middleware": "hourhand.scheduler.executors.middleware",
    "PairReceipt": "hourhand.scheduler.records.receipt",
    "Receipt": "hourhand.scheduler.records.receipt",
    "RecordedOutcome": "hourhand.actors.model.status",
    "Retry": "hourhand.actors.model.outcome",
    "RetryPolicy": "hourhand.actors.model.backoff",
    "Scheduler": "hourhand.scheduler.scheduler",
    "SchedulerClient": "hourhand.scheduler.client.client",
    "Settings": "hourhand.scheduler.configuration.settings",
    "Snooze": "hourhand.actors.model.outcome",
    "Task": "hourhand.actors.model.task",
    "TaskExecutor": "hourhand.actors.model.task_executor",
    "TaskFunction": "hourhand.scheduler.executors.registry",
    "TaskInfo": "hourhand.scheduler.reading.task_info",
    "TaskKey": "hourhand.actors.model.key",
    "TaskKind": "hourhand.scheduler.executors.user_executors",
    "TaskState": "hourhand.scheduler.reading.task_state",
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
