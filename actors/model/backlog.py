"""The backlog of a partition: which ordering ids wait for what is overdue to be loaded.

Memory may reach less far than the clock: more is overdue than it may hold.  An ordering id whose
tasks are all later than that is punctual: nothing of it has to run first (P4), so its tasks
are kept in memory apart from the others.  Decides which ids these are, and how far theirs are in
memory.  Loads nothing, and passes nothing on.
"""

from collections.abc import Iterable

from actors.model.checkpoint import Checkpoint
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Watermark
from actors.model.task import StoredTask

BACKLOG_MIN_MS = 5_000
"""What is overdue by more and not in memory is a backlog; what is less late is on time."""
BACKLOG_AT_START_MS = 60_000
"""A partition whose watermark is further behind than this most likely has one when it begins."""
BACKLOG_PAUSE_MS = 5_000
"""Between the end of one and the search for the next one: a search reads the keys of all."""
BACKLOG_PAGE_ROWS = 5_000
"""Rows whose ordering ids are read at once; new batches wait meanwhile."""
BACKLOG_SHARE = 8
"""This part of what a partition may hold, at most, is for the ordering ids that have a backlog."""
ORDERING_ID_BYTES = 150
"""What an ordering id holds in memory, less its own bytes."""


def backlog_behind(
    mark: Watermark, reached: TaskKey, now_ms: int, searched: TaskKey
) -> "Backlog | None":
    """Return a backlog whose ids are still to be found, where memory reaches far less than now.

    Every open task is behind the watermark or a straggler's, in memory or in the store.  Of some
    ids memory reaches up to ``searched``: these have a backlog too.
    """
    end_ms = now_ms - BACKLOG_MIN_MS
    if reached.scheduled_ms >= end_ms:
        return None
    stragglers = [each.ordering_id for each in mark.stragglers]
    backlog = Backlog(first_key_at(mark.watermark_ms), first_key_at(end_ms), stragglers)
    backlog.reach_to(searched)
    return backlog


class Backlog:
    """The ordering ids of all rows that were due when it was found; no I/O, no locks.

    States: being found, where ids are still missing and none counts as punctual; known.
    """

    __slots__ = ("_ordering_ids", "checkpoint", "end_ms", "is_known", "searched", "size_bytes")

    def __init__(self, after: TaskKey, end: TaskKey, stragglers: Iterable[str]) -> None:
        """Every open task is after ``after``, or of a straggler; ``end`` is the present."""
        assert after < end, "what is to come is not a backlog"
        self.searched = after
        """The ids of all rows up to here are known, and of those that were written since."""
        self.end_ms = end.scheduled_ms
        self.checkpoint = Checkpoint(end)
        """Every open task of a punctual id up to this key is in memory."""
        self.is_known = False
        """All ids are found, and those that are punctual have a queue of their own."""
        self._ordering_ids: set[str] = set()
        self.size_bytes = 0
        self._add(stragglers)

    def __len__(self) -> int:
        return len(self._ordering_ids)

    def is_punctual(self, ordering_id: str) -> bool:
        """Whether nothing of this id was due before, or what was is closed."""
        return self.is_known and ordering_id not in self._ordering_ids

    def fits(self, share_bytes: int) -> bool:
        """Whether a partition that may hold so much may keep these ids."""
        return self.size_bytes <= share_bytes // BACKLOG_SHARE

    def add_found(self, ordering_ids: Iterable[str], next_after: TaskKey | None) -> bool:
        """Take the ids of rows that were found; return whether these are all."""
        assert not self.is_known, "its ids are all known"
        self._add(ordering_ids)
        if next_after is None:
            return True
        assert next_after > self.searched, "the search goes on"
        self.searched = next_after
        return False

    def reach_to(self, key: TaskKey) -> None:
        """Let the backlog end behind ``key``, up to which memory reaches for some of its ids.

        The ids of all rows up to there are still to be found.
        """
        assert not self.is_known, "its ids are all known"
        if key >= self.checkpoint.key:
            self.end_ms = key.scheduled_ms + 1
            self.checkpoint = Checkpoint(first_key_at(self.end_ms))

    def add_written(self, tasks: Iterable[StoredTask]) -> None:
        """Take note of rows that are written, or opened again, while ids are missing."""
        assert not self.is_known, "its ids are all known"
        self._add(t.key.ordering_id for t in tasks if t.key.scheduled_ms < self.end_ms)

    def split(self, tasks: Iterable[StoredTask]) -> tuple[list[StoredTask], list[StoredTask]]:
        """Return the tasks of punctual ids, and those of the others."""
        assert self.is_known, "an id that is still to be found may be among them"
        parts: tuple[list[StoredTask], list[StoredTask]] = ([], [])
        for task in tasks:
            parts[not self.is_punctual(task.key.ordering_id)].append(task)
        return parts

    def unread_keys(self, tasks: Iterable[StoredTask], reached: TaskKey) -> tuple[TaskKey, ...]:
        """Return the keys of punctual ids that lie where the others have their backlog, which
        loads have read up to ``reached``.
        """
        return tuple(
            task.key
            for task in tasks
            if reached < task.key
            and task.key.scheduled_ms < self.end_ms
            and self.is_punctual(task.key.ordering_id)
        )

    def has_in_memory(self, key: TaskKey) -> bool:
        """Whether an open task of this key is in memory as one of a punctual id."""
        return key <= self.checkpoint.key and self.is_punctual(key.ordering_id)

    def _add(self, ordering_ids: Iterable[str]) -> None:
        known = self._ordering_ids
        for ordering_id in ordering_ids:
            if ordering_id not in known:
                known.add(ordering_id)
                self.size_bytes += ORDERING_ID_BYTES + len(ordering_id)
