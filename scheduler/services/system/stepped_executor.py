"""System tasks that only wait for answers of store and log, without a coroutine for each.

Decides nothing about them: an executor defines the steps, and the node goes through those of all
waiting tasks together.
"""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.scheduler.node.system_executor import SharedWork, SystemExecutor, TaskEnds
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.light_future import then
from hourhand.scheduler.runtime.steps import Steps, begun


class SteppedExecutor(SystemExecutor):
    """Runs system tasks that only wait for answers of store and log, and many of them together."""

    @abstractmethod
    def steps(self, tasks: Sequence[StoredTask]) -> Steps[TaskEnds]:
        """Do the work of tasks of different ordering ids, one answer after another; return the end
        of each.
        """

    def immediate(self, task: StoredTask) -> "SteppedWork":
        """Return the fast path, which takes every task."""
        return SteppedWork(self, task)

    async def execute(self, task: Task) -> Outcome | None:
        """Do the same work where there is no fast path."""
        del task
        attempt = current_attempt()
        assert attempt is not None, "only an attempt is executed"
        return await settled(SteppedWork(self, attempt.task)())


@dataclass(frozen=True, slots=True)
class SteppedWork(SharedWork):
    """The steps of one task, or of several."""

    executor: SteppedExecutor
    task: StoredTask

    def __call__(self) -> "Future[Outcome | None]":
        """Take the steps of this task alone."""
        return then(self.together((self.task,)), _only_end)

    def together(self, tasks: Sequence[StoredTask]) -> "Future[TaskEnds]":
        """Take the steps of some tasks."""
        return begun(self.executor.steps(tasks))


def _only_end(ends: TaskEnds) -> Outcome | None:
    (end,) = ends
    if isinstance(end, BaseException):
        raise end
    return end
