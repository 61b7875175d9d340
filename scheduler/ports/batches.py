"""Tasks that run in batches: what a runner needs of those who run them.

Decides nothing: a runner says which tasks go together, and ``Batches`` what becomes of each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import NamedTuple, Protocol

from actors.model.backoff import RetryPolicy
from actors.model.batch_executor import BatchOutcome, raised
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor


class TaskNotRun(Exception):
    """Outcome of a task that was not run, as the one before it of its ordering id is not done."""


class BatchLimits(NamedTuple):
    """How large batches of a kind are, and how many there are."""

    tasks_max: int
    wait_ms: float
    """So long the first task waits for others."""
    batches_max: int
    """Running at once."""


class BatchedAttempt(NamedTuple):
    """One task of a batch."""

    task: Task
    attempt: int
    fence: int
    around: Callable[[], AbstractContextManager[object]] | None = None
    """Returns what is entered before all else and left after it."""


class Batches(Protocol):
    """Runs batches of one kind; from any thread."""

    @property
    def limits(self) -> BatchLimits:
        """What a runner keeps to."""

    @property
    def runs_async(self) -> bool:
        """Whether ``run_async`` runs them, and not ``run``."""

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy that the executor's class states; no user code is called for it."""

    @property
    def retry(self) -> RetryPolicy:
        """The policy of each task; reading it may be user code."""

    @property
    def timeout(self) -> timedelta | None:
        """How long a batch may take; reading it may be user code."""

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Run a batch in this thread; ``awaited`` waits for what user code may return.

        Returns what became of each task, in their order; raises nothing.
        """

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Run a batch on this event loop."""


class BatchMember(TaskExecutor):
    """Stands for a batch executor at one ordering id; the runner puts its attempts together."""

    around: Callable[[], AbstractContextManager[object]] | None = None
    """As ``BatchedAttempt.around``."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    @property
    def declared_retry(self) -> RetryPolicy:
        """That of the batches."""
        return self.batches.declared_retry

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """The batch executor's."""
        return self.batches.retry

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """The batch executor's."""
        return self.batches.timeout

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run a batch of one: a suspect has no company."""
        attempts = (BatchedAttempt(task, self.attempt, self.fence),)
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
