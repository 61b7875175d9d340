"""Stands in a node for executors that run in processes; none of their code is called here.

Decides nothing: a class's declarations are read when a node is built.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.ports.batches import BatchedAttempt, BatchLimits, BatchMember


class ProcessMember(TaskExecutor):
    """Stands for the executors of one kind."""

    around: Callable[[], AbstractContextManager[object]] | None = None
    begin_trace: Callable[[], bytes | None] | None = None
    """Begins the span of an attempt that is sent to a process, and returns the context for its
    code; None for an attempt that is not traced."""

    def __init__(self, declared_retry: RetryPolicy, declared_timeout: timedelta | None) -> None:
        self.declared_retry = declared_retry
        self.retry, self.timeout = declared_retry, declared_timeout

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Never be called: a process runs the task."""
        del task
        _never_here()


@dataclass(frozen=True, eq=False)
class ProcessBatches:
    """Implements ``Batches`` for one kind, by what its class states."""

    limits: BatchLimits
    runs_async: bool
    declared_retry: RetryPolicy
    timeout: timedelta | None
    runs_again_alone: bool
    """True if the tasks of a batch whose process died run once more, each alone."""

    @property
    def retry(self) -> RetryPolicy:
        """The policy of the class."""
        return self.declared_retry

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Never be called: a process runs the batch."""
        del attempts, awaited
        _never_here()

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Never be called, as ``run``."""
        del attempts
        _never_here()


def _never_here() -> NoReturn:
    raise AssertionError("what runs in a process was called in the node")


def is_in_process(executor: Executable) -> bool:
    """True if attempts of this executor run in a process."""
    if isinstance(executor, BatchMember):
        return isinstance(executor.batches, ProcessBatches)
    return isinstance(executor, ProcessMember)
