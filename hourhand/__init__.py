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
    from hourhand.actors.model.execution.backoff import RetryPolicy
    from hourhand.actors.model.execution.batch_executor import BatchExecutor, BatchOutcome
    from hourhand.actors.model.execution.outcome import Done, Drop, Retry, Snooze
    from hourhand.actors.model.execution.task_executor import TaskExecutor
    from hourhand.actors.model.flow.flow import FairShare, Limit
    from hourhand.actors.model.task.key import TaskKey
    from hourhand.actors.model.task.status import AttemptResult, CommandOutcome, RecordedOutcome
    from hourhand.actors.model.task.task import Task
    from hourhand.actors.model.values.errors import HourhandError
    from hourhand.scheduler.client.client import SchedulerClient
    from hourhand.scheduler.configuration.settings import Settings
    from hourhand.scheduler.executors.middleware import AttemptContext, Middleware
    from hourhand.scheduler.executors.registry import Hourhand, TaskFunction
    from hourhand.scheduler.executors.user_executors import TaskKind
    from hourhand.scheduler.scheduler import Scheduler
    from hourhand.scheduler.tasks.receipt import PairReceipt, Receipt
    from hourhand.scheduler.tasks.task_info import Absence, AttemptInfo, TaskInfo
    from hourhand.scheduler.tasks.task_state import TaskState

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
    "Absence": "hourhand.scheduler.tasks.task_info",
    "AttemptContext": "hourhand.scheduler.executors.middleware",
    "AttemptInfo": "hourhand.scheduler.tasks.task_info",
    "AttemptResult": "hourhand.actors.model.task.status",
    "BatchExecutor": "hourhand.actors.model.execution.batch_executor",
    "BatchOutcome": "hourhand.actors.model.execution.batch_executor",
    "CommandOutcome": "hourhand.actors.model.task.status",
    "Done": "hourhand.actors.model.execution.outcome",
    "Drop": "hourhand.actors.model.execution.outcome",
    "FairShare": "hourhand.actors.model.flow.flow",
    "Hourhand": "hourhand.scheduler.executors.registry",
    "HourhandError": "hourhand.actors.model.values.errors",
    "Limit": "hourhand.actors.model.flow.flow",
    "Middleware": "hourhand.scheduler.executors.middleware",
    "PairReceipt": "hourhand.scheduler.tasks.receipt",
    "Receipt": "hourhand.scheduler.tasks.receipt",
    "RecordedOutcome": "hourhand.actors.model.task.status",
    "Retry": "hourhand.actors.model.execution.outcome",
    "RetryPolicy": "hourhand.actors.model.execution.backoff",
    "Scheduler": "hourhand.scheduler.scheduler",
    "SchedulerClient": "hourhand.scheduler.client.client",
    "Settings": "hourhand.scheduler.configuration.settings",
    "Snooze": "hourhand.actors.model.execution.outcome",
    "Task": "hourhand.actors.model.task.task",
    "TaskExecutor": "hourhand.actors.model.execution.task_executor",
    "TaskFunction": "hourhand.scheduler.executors.registry",
    "TaskInfo": "hourhand.scheduler.tasks.task_info",
    "TaskKey": "hourhand.actors.model.task.key",
    "TaskKind": "hourhand.scheduler.executors.user_executors",
    "TaskState": "hourhand.scheduler.tasks.task_state",
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
