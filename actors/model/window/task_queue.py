"""Tasks in memory, in key order, with their bytes.

Its owner decides what enters and what leaves.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import accumulate

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask


class TaskQueue:
    """A dictionary and a heap of its keys; no I/O, no locks."""

    __slots__ = ("_order", "_tasks", "size_bytes")
    takes_turns = False
    """True if flows take turns: then due tasks do not leave in key order."""

    def __init__(self) -> None:
        self._tasks: dict[TaskKey, StoredTask] = {}
        self._order: list[TaskKey] = []
        """A heap of the keys, some of them no longer in ``_tasks``."""
        self.size_bytes = 0
        """Bytes of the tasks in memory, by ``StoredTask.size_bytes``."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._tasks

    def __iter__(self) -> Iterator[TaskKey]:
        return iter(self._tasks)

    def tasks(self) -> Iterable[StoredTask]:
        """Return all tasks, in any order."""
        return self._tasks.values()

    def find(self, key: TaskKey) -> StoredTask | None:
        """Return the task of a key, if it is here."""
        return self._tasks.get(key)

    def add(self, task: StoredTask) -> None:
        """Add a task, or merge it with the task of its key."""
        if not self.update(task):
            heapq.heappush(self._order, task.key)
            self._tasks[task.key] = task
            self.size_bytes += task.size_bytes

    def update(self, task: StoredTask) -> bool:
        """Replace a task by a later record of its key; return True if the key is here."""
        known = self._tasks.get(task.key)
        if known is None:
            return False
        merged = self._tasks[task.key] = known.merged_with(task)
        self.size_bytes += merged.size_bytes - known.size_bytes
        return True

    def remove(self, key: TaskKey) -> StoredTask | None:
        """Remove a key; return its task, if it was here."""
        task = self._tasks.pop(key, None)
        if task is not None:
            self.size_bytes -= task.size_bytes
            assert self.size_bytes >= 0, "more is let go of than was taken"
        return task

    def first(self) -> TaskKey | None:
        """Return the first key."""
        order, tasks = self._order, self._tasks
        while order and order[0] not in tasks:
            heapq.heappop(order)
        return order[0] if order else None

    def first_task(self) -> StoredTask | None:
        """Return the task of the first key."""
        first = self.first()
        return None if first is None else self._tasks[first]

    def first_after(self, now_ms: int) -> int | None:
        """Return the time at which the first task is due; None if it is already due, or there is
        none.
        """
        first = self.first()
        return first.scheduled_ms if first is not None and first.scheduled_ms > now_ms else None

    def pop(self) -> StoredTask | None:
        """Remove the first task and return it."""
        order, tasks = self._order, self._tasks
        while order:
            task = tasks.pop(heapq.heappop(order), None)
            if task is not None:
                self.size_bytes -= task.size_bytes
                assert self.size_bytes >= 0, "more is let go of than was taken"
                return task
        return None

    def begin_taking(self, now_ms: int) -> None:
        """Prepare for taking tasks at that time; nothing is needed here."""

    def take_due(self, now_ms: int, free_slots: int) -> StoredTask | None:
        """Remove the first task and return it, if it is due; ``free_slots`` matters only with
        several flows.
        """
        del free_slots
        first = self.first()
        return self.pop() if first is not None and first.scheduled_ms <= now_ms else None

    def clear(self) -> None:
        """Remove all tasks."""
        self._tasks.clear()
        self._order.clear()
        self.size_bytes = 0

    def keep_first(self, tasks_max: int, bytes_max: int, tasks_min: int) -> list[TaskKey]:
        """Remove the latest tasks until the bounds are met; return their keys, in order.
        ``tasks_min`` of them stay, however large they are.
        """
        assert tasks_min >= 0, "a number of tasks"
        assert tasks_max >= 0, "a number of tasks"
        keys = sorted(self._tasks)
        fit = fitting((self._tasks[key].size_bytes for key in keys), bytes_max)
        kept = min(tasks_max, len(keys), max(fit, tasks_min))
        for key in keys[kept:]:
            self.remove(key)
        self._order = keys[:kept]
        assert len(self._tasks) == kept, "what is ordered is what is here"
        return keys[kept:]


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """Return the number of sizes, from the first on, that fit a bound together."""
    return sum(1 for size_bytes in accumulate(sizes) if size_bytes <= bytes_max)
