"""``ScheduleStore`` on Cassandra: the table ``task_schedule``.

Reads go from hour to hour, writes are same-row batches, and a delete is one tombstone an hour.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.actors.ports.store import KeysPage, TaskPage
from hourhand.scheduler.adapters.cassandra.hours import HourReads, HourWalk, whole_hours
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedRow,
    batches,
    packed_bigints,
    packed_bytes,
    packed_key,
)
from hourhand.scheduler.adapters.cassandra.pages import (
    KEY_BOUND,
    KEY_COLUMNS,
    ROW_BYTES_UNKNOWN,
    KeyFinder,
    Piece,
    key_of,
    mean_bytes,
    read_page,
)
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row

_TABLE = "{keyspace}.task_schedule"
# As bytes, which a stored task holds: the driver would make a string of a text.
_ROW = f"SELECT {KEY_COLUMNS}, textAsBlob(data), log_offset FROM {_TABLE}"
_KEYS = f"SELECT {KEY_COLUMNS} FROM {_TABLE}"
_HOUR = "WHERE partition_id = ? AND hour = ?"
_KEYS_FETCHED = 5_000
"""Rows of one answer that holds keys alone."""
_ORDERING_ROWS_MAX = 32
"""Rows of one ordering id that are read at a time: its queue seldom has room for more."""


class CassandraScheduleStore:
    """The schedule; see ``hourhand.actors.ports.store.ScheduleStore`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._hours = HourWalk(session, "task_schedule")
        self._row_bytes: dict[int, int] = {}
        """By partition: the mean size of the last page's rows."""
        self._finder = KeyFinder(session, _ROW)
        self._insert = session.prepare(
            f"INSERT INTO {_TABLE} (partition_id, hour, scheduled_time, ordering_id,"
            " uniqueness_key, data, log_offset) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        bounds = f"{KEY_BOUND} > (?, ?, ?) AND (scheduled_time) < (?) LIMIT ?"
        self._load = HourReads(session, _ROW, bounds)
        self._find_keys = HourReads(session, _KEYS, bounds, _KEYS_FETCHED)
        # Filtering within an hour: rows are in order of time, ids come second.
        self._load_between = HourReads(
            session,
            _ROW,
            "scheduled_time > ? AND scheduled_time < ? AND ordering_id = ? LIMIT ? ALLOW FILTERING",
        )
        self._load_instant = session.prepare(
            f"{_ROW} {_HOUR} AND scheduled_time = ? AND ordering_id = ?"
            " AND uniqueness_key >= ? LIMIT ?"
        )
        self._delete = session.prepare(f"DELETE FROM {_TABLE} USING TIMESTAMP ? {_HOUR}")

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows; of two with one key in one call the last counts."""
        rows = (_packed(task, write_time) for task in tasks)
        limit_bytes = self._session.settings.batch_bytes
        return self._session.write(batches(self._insert, partition, rows, limit_bytes))

    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        def read(after: TaskKey, rows_max: int) -> Piece:
            return self._in_range(self._load, partition, after, before_ms, rows_max)

        return self._session.submit(lambda: self._page(partition, read, after, limit, page_bytes))

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        def work() -> Mapping[TaskKey, StoredTask]:
            return {task.key: task for task in _tasks(self._finder.find(partition, keys))}

        return self._session.submit(work)

    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read up to ``limit`` rows of one ordering id with ``after`` < key <= ``up_to``.

        The milliseconds of the bounds are read by exact key, the range between them by hour.
        """

        def read(after: TaskKey, rows_max: int) -> Piece:
            rows_max = min(rows_max, _ORDERING_ROWS_MAX)
            rows, complete = self._of_ordering(partition, ordering_id, after, up_to, rows_max)
            inside = [row for row in rows if key_of(row) <= up_to]
            return Piece(inside, complete or len(inside) < len(rows))

        def work() -> TaskPage:
            if after >= up_to:
                return TaskPage([], complete=True)
            return self._page(partition, read, after, limit, page_bytes)

        return self._session.submit(work)

    def find_keys(
        self, partition: int, after: TaskKey, before_ms: int, limit: int
    ) -> "Future[KeysPage]":
        def work() -> KeysPage:
            rows, complete = self._in_range(self._find_keys, partition, after, before_ms, limit)
            return KeysPage([*map(key_of, rows)], complete)

        return self._session.submit(work)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours, [first, end): the last ones, and those that hold rows."""
        span = whole_hours(first_hour_ms, end_hour_ms)

        def work() -> int:
            hours, done_ms = self._hours.to_delete(partition, *span)
            self._session.execute_all(
                [self._delete.bind((write_time, partition, hour)) for hour in hours]
            )
            return done_ms

        return self._session.submit(work)

    def _in_range(
        self, reads: HourReads, partition: int, after: TaskKey, before_ms: int, rows_max: int
    ) -> Piece:
        end_ms = hour_of(before_ms - 1) + HOUR_MS
        return self._hours.first_rows(
            self._hours.groups(partition, hour_of(after.scheduled_ms), end_ms),
            lambda hours, wanted: reads.bind(partition, hours, (*after, before_ms, wanted)),
            rows_max,
        )

    def _page(
        self,
        partition: int,
        read: Callable[[TaskKey, int], Piece],
        after: TaskKey,
        limit: int,
        page_bytes: int,
    ) -> TaskPage:
        row_bytes = self._row_bytes.get(partition, ROW_BYTES_UNKNOWN)
        piece = read_page(read, after, limit, page_bytes, row_bytes)
        if piece.rows:
            self._row_bytes[partition] = mean_bytes(piece.rows)
        return TaskPage(_tasks(piece.rows), piece.complete)

    def _of_ordering(
        self, partition: int, ordering_id: str, after: TaskKey, up_to: TaskKey, rows_max: int
    ) -> Piece:
        """Read the next rows of one ordering id; the last may be above ``up_to``."""
        rows = self._at_after(partition, ordering_id, after, rows_max)
        if len(rows) == rows_max:
            return Piece(rows, complete=False)
        if after.scheduled_ms == up_to.scheduled_ms:
            return Piece(rows, complete=True)
        between = self._between(partition, ordering_id, after, up_to, rows_max - len(rows))
        rows += between.rows
        if not between.complete:
            return Piece(rows, complete=False)
        wanted = rows_max - len(rows)
        last = self._instant(partition, first_key(up_to, ordering_id), wanted)
        return Piece(rows + last, complete=len(last) < wanted)

    def _at_after(self, partition: int, ordering_id: str, after: TaskKey, wanted: int) -> list[Row]:
        """Read the rows of ``after``'s own millisecond that are above it."""
        if ordering_id < after.ordering_id:
            return []
        start = first_key(after, ordering_id)
        if ordering_id == after.ordering_id:
            # The lowest text above another is that text and a NUL.
            start = after._replace(uniqueness_key=after.uniqueness_key + "\0")
        return self._instant(partition, start, wanted)

    def _instant(self, partition: int, start: TaskKey, wanted: int) -> list[Row]:
        hour = hour_of(start.scheduled_ms)
        return self._session.execute(self._load_instant.bind((partition, hour, *start, wanted)))

    def _between(
        self, partition: int, ordering_id: str, after: TaskKey, up_to: TaskKey, rows_max: int
    ) -> Piece:
        first_ms, end_ms = after.scheduled_ms, up_to.scheduled_ms
        return self._hours.first_rows(
            self._hours.groups(partition, hour_of(first_ms), hour_of(end_ms) + HOUR_MS),
            lambda hours, wanted: self._load_between.bind(
                partition, hours, (first_ms, end_ms, ordering_id, wanted)
            ),
            rows_max,
        )


def first_key(at: TaskKey, ordering_id: str) -> TaskKey:
    """Return the lowest key that ``ordering_id`` can have in the millisecond of ``at``."""
    return TaskKey(at.scheduled_ms, ordering_id, "")


def _packed(task: StoredTask, write_time: int) -> PackedRow:
    values = packed_bytes(task.body) + packed_bigints(task.offset, write_time)
    return task.key, packed_key(task.key), values


def _tasks(rows: Iterable[Row]) -> list[StoredTask]:
    return [StoredTask(key_of(row), row[3], row[4]) for row in rows]
