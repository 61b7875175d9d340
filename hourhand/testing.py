"""The test kit under the name users import: ``from hourhand.testing import VirtualScheduler``.

Decides nothing: the kit is in ``scheduler/testing/``.
"""

from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.scheduler.testing import (
    Execution,
    NextAttempts,
    RecordingTelemetry,
    RefusedTask,
    VirtualScheduler,
    execute_task,
)

__all__ = [
    "Execution",
    "NextAttempts",
    "RecordingTelemetry",
    "RefusedTask",
    "TaskEnd",
    "VirtualScheduler",
    "execute_task",
]
