"""The places for a node's processes, and the work that each has at hand.

Decides nothing.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.stages import RunningBatch

NO_DEADLINE = math.inf
AHEAD_MS = 2.0
"""Most work, in milliseconds of short attempts, that waits in a process behind the running one."""


class ProcessJob:
    """An attempt, or a batch, on its way through a process."""

    __slots__ = ("batch", "is_told", "members", "number", "returned", "seq")

    def __init__(self, members: Sequence[RunningAttempt], batch: RunningBatch | None) -> None:
        self.members, self.batch = members, batch
        self.seq = 0
        """Number of its last sending; 0 before the first."""
        self.number = 0
        """Number of the process that has it; 0 for none."""
        self.is_told = False
        self.returned: dict[int, bytes] = {}
        """By place, the values of attempts whose ends are not told yet."""

    def close(self) -> None:
        """Note that all of it has ended."""
        if self.batch is not None:
            self.batch.ended()


@dataclass(eq=False)
class ProcessPlace:
    """A place for one process at a time."""

    index: int
    number: int = 0
    """Number of the process; 0 if there is none."""
    is_ready: bool = False
    sent: "deque[ProcessJob]" = field(default_factory=deque)
    head_ms: float = 0.0
    """Monotonic time at which the first of ``sent`` began."""
    mean_ms: float = AHEAD_MS
    tasks: int = 0
    """Number of tasks that the process has run."""
    ended: int = 0
    """Attempts that have ended in the processes of this place."""
    why: str = ""
    """The reason why it is being killed; empty for none."""
    kill_ms: float = NO_DEADLINE
    is_asked: bool = False
    is_killed: bool = False
    is_silent: bool = False
    """True if its end of the pipe is closed."""
    drained_ms: float = NO_DEADLINE
    """Monotonic time at which its work must have ended: the partition goes to another owner."""
    is_leaving: bool = False
    """True if it gets no more work."""
    leaves: str = ""
    """The bound for which it leaves: ``tasks`` or ``memory``."""
    start_ms: float = 0.0
    """Monotonic time of its next start."""
    failures: int = 0
    """Failed starts in a row."""


def job_of(running: RunningAttempt) -> ProcessJob:
    """Return the job for an attempt."""
    return ProcessJob((running,), None)


def job_of_batch(batch: RunningBatch) -> ProcessJob:
    """Return the job for a batch."""
    return ProcessJob(batch.members, batch)
