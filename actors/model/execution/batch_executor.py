"""BatchExecutor: the class that users subclass if one call serves many tasks.

It holds the values that user code gets and those that it declares. The node decides which tasks go
into a batch.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Any

from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.checkpoint_value import (
    AttemptCheckpoints,
    checkpoint_text,
    checkpoint_value,
)
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidCheckpoint
from hourhand.actors.model.values.public import public

BatchOutcome = Outcome | BaseException | None
"""The outcome of one task of a batch: an exception is a failed attempt of that task alone."""


@public("hourhand")
class BatchExecutor(TaskExecutor):
    """Base class with ``execute_many``: one insert for a hundred rows, one call for all.

    A node combines due tasks of one kind, one of each ordering id, or several with
    ``runs_of_one_id``; their order is kept. An instance serves one batch at a time and is kept for
    the next one: it may hold a connection. The timeout counts for a batch. The concurrency of a
    kind counts tasks, here too.
    """

    batch_tasks_max: int = 100
    """Most tasks of a batch."""
    batch_wait: timedelta = timedelta(milliseconds=10)
    """Longest wait of the first task of a batch for others."""
    batches_max: int = 1
    """Batches of this kind that run at once on one node."""
    retries_alone: bool = False
    """True if the tasks of a batch that raised run once more, at once, each alone: then one task
    that cannot succeed does not cost the others an attempt."""
    runs_of_one_id: bool = False
    """True if a batch may hold several tasks of one ordering id, in their order. Tasks behind one
    that is not done run again after it, whatever their outcome, without using up an attempt. A node
    reads it from the class, as limits."""
    attempts: Sequence[int] = ()
    """Number of the attempt of each task of the current batch, in the order of the tasks."""
    fences: Sequence[int] = ()
    """The fence of each task, as ``TaskExecutor.fence``."""
    hourhand_members: Sequence[tuple[Task, AttemptCheckpoints]] = ()
    """The node's: where the checkpoints of each task go."""

    def checkpoint(self, value: object, task: Task | None = None) -> None:
        """Note how far a task of the batch is, as ``TaskExecutor.checkpoint`` does; a batch of one
        task need not name it.

        Raises InvalidCheckpoint, also for a task that is not in the batch.
        """
        text = checkpoint_text(value)
        members = self.hourhand_members
        if task is None:
            if len(members) > 1:
                raise InvalidCheckpoint(
                    f"the batch has {len(members)} tasks: say which one the checkpoint is of,"
                    " checkpoint(value, task)"
                )
            found = [made for _, made in members]
        else:
            # A task may have been opened, or read, in between: its key tells which one it is.
            found = [made for each, made in members if each is task or each.key == task.key]
            if members and not found:
                raise InvalidCheckpoint(
                    f"the task {shown(str(task.key))} is not in the batch that runs: give one of"
                    " the tasks that execute_many was called with"
                )
        for made in found:
            made.make(text)

    @property
    def checkpointed(self) -> Sequence[Any]:  # type: ignore[explicit-any]
        """The newest checkpoint of the earlier attempts of each task, in the order of the tasks;
        None for a task without one.
        """
        return tuple(checkpoint_value(made.found) for _, made in self.hourhand_members)

    @property
    def snoozed(self) -> Sequence[int]:
        """Times that the current attempt of each task was snoozed so far, in their order."""
        return tuple(made.snoozed for _, made in self.hourhand_members)

    @abstractmethod
    def execute_many(
        self, tasks: Sequence[Task]
    ) -> Sequence[BatchOutcome] | None | Awaitable[Sequence[BatchOutcome] | None]:
        """Run the tasks once; may be ``async def``.

        Returning None means that all are done. A sequence has for each task, in their order, a
        result as of ``execute``, or the exception of its failure. A raised exception is a failed
        attempt of every task.
        """

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run a batch of one task."""
        self.attempts, self.fences = (self.attempt,), (self.fence,)
        self.hourhand_members = ((task, self.hourhand_checkpoints),)
        returned = self.execute_many((task,))
        if isinstance(returned, Awaitable):
            return _awaited(returned)
        return only_outcome(returned)


async def _awaited(returned: Awaitable[Sequence[BatchOutcome] | None]) -> Outcome | None:
    return only_outcome(await returned)


def only_outcome(returned: object) -> Outcome | None:
    """Return the outcome of a batch of one; raises the exception of its failure."""
    (outcome,) = outcomes_of(returned, 1)
    return raised(outcome)


def raised(outcome: BatchOutcome) -> Outcome | None:
    """Return an outcome; raises it if it is an exception."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def outcomes_of(returned: object, tasks: int) -> list[BatchOutcome]:
    """Return each task's outcome from the result of ``execute_many``; TypeError for a wrong
    result.
    """
    if returned is None:
        return [None] * tasks
    if isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        outcomes = list(returned)
        if len(outcomes) == tasks:
            return outcomes
    raise TypeError(
        f"execute_many returned {shown(returned)} for {tasks} tasks: it returns nothing, or the"
        " outcome of each task in their order"
    )
