"""The base of the executors of system tasks: what a runner asks of them besides ``execute``.

Decides nothing about a task: which attempts take the fast path, which need no slot, and which end
their waiting once the partition goes to another owner is said by each executor.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar

import tenacity

from actors.model.backoff import RetryPolicy, wait_half_jittered
from actors.model.definition import Definition
from actors.model.interruption import current_attempt
from actors.model.outcome import Outcome
from actors.model.task import StoredTask
from actors.model.task_executor import TaskExecutor

ImmediateWork = Callable[[], "Future[Outcome | None]"]
"""Does a task's work but for waiting; the future resolves to its outcome."""

PATIENCE = RetryPolicy(
    attempts_max=2**31,
    wait=wait_half_jittered(tenacity.wait_exponential(multiplier=0.2, max=30.0)),
    on_exhausted="block",
)
"""What fails for want of a server is tried until it is there: nothing accepted is given up."""


class SystemExecutor(TaskExecutor):
    """Runs system tasks, which are Hourhand's own."""

    retry = PATIENCE
    unslotted: ClassVar[bool] = False
    """Whether its coroutines take none of the slots for async attempts: what others wait for may
    not wait behind them.  The tree's own limits still bound their number."""
    is_draining = False
    """Whether this node lets go of the task: its attempt waits for nobody else any more."""

    @property
    def record_offset(self) -> int:
        """Offset of the record that made the task at hand; asked for while it runs."""
        attempt = current_attempt()
        assert attempt is not None, "only an attempt that runs has a record"
        return attempt.task.offset

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return the fast path of a task, None where it has to be executed; never blocks."""
        del task
        return None

    def drain(self) -> None:
        """End what waits for somebody else; from any thread."""
        self.is_draining = True

    def offset_over(self, found: Definition | None) -> int:
        """Return the offset of a definition that is to replace ``found``: above it, always.

        Tasks of one ordering id run one after the other, but not always in the order of the log.
        """
        return self.record_offset if found is None else max(self.record_offset, found.offset + 1)
