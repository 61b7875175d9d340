"""Tasks that run in batches: the port between a runner and their executors.

It makes no decisions: a runner decides which tasks go together, and ``Batches`` the outcome of
each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import NamedTuple, Protocol

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchOutcome, raised
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import Task


class TaskNotRun(Exception):
    """Outcome of a task that was not run, because the previous one of its ordering id is not
    done.
    """


class BatchLimits(NamedTuple):
    """The size of a kind's batches, and their number."""

    tasks_max: int
    wait_ms: float
    """Longest wait of the first task for others."""
    batches_max: int
    """Most batches that run at once."""


class BatchedAttempt(NamedTuple):
    """One task of a batch."""

    task: Task
    attempt: int
    fence: int
    around: Callable[[], AbstractContextManager[object]] | None = None
    """Returns a context manager that is entered before all else and left after it."""
    checkpoints: AttemptCheckpoints = NO_ATTEMPT


class Batches(Protocol):
    """Runs batches of one kind; from any thread."""

    @property
    def limits(self) -> BatchLimits:
        """The limits that a runner keeps."""

    @property
    def runs_async(self) -> bool:
        """True if ``run_async`` runs them, and not ``run``."""

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the executor's class; no user code is called for it."""

    @property
    def retry(self) -> RetryPolicy:
        """The policy of each task; reading it may be user code."""

    @property
    def timeout(self) -> timedelta | None:
        """Time limit of a batch; reading it may be user code."""

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Run a batch in this thread; ``awaited`` waits for an awaitable result of user code.

        Returns the outcome of each task, in their order; raises nothing.
        """

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Run a batch on this event loop."""


class InBatches:
    """Marks what runs in batches: told from others for each attempt, and of a class with abstract
    methods ``isinstance`` asks code in Python.
    """

    batches: Batches


class BatchMember(InBatches, TaskExecutor):
    """Stands for a batch executor at one ordering id; the runner combines its attempts."""

    around: Callable[[], AbstractContextManager[object]] | None = None
    """The same as ``BatchedAttempt.around``."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the batches' class."""
        return self.batches.declared_retry

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """The batch executor's policy."""
        return self.batches.retry

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """The batch executor's timeout."""
        return self.batches.timeout

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run a batch of one task: a suspect of a crash runs alone."""
        checkpoints = self.hourhand_checkpoints
        attempts = (BatchedAttempt(task, self.attempt, self.fence, checkpoints=checkpoints),)
        if self.batches.runs_async:
            return self._awaited(attempts)
        (outcome,) = self.batches.run(attempts, _awaited_here)
        return raised(outcome)

    async def _awaited(self, attempts: Sequence[BatchedAttempt]) -> Outcome | None:
        (outcome,) = await self.batches.run_async(attempts)
        return raised(outcome)


def _awaited_here(found: Awaitable[object]) -> object:
    async def wait() -> object:
        return await found

    return asyncio.run(wait())
