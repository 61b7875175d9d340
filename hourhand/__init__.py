"""Hourhand: runs your code at the time you choose, in order for each key.

::

    from hourhand import Scheduler, Settings, Task, TaskExecutor

Decides under which name users import Hourhand, and nothing else: every name is the one of
``scheduler``.  Importing this package loads nothing; each name is loaded when it is first used.
"""

TYPE_CHECKING = False
"""Type checkers take it for true; ``typing`` has the same, and takes time to load."""
if TYPE_CHECKING:
    from scheduler import (
        Absence,
        AttemptContext,
        AttemptInfo,
        AttemptResult,
        BatchExecutor,
        BatchOutcome,
        CommandOutcome,
        Done,
        Drop,
        FairShare,
        Hourhand,
        HourhandError,
        Limit,
        Middleware,
        PairReceipt,
        Receipt,
        RecordedOutcome,
        Retry,
        RetryPolicy,
        Scheduler,
        SchedulerClient,
        Settings,
        Snooze,
        Task,
        TaskExecutor,
        TaskFunction,
        TaskInfo,
        TaskKey,
        TaskKind,
        TaskState,
    )

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

# Hidden from type checkers, to which it would mean that any name can be imported.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a name at its first use; then it is an attribute like any other.

        Raises ImportError if a user's own ``scheduler`` or ``actors`` hides Hourhand's.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from hourhand.shadowing import require_own_packages

        require_own_packages()
        import scheduler

        found = getattr(scheduler, name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Include names that are not loaded yet."""
    return sorted({*globals(), *__all__})
