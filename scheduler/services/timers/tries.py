"""How often a callback failed, whatever else failed meanwhile.

Decides whether a callback is given up.  An attempt that never came to its callback, because the
store did not answer or its process died, is none of the tries that are allowed.
"""

from actors.model.status import AttemptResult
from actors.model.task import Task
from actors.ports.store import StatusStore
from scheduler.futures.awaiting import settled
from scheduler.records.appending import TaskAppender


class Tries:
    """Counts the failures of callbacks."""

    def __init__(self, appender: TaskAppender, status: StatusStore, tries_max: int) -> None:
        self._appender = appender
        self._status = status
        self._tries_max = tries_max

    async def are_used_up(self, task: Task, attempt: int) -> bool:
        """Whether the failure at hand, of that attempt, is the last one that is allowed."""
        if attempt < self._tries_max:
            return False
        partition = self._appender.partition_of(task.ordering_id)
        rows = await settled(self._status.find_attempts(partition, [task.key]))
        before = sum(row.result is AttemptResult.RETRY for row in rows)
        return before + 1 >= self._tries_max
