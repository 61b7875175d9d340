"""BatchExecutor: the class that users subclass where one call serves many tasks.

It holds what user code is told and what it says of itself.  Decides nothing: the node decides
which tasks go into a batch.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from datetime import timedelta

from actors.model.display import shown
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor

BatchOutcome = Outcome | BaseException | None
"""What became of one task of a batch: an exception is a failed attempt of that task alone."""


class BatchExecutor(TaskExecutor):
    """Subclass this and write ``execute_many``: one insert for a hundred rows, one call for all.

    A node puts due tasks of one kind together, one of each ordering id, or more where it asks for
    runs; their order is kept.  An instance serves one batch at a time and is kept for the next one:
    it may hold a connection.  The timeout counts for a batch.  The concurrency of a kind counts
    tasks, here too.
    """

    batch_tasks_max: int = 100
    """Most tasks of a batch."""
    batch_wait: timedelta = timedelta(milliseconds=10)
    """So long the first task of a batch waits for others."""
    batches_max: int = 1
    """Batches of this kind that run at once on one node."""
    retries_alone: bool = False
    """Whether the tasks of a batch that raised run once more, at once, each alone: then one task
    that cannot be done does not cost the others an attempt."""
    runs_of_one_id: bool = False
    """Whether a batch may hold several tasks of one ordering id, in their order.  What follows a
    task that is not done goes again after it, whatever is said of it, and uses up no attempt.  A
    node looks at the class, as for limits."""
    attempts: Sequence[int] = ()
    """Number of the attempt of each task of the batch that runs, in the order of the tasks."""
    fences: Sequence[int] = ()
    """The fence of each task, as ``TaskExecutor.fence``."""

    @abstractmethod
    def execute_many(
        self, tasks: Sequence[Task]
    ) -> Sequence[BatchOutcome] | None | Awaitable[Sequence[BatchOutcome] | None]:
        """Run the tasks once; may be ``async def``.

        Returning nothing means that all are done.  A sequence says of each task, in their order,
        what ``execute`` would return, or holds the exception that it failed with.  What is raised
        is a failed attempt of every task.
        """

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run a batch of one task."""
        self.attempts, self.fences = (self.attempt,), (self.fence,)
        returned = self.execute_many((task,))
        if isinstance(returned, Awaitable):
            return _awaited(returned)
        return only_outcome(returned)


async def _awaited(returned: Awaitable[Sequence[BatchOutcome] | None]) -> Outcome | None:
    return only_outcome(await returned)


def only_outcome(returned: object) -> Outcome | None:
    """Return what became of a batch of one; raises what it failed with."""
    (outcome,) = outcomes_of(returned, 1)
    return raised(outcome)


def raised(outcome: BatchOutcome) -> Outcome | None:
    """Return an outcome; raises the exception that it is."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def outcomes_of(returned: object, tasks: int) -> list[BatchOutcome]:
    """Return what ``execute_many`` says of each of so many tasks; TypeError where it does not."""
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
