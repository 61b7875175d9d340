"""The waiting tasks of one ordering id: its first tasks in memory, a range of later ones in the
store.

Decides which tasks stay in memory, and which rows of the store are read again. Never reads the
store.
"""

from collections.abc import Sequence
from heapq import heappush
from typing import Protocol

from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.task_queue import TaskQueue


class RangeRead(Protocol):
    """A read of stored rows that is under way."""

    @property
    def after(self) -> TaskKey:
        """Rows behind this key are read."""

    @property
    def up_to(self) -> TaskKey:
        """The last key that is read."""

    @property
    def limit(self) -> int:
        """Most rows of the read."""


class OrderingQueue(TaskQueue):
    """Tasks in key order, and behind them a range that was left to the store."""

    __slots__ = ("reading", "stored")

    def __init__(self) -> None:
        super().__init__()
        self.stored: tuple[TaskKey, TaskKey] | None = None
        """Open tasks with ``after`` < key <= ``up_to`` were left to the store."""
        self.reading: RangeRead | None = None
        """The part of the left range whose rows are being read."""

    @property
    def is_empty(self) -> bool:
        """True if nothing waits, neither here nor in the store."""
        return self.stored is None and self.reading is None and not len(self)

    def first_ms(self) -> int | None:
        """Return the scheduled time of the first task; for tasks in the store, a time not after
        it.
        """
        first, stored, reading = self.first(), self.stored, self.reading
        times = [
            *(() if first is None else (first.scheduled_ms,)),
            *(() if stored is None else (stored[0].scheduled_ms,)),
            *(() if reading is None else (reading.after.scheduled_ms,)),
        ]
        return min(times, default=None)

    def enqueue(self, task: StoredTask, tasks_max: int) -> None:
        """Keep a task as one of at most ``tasks_max``, or leave it to the store."""
        if self.must_spill(task.key, tasks_max):
            self.spill_key(task.key)
        else:
            self.add(task)

    def enqueue_new(self, task: StoredTask, size_bytes: int, tasks_max: int) -> bool:
        """Keep a task as one of at most ``tasks_max``, unless it is known or must go to the store;
        return True if it is kept.
        """
        key, tasks, stored = task.key, self._tasks, self.stored
        is_behind = stored is not None and key > stored[0]
        if is_behind or len(tasks) >= tasks_max or key in tasks:
            return False
        heappush(self._order, key)
        tasks[key] = task
        self.size_bytes += size_bytes
        return True

    def must_spill(self, key: TaskKey, tasks_max: int) -> bool:
        """Return True if a task must go to the store: later ones may not overtake those there."""
        stored = self.stored
        return (stored is not None and key > stored[0]) or len(self._tasks) >= tasks_max

    def leaves_to_store(self, key: TaskKey) -> bool:
        """True if a key is in the range that was left to the store, or is being read."""
        stored, reading = self.stored, self.reading
        if reading is not None and reading.after < key <= reading.up_to:
            return True
        return stored is not None and stored[0] < key <= stored[1]

    def withdraw(self, key: TaskKey, withdrawal: Withdrawal) -> WithdrawalResult:
        """Remove a waiting task, unless it should be moved and was already tried."""
        task = self.find(key)
        if task is None:
            return WithdrawalResult.ABSENT
        if withdrawal is Withdrawal.MOVE and task.attempts.last:
            return WithdrawalResult.RAN
        self.remove(key)
        return WithdrawalResult.WITHDRAWN

    # Changes of the range in the store.

    def spill(self, after: TaskKey, up_to: TaskKey) -> None:
        """Leave a range of keys to the store."""
        assert after <= up_to, "a range of keys ends before it begins"
        first, last = self.stored or (after, up_to)
        self.stored = (min(after, first), max(up_to, last))

    def spill_key(self, key: TaskKey) -> None:
        """Leave one key to the store, and no earlier key that is in memory: it would be read."""
        stored, after = self.stored, first_key_at(key.scheduled_ms)
        if stored is None:
            after = max((each for each in self if after < each < key), default=after)
        elif stored[0] < key:
            after = stored[0]
        assert after < key, "what is left is behind where reading begins"
        self.spill(after, key)

    def spill_from(self, key: TaskKey) -> None:
        """Drop tasks in memory from a key on that may be open, and is not here.

        It is read again before all that waits behind it (P4).
        """
        self.spill_all()
        self.spill_key(key)

    def spill_all(self) -> None:
        """Drop all tasks in memory, which the store holds too."""
        if len(self):
            self.spill(first_key_at(min(self).scheduled_ms), max(self))
            self.clear()

    # Reading from the store.

    def begin_reading(self, reading: RangeRead) -> None:
        """Wait for rows of the range that was left to the store."""
        assert self.reading is None, "one page is read at a time"
        self.reading, self.stored = reading, None

    def end_reading(
        self, page: Sequence[StoredTask], next_after: TaskKey | None, now_ms: int
    ) -> Sequence[StoredTask]:
        """Return the due tasks of a page that was read up to ``next_after``; leave the rest of the
        range to the store.

        Later tasks that become due must not wait behind an early one, so that is read again when it
        is due itself.
        """
        reading = self.reading
        assert reading is not None, "nobody asked for these tasks"
        after, up_to, self.reading = reading.after, reading.up_to, None
        assert not page or after < page[0].key <= page[-1].key <= up_to, "not what was asked for"
        early = next((task.key for task in page if task.key.scheduled_ms > now_ms), None)
        if early is not None:
            self.spill(first_key_at(early.scheduled_ms), up_to)
            return [task for task in page if task.key < early]
        if next_after is not None:
            self.spill(next_after, up_to)
        return page

    def stop_reading(self) -> None:
        """Return the pending range to the store: its answer is not waited for."""
        reading, self.reading = self.reading, None
        if reading is not None:
            self.spill(reading.after, reading.up_to)
