"""What waits of one ordering id: its first tasks in memory, a range of later ones in the store.

Decides which tasks stay in memory, for the lane of an id and its mailbox alike.  Never reads the
store.
"""

from collections.abc import Sequence

from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import TaskKey, first_key_at
from actors.model.task import StoredTask
from actors.model.task_queue import TaskQueue


class OrderingQueue(TaskQueue):
    """Tasks in key order, and behind them what was left to the store."""

    __slots__ = ("spilled",)

    def __init__(self) -> None:
        super().__init__()
        self.spilled: tuple[TaskKey, TaskKey] | None = None
        """Open tasks with ``after`` < key <= ``up_to`` were left to the store."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, here or in the store."""
        return self.spilled is None and not len(self)

    def first_ms(self) -> int | None:
        """Return the scheduled time of the first task; of the store's, a time not after it."""
        first, spilled = self.first(), self.spilled
        if spilled is None:
            return None if first is None else first.scheduled_ms
        left_ms = spilled[0].scheduled_ms
        return left_ms if first is None else min(left_ms, first.scheduled_ms)

    def take(self, task: StoredTask, tasks_max: int) -> bool:
        """Keep a task in memory; False where it is left to the store."""
        if self.must_spill(task.key, tasks_max):
            self.spill_key(task.key)
            return False
        self.add(task)
        return True

    def must_spill(self, key: TaskKey, tasks_max: int) -> bool:
        """Once tasks are in the store, later ones join them there, or they would overtake."""
        spilled = self.spilled
        return (spilled is not None and key > spilled[0]) or len(self) >= tasks_max

    def due_of(
        self, page: Sequence[StoredTask], next_after: TaskKey | None, up_to: TaskKey, now_ms: int
    ) -> Sequence[StoredTask]:
        """Return what is due of a page that was read up to ``next_after``; leave the rest of the
        range to the store.

        What may still fall due before an early task must not wait behind it, so that is read again
        when it is due itself.
        """
        early = next((task.key for task in page if task.key.scheduled_ms > now_ms), None)
        if early is not None:
            self.spill(first_key_at(early.scheduled_ms), up_to)
            return [task for task in page if task.key < early]
        if next_after is not None:
            self.spill(next_after, up_to)
        return page

    def withdraw(self, key: TaskKey, withdrawal: Withdrawal) -> WithdrawalResult:
        """Let go of a task that waits, unless it is to be moved and was tried already."""
        task = self.find(key)
        if task is None:
            return WithdrawalResult.ABSENT
        if withdrawal is Withdrawal.MOVE and task.attempts.last:
            return WithdrawalResult.RAN
        self.remove(key)
        return WithdrawalResult.WITHDRAWN

    def spill(self, after: TaskKey, up_to: TaskKey) -> None:
        """Leave a range of keys to the store."""
        assert after <= up_to, "a range of keys ends before it begins"
        first, last = self.spilled or (after, up_to)
        self.spilled = (min(after, first), max(up_to, last))

    def spill_key(self, key: TaskKey) -> None:
        """Leave one key to the store, and no key before it that is in memory: it would be read."""
        spilled, after = self.spilled, first_key_at(key.scheduled_ms)
        if spilled is None:
            after = max((each for each in self if after < each < key), default=after)
        elif spilled[0] < key:
            after = spilled[0]
        assert after < key, "what is left is behind where reading begins"
        self.spill(after, key)

    def spill_from(self, key: TaskKey) -> int:
        """Forget what is in memory because of a key that may be open, and is not here.

        It is read again before all that waits behind it (P4).  Return how many tasks were here.
        """
        count = self.spill_all()
        self.spill_key(key)
        return count

    def forget(self) -> int:
        """Leave all to somebody who knows where reading begins; return how many tasks that is."""
        count, self.spilled = len(self), None
        self.clear()
        return count

    def spill_all(self) -> int:
        """Forget what is in memory, which the store holds too; return how many tasks that were."""
        if count := len(self):
            self.spill(first_key_at(min(self).scheduled_ms), max(self))
            self.clear()
        return count
