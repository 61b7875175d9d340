"""The test kit under the name users import: ``from hourhand.testing import VirtualScheduler``.

Decides nothing: every name is the one of ``scheduler.testing``.
"""

from hourhand.shadowing import require_own_packages

require_own_packages()

from scheduler.testing import (  # noqa: E402 - first it has to be Hourhand's
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
    "VirtualScheduler",
    "execute_task",
]
