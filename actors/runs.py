"""A run: tasks that may be in one batch with the task at hand of their ordering id, behind it.

Each has an attempt of its own, which begins beside that of the task before it and counts only once
that task is durably closed (P4).  Decides which tasks follow, and which of their attempts still
count.  Never decides the result of an attempt.
"""

import sys
from collections.abc import Iterable

from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import FRESH, StoredTask
from hourhand.actors.model.window.ordering_queue import OrderingQueue
from hourhand.actors.ports.runner import Executable
from hourhand.actors.task_executor import TaskExecutorRole
from hourhand.actors.turn import Turn


class TaskRun:
    """The tasks in the batch behind the task at hand of one ordering id, in key order."""

    __slots__ = ("_counted", "_most", "_roles", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._roles: dict[TaskKey, TaskExecutorRole] = {}
        self._most = sys.maxsize
        """Most tasks that begin together: few if few of the last ones counted, soon more again."""
        self._counted = 1
        """Tasks that counted, of those that began together, including the first one."""

    def __len__(self) -> int:
        return len(self._roles)

    @property
    def size_bytes(self) -> int:
        """Bytes of its tasks in memory."""
        return sum([role.task.size_bytes for role in self._roles.values()])

    @property
    def first_ms(self) -> int | None:
        """Scheduled time of its first task."""
        return next((key.scheduled_ms for key in self._roles), None)

    def find(self, key: TaskKey) -> TaskExecutorRole | None:
        """Return the task of a key, if it is here."""
        return self._roles.get(key)

    # The choice of tasks.

    def gather(self, first: TaskExecutorRole, tasks: OrderingQueue) -> None:
        """Take the tasks that may share a batch with ``first`` out of the queue that it came from.

        These come next, have the same kind, were never tried, and are known to be open.
        """
        assert not self._roles, "what follows an earlier task is done, or waits again"
        # A suspect runs alone.
        alone = first.task.attempts.suspect
        most = min(1 if alone else self.turn.effects.run_tasks_of(first.task), self._most)
        while len(self._roles) + 1 < most and (task := tasks.first_task()) is not None:
            if task.kind != first.task.kind or not self._may_begin(task):
                return
            assert first.task.key < task.key, "what waits has its turn later"
            tasks.pop()
            self.add(TaskExecutorRole(first.parent, self.turn, task, first.executors))

    def add(self, role: TaskExecutorRole) -> None:
        """Add a task behind all others."""
        assert role.task.key not in self._roles, "a key is here once"
        self._roles[role.task.key] = role

    def _may_begin(self, task: StoredTask) -> bool:
        return task.attempts is FRESH and self.turn.known.is_closed(task) is False

    def begin(self, first: TaskExecutorRole, executable: Executable) -> None:
        """Make the attempts, each behind the one before it."""
        before = first.attempt
        assert before is not None, "the first one of a run begins first"
        for role in self._roles.values():
            assert role.attempt is None, "an attempt is made once"
            assert before.task.key < role.task.key, "a run is in key order (P4)"
            if role.is_doubted or not self._may_begin(role.task):
                break
            before = role.start(executable, before)

    # A command for one of them.

    def withdraw(self, role: TaskExecutorRole, withdrawal: Withdrawal) -> WithdrawalResult:
        """Return whether user code was called for a task; if not, this attempt never calls it.

        A task that is withdrawn is then removed by ``give_back``.
        """
        if role.may_not_move(withdrawal):
            return WithdrawalResult.RAN
        if not role.is_begun:
            return WithdrawalResult.WITHDRAWN
        if withdrawal is Withdrawal.CLOSE:
            role.close_by_command()
        return WithdrawalResult.RUNNING

    # The end of the task before them.

    def next_begun(self) -> TaskExecutorRole | None:
        """Remove the first task and return it, if user code was called for it.

        Otherwise void the attempts of all.
        """
        role = next(iter(self._roles.values()), None)
        if role is not None and role.is_begun:
            self._counted += 1
            return self._roles.pop(role.task.key)
        twice = 2 * self._counted
        self._most, self._counted = twice if self._roles else max(self._most, twice), 1
        self.void()
        return None

    def void(self) -> None:
        """Drop all attempts: the tasks run again later, and these attempts do not count."""
        _void(self._roles.values())

    def give_back(self, tasks: OrderingQueue, key: TaskKey | None = None) -> None:
        """Put tasks whose attempts cannot count back into the queue.  With a key, remove that task,
        and put back all tasks behind it.

        They go before all other tasks of the queue, even if it is full.  If the store has an
        earlier task, they and the queue are read again behind it.
        """
        roles, keys = self._roles, list(self._roles)
        if key is not None:
            first = keys.index(key)
        else:
            may_count = [role.may_count for role in roles.values()]
            first = len(keys) if all(may_count) else may_count.index(False)
        left = [roles.pop(each) for each in keys[first:]]
        _void(left)
        for role in left:
            if role.task.key == key:
                continue
            if role.is_doubted or tasks.must_spill(role.task.key, sys.maxsize):
                # The tasks that wait in memory behind it are read again with it (P4).
                tasks.spill_from(role.task.key)
            else:
                tasks.add(role.task)


def _void(roles: Iterable[TaskExecutorRole]) -> None:
    for role in roles:
        role.void()
