"""Opens the data of a task just before the user's code and its middleware see it.

Decides that an attempt whose data cannot be opened fails, and its neighbours in a batch run.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from actors.model.backoff import RetryPolicy
from actors.model.batch_executor import BatchOutcome
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor
from scheduler.executors.middleware import ExecutorWrapper
from scheduler.payloads.codecs import PayloadCodecs
from scheduler.ports.batches import BatchedAttempt, Batches, BatchLimits
from scheduler.process.user_code import runs_async


def opening(payloads: PayloadCodecs, executor: TaskExecutor) -> TaskExecutor:
    """Return an executor that is given opened data."""
    made: object = executor
    if not isinstance(made, TaskExecutor):
        # What the factory returned is refused where it is to run.
        return executor
    wrapper = _AsyncOpening if runs_async(executor) else _Opening
    return wrapper(payloads, executor)


class _Opening(ExecutorWrapper):
    """Runs an executor with opened data."""

    def __init__(self, payloads: PayloadCodecs, executor: TaskExecutor) -> None:
        super().__init__(executor)
        self._payloads = payloads

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once; raises what opening its data does."""
        self._tell()
        return self._executor.execute(self._payloads.opened(task))


class _AsyncOpening(_Opening):
    """As ``_Opening``, for ``async def execute``."""

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once; raises what opening its data does."""
        self._tell()
        opened = await _opened_async(self._payloads, task)
        outcome = self._executor.execute(opened)
        return await outcome if inspect.isawaitable(outcome) else outcome


class OpeningBatches:
    """Implements ``Batches`` for executors that are given opened data."""

    def __init__(self, payloads: PayloadCodecs, batches: Batches) -> None:
        self._payloads = payloads
        self._batches = batches

    @property
    def limits(self) -> BatchLimits:
        """Those of the batches."""
        return self._batches.limits

    @property
    def runs_async(self) -> bool:
        """As the batches say."""
        return self._batches.runs_async

    @property
    def retry(self) -> RetryPolicy:
        """That of the batches."""
        return self._batches.retry

    @property
    def timeout(self) -> timedelta | None:
        """That of the batches."""
        return self._batches.timeout

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Run a batch of those whose data can be opened; the others fail."""
        read = _OpenedBatch(len(attempts))
        for place, attempt in enumerate(attempts):
            try:
                read.take(attempt, self._payloads.opened(attempt.task))
            except BaseException as error:  # noqa: BLE001 - a codec is user code
                read.failed[place] = error
        return read.outcomes(self._batches.run(read.opened, awaited) if read.opened else ())

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Run a batch on this event loop, as ``run`` does."""
        read = _OpenedBatch(len(attempts))
        for place, attempt in enumerate(attempts):
            try:
                read.take(attempt, await _opened_async(self._payloads, attempt.task))
            except Exception as error:  # noqa: BLE001 - a codec is user code
                read.failed[place] = error
        return read.outcomes(await self._batches.run_async(read.opened) if read.opened else ())


class _OpenedBatch:
    """What became of the data of a batch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.opened: list[BatchedAttempt] = []
        self.failed: dict[int, BaseException] = {}
        """By place in the batch."""

    def take(self, attempt: BatchedAttempt, task: Task) -> None:
        self.opened.append(attempt._replace(task=task))

    def outcomes(self, found: Sequence[BatchOutcome]) -> Sequence[BatchOutcome]:
        """Return what became of each task of the batch, from what became of those opened."""
        left = iter(found)
        return [self.failed[i] if i in self.failed else next(left) for i in range(self._count)]


async def _opened_async(payloads: PayloadCodecs, task: Task) -> Task:
    if payloads.blocks:
        return await asyncio.to_thread(payloads.opened, task)
    return payloads.opened(task)
