"""The base of the executors of system tasks, with the further methods that a runner calls.

Decides nothing about a task: each executor decides which attempts take the fast path, which need no
slot, and which stop waiting once the partition goes to another owner.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import ClassVar

import tenacity

from hourhand.actors.model.execution.backoff import (
    ATTEMPTS_ALLOWED,
    RetryPolicy,
    wait_half_jittered,
)
from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.task import StoredTask

ImmediateWork = Callable[[], "Future[Outcome | None]"]
"""Does the work of a task without waiting; the future resolves to the outcome."""

PATIENCE = RetryPolicy(
    attempts_max=ATTEMPTS_ALLOWED,
    wait=wait_half_jittered(tenacity.wait_exponential(multiplier=0.2, max=30.0)),
    on_exhausted="block",
)
"""The policy of system tasks: a task whose server is absent is tried until the server is there."""


class SystemWork:
    """Marks what runs system tasks.

    Told from others for each attempt: of a class with abstract methods, as ``TaskExecutor`` is
    one, ``isinstance`` asks code in Python.
    """


class SystemExecutor(SystemWork, TaskExecutor):
    """Runs system tasks, which are Hourhand's own."""

    retry = PATIENCE
    unslotted: ClassVar[bool] = False
    """True if its coroutines take none of the slots for async attempts, because other attempts wait
    for them.  The tree's own limits still bound their number."""
    is_draining = False
    """True if this node gives up the task: its attempt waits for no other task any more."""

    @property
    def record_offset(self) -> int:
        """Offset of the record of the task that runs; used by that task only."""
        attempt = current_attempt()
        assert attempt is not None, "only an attempt that runs has a record"
        return attempt.task.offset

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return the fast path of a task; None if it must be executed.  Never blocks."""
        del task
        return None

    def drain(self) -> None:
        """End attempts that wait for another task; from any thread."""
        self.is_draining = True

    def offset_over(self, found: Definition | None) -> int:
        """Return an offset for a definition that replaces ``found``, at the task that runs."""
        return offset_above(found, self.record_offset)


TaskEnds = Sequence[Outcome | BaseException | None]
"""The outcome of each of some tasks, or its error."""


class SharedWork(ABC):
    """The work of one task, done together with that of others whose executors are of one class."""

    executor: SystemExecutor
    task: StoredTask

    @abstractmethod
    def __call__(self) -> "Future[Outcome | None]":
        """Do it alone."""

    @abstractmethod
    def together(self, tasks: Sequence[StoredTask]) -> "Future[TaskEnds]":
        """Do that of tasks of different ordering ids; the future resolves to the end of each."""


def offset_above(found: Definition | None, record_offset: int) -> int:
    """Return an offset for a definition that replaces ``found``: it is always higher.

    Tasks of one ordering id run one after another, but not always in the order of the log.
    """
    return record_offset if found is None else max(record_offset, found.offset + 1)
