"""The waiting tasks of a partition in one or two bands: all of them, or those on time apart.

While ordering ids have a backlog, the tasks of all others are a separate band, which goes first and
keeps a part of the slots and of memory. Decides which band goes first, the limits of each, and
which tasks leave memory first. Others decide whose tasks are on time.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.flow_queues import FlowQueues
from hourhand.actors.model.window.task_queue import TaskQueue

ON_TIME_SHARE = 4
"""One part in this number of memory and of the slots is kept for tasks that are on time, while
others have a backlog."""


class BandName(Enum):
    """The names of bands."""

    ORDINARY = "ordinary"
    """All tasks, except those in a band of their own."""
    ON_TIME = "on_time"
    """Tasks of ordering ids on time, while others have a backlog."""


WaitingQueue = TaskQueue | FlowQueues
"""Waiting tasks: in key order, or in that of their flows if kinds have rules."""


class Band(NamedTuple):
    """Tasks that wait together."""

    name: BandName
    queue: WaitingQueue
    kept_part: int = 0
    """One part in this number of slots and bytes is not for these tasks; 0 if all are."""

    def most(self, of: int) -> int:
        """Return how much of ``of`` slots or bytes may be used when its tasks are handed on."""
        return of - of // self.kept_part if self.kept_part else of


class Dropped(NamedTuple):
    """The tasks of a band that left memory, in key order."""

    band: Band
    keys: list[TaskKey]


class Bands:
    """The bands of a partition; no I/O, no locks."""

    def __init__(self, make_queue: Callable[[], WaitingQueue]) -> None:
        self._make_queue = make_queue
        self._bands: tuple[Band, ...] = (Band(BandName.ORDINARY, make_queue()),)

    def __iter__(self) -> Iterator[Band]:
        """Iterate in the order in which they are handed on."""
        return iter(self._bands)

    def __len__(self) -> int:
        """Return the number of waiting tasks."""
        return sum(len(band.queue) for band in self._bands)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tasks in memory."""
        return sum(band.queue.size_bytes for band in self._bands)

    def of(self, name: BandName) -> Band:
        """Return an existing band."""
        return next(band for band in self._bands if band.name is name)

    def tasks_of(self, name: BandName) -> int:
        """Return the number of waiting tasks of a band, 0 for a missing band."""
        return sum(len(band.queue) for band in self._bands if band.name is name)

    def separate(self) -> None:
        """Put later tasks of ids on time into a band of their own, which goes first."""
        (band,) = self._bands
        on_time = Band(BandName.ON_TIME, self._make_queue())
        self._bands = (on_time, band._replace(kept_part=ON_TIME_SHARE))

    def join(self) -> None:
        """Keep all tasks in one band."""
        on_time, band = self._bands
        while (task := on_time.queue.pop()) is not None:
            band.queue.add(task)
        self._bands = (band._replace(kept_part=0),)

    def first(self) -> TaskKey | None:
        """Return the first key of all bands."""
        firsts = [key for band in self._bands if (key := band.queue.first()) is not None]
        return min(firsts, default=None)

    def first_after(self, now_ms: int) -> int | None:
        """Return the time at which the next waiting task is due; None if there is none."""
        dues_ms = [band.queue.first_after(now_ms) for band in self._bands]
        return min((due_ms for due_ms in dues_ms if due_ms is not None), default=None)

    def find(self, key: TaskKey) -> StoredTask | None:
        """Return the task of a key, if it waits."""
        found = (band.queue.find(key) for band in self._bands)
        return next((task for task in found if task is not None), None)

    def update(self, task: StoredTask) -> None:
        """Replace a waiting task by a later record of its key."""
        for band in self._bands:
            band.queue.update(task)

    def remove(self, key: TaskKey) -> None:
        """Remove a key."""
        for band in self._bands:
            band.queue.remove(key)

    def keep_first(self, tasks_max: int, bytes_max: int, tasks_min: int) -> list[Dropped]:
        """Remove the latest tasks until the bounds are met; tasks of an earlier band only if no
        later band has any left. ``tasks_min`` tasks stay, however large they are.
        """
        assert tasks_max >= 0, "a number of tasks"
        dropped: list[Dropped] = []
        for number in reversed(range(len(self._bands))):
            band, before = self._bands[number], self._bands[:number]
            tasks = sum(len(each.queue) for each in before)
            left = tasks_max - tasks, bytes_max - sum(each.queue.size_bytes for each in before)
            least = 0 if tasks else tasks_min
            keys = band.queue.keep_first(max(0, left[0]), left[1], least)
            if keys:
                dropped.append(Dropped(band, keys))
        return dropped
