"""A run: tasks that may be in one batch with the task at hand of their ordering id, behind it.

Each has an attempt of its own, which begins beside that of the task before it and counts only once
that task is durably closed (P4).  Decides which tasks follow, and which of their attempts still
count.  Never decides what becomes of an attempt.
"""

import sys
from collections.abc import Iterable

from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import TaskKey
from actors.model.ordering_queue import OrderingQueue
from actors.model.task import FRESH, StoredTask
from actors.ports.runner import Executable
from actors.task_executor import TaskExecutorRole
from actors.turn import Turn


class TaskRun:
    """What stands behind the task at hand of one ordering id, in key order."""

    __slots__ = ("_counted", "_most", "_roles", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._roles: dict[TaskKey, TaskExecutorRole] = {}
        self._most = sys.maxsize
        """So many may begin together: few where few of the last ones counted, soon more again."""
        self._counted = 1
        """Of those that began together, the first one included."""

    def __len__(self) -> int:
        return len(self._roles)

    @property
    def size_bytes(self) -> int:
        """What its tasks hold in memory."""
        return sum([role.task.size_bytes for role in self._roles.values()])

    @property
    def first_ms(self) -> int | None:
        """Scheduled time of its first task."""
        return next((key.scheduled_ms for key in self._roles), None)

    def find(self, key: TaskKey) -> TaskExecutorRole | None:
        """Return the task of a key, where it is here."""
        return self._roles.get(key)

    # Which tasks follow.

    def take(self, first: TaskExecutorRole, tasks: OrderingQueue) -> None:
        """Take what may be in a batch with ``first`` out of the queue that it was taken from.

        That is what comes next, has the same kind, was never tried, and is known to be open.
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
        """Take a task behind all others."""
        assert role.task.key not in self._roles, "a key is here once"
        self._roles[role.task.key] = role

    def _may_begin(self, task: StoredTask) -> bool:
        return task.attempts is FRESH and self.turn.known.is_closed(task) is False

    def begin(self, first: TaskExecutorRole, executable: Executable) -> None:
        """Make their attempts, each behind the one before."""
        before = first.attempt
        assert before is not None, "the first one of a run begins first"
        for role in self._roles.values():
            assert role.attempt is None, "an attempt is made once"
            assert before.task.key < role.task.key, "a run is in key order (P4)"
            if role.is_doubted or not self._may_begin(role.task):
                break
            before = role.start(executable, before)

    # What comes for one of them.

    def withdraw(self, role: TaskExecutorRole, withdrawal: Withdrawal) -> WithdrawalResult:
        """Say whether user code was called for a task, and if not, never call it for this attempt.

        Where it is withdrawn, ``give_back`` lets go of it.
        """
        if role.may_not_move(withdrawal):
            return WithdrawalResult.RAN
        if not role.is_begun:
            return WithdrawalResult.WITHDRAWN
        if withdrawal is Withdrawal.CLOSE:
            role.close_by_command()
        return WithdrawalResult.RUNNING

    # Their turn, or that of the task before them once more.

    def next_begun(self) -> TaskExecutorRole | None:
        """Let go of the first one if user code was called for it, and return it.

        Otherwise the attempts of all are void.
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
        """Forget all attempts: their tasks are tried again, without one attempt less."""
        _void(self._roles.values())

    def forget(self) -> None:
        """Leave all to the store."""
        self.void()
        self._roles.clear()

    def give_back(self, tasks: OrderingQueue, key: TaskKey | None = None) -> None:
        """Let those wait in a queue for their turn whose attempts cannot count; with a key those
        behind it, which is let go of.

        They come before all that waits there, however much that is.  Where the store has an earlier
        one they are read again behind it, and so is what waits.
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
                # What waits in memory behind it is read again with it (P4).
                tasks.spill_from(role.task.key)
            else:
                tasks.add(role.task)


def _void(roles: Iterable[TaskExecutorRole]) -> None:
    for role in roles:
        role.void()
