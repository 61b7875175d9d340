"""Tasks in memory, in key order, with the bytes they hold.

Decides nothing: its owner says what enters and what leaves.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import accumulate

from actors.model.key import TaskKey
from actors.model.task import StoredTask


class TaskQueue:
    """A dictionary and a heap of its keys; no I/O, no locks."""

    __slots__ = ("_order", "_tasks", "size_bytes")
    takes_turns = False
    """Whether flows take turns: then what is due does not leave in key order."""

    def __init__(self) -> None:
        self._tasks: dict[TaskKey, StoredTask] = {}
        self._order: list[TaskKey] = []
        """A heap of the keys, some of them no longer in ``_tasks``."""
        self.size_bytes = 0
        """What the tasks hold in memory, as ``StoredTask.held_bytes`` counts it."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._tasks

    def __iter__(self) -> Iterator[TaskKey]:
        return iter(self._tasks)

    def tasks(self) -> Iterable[StoredTask]:
        """Return all tasks, in no order."""
        return self._tasks.values()

    def find(self, key: TaskKey) -> StoredTask | None:
        """Return the task of a key, where it is here."""
        return self._tasks.get(key)

    def add(self, task: StoredTask) -> None:
        """Take a task, or, where its key is here, what is newer of the two."""
        if not self.update(task):
            heapq.heappush(self._order, task.key)
            self._tasks[task.key] = task
            self.size_bytes += task.held_bytes

    def update(self, task: StoredTask) -> bool:
        """Take a later record over where its key is here; return whether it is."""
        known = self._tasks.get(task.key)
        if known is None:
            return False
        merged = self._tasks[task.key] = known.merged_with(task)
        self.size_bytes += merged.held_bytes - known.held_bytes
        return True

    def remove(self, key: TaskKey) -> StoredTask | None:
        """Let go of a key; return its task, where it was here."""
        task = self._tasks.pop(key, None)
        if task is not None:
            self.size_bytes -= task.held_bytes
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
        """Return when the first task falls due; None where it is due by now, or there is none."""
        first = self.first()
        return first.scheduled_ms if first is not None and first.scheduled_ms > now_ms else None

    def pop(self) -> StoredTask | None:
        """Let go of the first task and return it."""
        order, tasks = self._order, self._tasks
        while order:
            task = tasks.pop(heapq.heappop(order), None)
            if task is not None:
                self.size_bytes -= task.held_bytes
                assert self.size_bytes >= 0, "more is let go of than was taken"
                return task
        return None

    def begin_taking(self, now_ms: int) -> None:
        """Do what has to be done before tasks are taken at that time: here nothing."""

    def take_due(self, now_ms: int, free_slots: int) -> StoredTask | None:
        """Let go of the first task and return it, where it is due; the number of free slots
        matters where there are several flows.
        """
        del free_slots
        first = self.first()
        return self.pop() if first is not None and first.scheduled_ms <= now_ms else None

    def clear(self) -> None:
        """Let go of all."""
        self._tasks.clear()
        self._order.clear()
        self.size_bytes = 0

    def keep_first(self, tasks_max: int, bytes_max: int, tasks_min: int) -> list[TaskKey]:
        """Let go of the latest tasks, so that no more than the bounds stay; return their keys, in
        order.  ``tasks_min`` of them stay however large they are.
        """
        assert tasks_min >= 0, "a number of tasks"
        assert tasks_max >= 0, "a number of tasks"
        keys = sorted(self._tasks)
        fit = fitting((self._tasks[key].held_bytes for key in keys), bytes_max)
        kept = min(tasks_max, len(keys), max(fit, tasks_min))
        for key in keys[kept:]:
            self.remove(key)
        self._order = keys[:kept]
        assert len(self._tasks) == kept, "what is ordered is what is here"
        return keys[kept:]


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """Return how many of these sizes, from the first on, are within a bound together."""
    return sum(1 for held_bytes in accumulate(sizes) if held_bytes <= bytes_max)
