"""Completions as the embedded store keeps them, many successes in one row, for simulated nodes.

The code of that store runs over two files in memory: one writes segments, the other rows alone.
Each request to the simulated store has its effect in both, and each answer of the two is
compared.  It decides nothing about when a request has its effect: the network does.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.adapters.embedded.status import EmbeddedStatus
from hourhand.scheduler.adapters.memory.delivery import Deliver, at_once
from hourhand.scheduler.adapters.memory.status import MemoryStatus
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View

_ROWS_MIN = 1
"""Successes of one hour that are a segment: a simulated node writes few at a time."""
Answer = TypeVar("Answer")
Work = Callable[[sqlite3.Connection], Answer]
ReadDifferently = Callable[[int, str], None]
"""Is told of a partition, and of an answer that rows would not have given."""


class SegmentFiles:
    """The contents of one simulated store, and the listener that is told of wrong reads."""

    def __init__(self, data: MemoryStores, tell: ReadDifferently) -> None:
        self._data, self._tell = data, tell
        self._segments, self._rows = _FileInMemory(), _FileInMemory()

    @property
    def counts(self) -> Counter[str]:
        """Numbers of segments that were written."""
        return Counter({"completion segment": self._segments.segments_written})

    def status(self, deliver: Deliver, *, writes_segments: bool) -> "_SegmentedStatus":
        """Return one node's way to it; each reads segments."""
        files = (
            _status(self._segments, in_segments=writes_segments),
            _status(self._rows, in_segments=False),
        )
        return _SegmentedStatus(self._data, files, deliver, self._tell)

    def compare(self, partitions: int) -> None:
        """Read all there is."""
        status = self.status(at_once, writes_segments=False)
        for partition in range(partitions):
            status.compare(partition)


class _SegmentedStatus:
    """``StatusStore`` whose completions are in segments; attempts stay in memory.

    What the memory store holds beside it is what the judges of a run look at.
    """

    def __init__(
        self,
        data: MemoryStores,
        files: tuple[EmbeddedStatus, EmbeddedStatus],
        deliver: Deliver,
        tell: ReadDifferently,
    ) -> None:
        view = View(deliver)
        self._ask, self._files, self._tell = view.ask, files, tell
        self._attempts, self._rows = MemoryStatus(data, view), MemoryStatus(data, View(at_once))

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions."""
        written = tuple(completions)

        def effect() -> None:
            for each in (self._rows, *self._files):
                each.insert_completions(partition, written, write_time).result()

        return self._ask("insert_completions", partition, effect)

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> "Future[Sequence[Completion]]":
        """Read a range."""

        def effect() -> Sequence[Completion]:
            span = (partition, after, up_to, failed_max)
            found = [each.load_completions(*span).result() for each in self._files]
            if failed_max is None:
                return self._compared(partition, "a range", *map(list, found))
            answer, rows = found
            standing = self._standing(partition, answer)
            expected = rows if len(answer) < failed_max else rows[: len(standing)]
            self._compared(partition, "what failed", standing, list(expected))
            return answer

        return self._ask("load_completions", partition, effect)

    def _standing(self, partition: int, failed: Sequence[Completion]) -> list[Completion]:
        """Leave out what a later success replaced: a store may answer that as well."""
        keys = [each.key for each in failed]
        latest = self._files[0].find_completions(partition, keys).result()
        return [each for each in failed if latest[each.key] == each]

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        """Read single rows."""
        wanted = tuple(keys)

        def effect() -> Mapping[TaskKey, Completion]:
            found = [each.find_completions(partition, wanted).result() for each in self._files]
            return self._compared(partition, "keys", *map(dict, found))

        return self._ask("find_completions", partition, effect)

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Write attempts."""
        return self._attempts.insert_attempts(partition, attempts, write_time)

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read a range."""
        return self._attempts.load_attempts(partition, after, up_to)

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read all attempts of single keys."""
        return self._attempts.find_attempts(partition, keys)

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours, and the outcomes of commands on keys of these hours."""
        span = (partition, first_hour_ms, end_hour_ms, write_time)

        def effect() -> int:
            for each in self._files:
                each.delete_statuses(*span).result()
            self.compare(partition)
            return self._rows.delete_statuses(*span).result()

        return self._ask("delete_statuses", partition, effect)

    def compare(self, partition: int) -> None:
        """Read all completions of a partition."""
        span = (partition, first_key_at(INSTANT_MIN_MS), first_key_at(INSTANT_MAX_MS))
        found = [each.load_completions(*span).result() for each in self._files]
        self._compared(partition, "all", *map(list, found))

    def _compared(self, partition: int, what: str, segments: Answer, rows: Answer) -> Answer:
        if segments != rows:
            self._tell(partition, f"{what} read as {segments!r:.300}, rows have {rows!r:.300}")
        return segments


class _FileInMemory:
    """The ``Database`` of ``EmbeddedStatus``, served at once by the caller's thread."""

    def __init__(self) -> None:
        self.segments_written = 0
        # Autocommit: nothing here is rolled back.
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        for statement in _statements():
            self._connection.execute(statement)

    def write(self, work: Work[Answer], *, rows: int = 1) -> "Future[Answer]":
        """Write."""
        before = self._segments()
        answer = work(self._connection)
        self.segments_written += self._segments() - before
        return _done(answer)

    def _segments(self) -> int:
        query = "SELECT count(*) FROM completion_segment"
        (count,) = self._connection.execute(query).fetchone()
        return int(count)

    def read(self, work: Work[Answer]) -> "Future[Answer]":
        """Read."""
        return _done(work(self._connection))

    def insert(
        self, insert: Callable[[sqlite3.Connection, Sequence[Any]], None], rows: Sequence[Any]
    ) -> "Future[None]":
        """Write rows."""
        insert(self._connection, rows)
        return _done(None)

    def write_in_steps(self, step: Work[bool], answer: Answer) -> "Future[Answer]":
        """Write step after step."""
        while step(self._connection):
            pass
        return _done(answer)


def _statements() -> Iterator[str]:
    for script in STORE.scripts:
        yield from script
    yield from STORE.unversioned
    yield from STORE.overlooked
    yield f"PRAGMA user_version = {STORE.version}"


def _status(file: _FileInMemory, *, in_segments: bool) -> EmbeddedStatus:
    database = cast("Database", file)
    return EmbeddedStatus(database, in_segments=in_segments, segment_rows_min=_ROWS_MIN)


def _done(answer: Answer) -> "Future[Answer]":
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future
