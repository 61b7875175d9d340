"""``ScheduleStore`` on Cassandra: the table ``task_schedule``.

Reads go hour by hour, writes are same-row batches, and a delete is one tombstone an hour.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from actors.model.bucket import HOUR_MS, hour_of
from actors.model.key import TaskKey
from actors.model.task import StoredTask
from actors.ports.store import TaskPage
from scheduler.adapters.cassandra.batches import BoundRow, batches
from scheduler.adapters.cassandra.hours import HourWalk
from scheduler.adapters.cassandra.keys import KEY_BOUND, KEY_COLUMNS, KeyFinder, key_of
from scheduler.adapters.cassandra.session import CassandraSession, Row

_TABLE = "{keyspace}.task_schedule"
_ROW = f"SELECT {KEY_COLUMNS}, data, log_offset FROM {_TABLE}"
_HOUR = "WHERE partition_id = ? AND hour = ?"


class CassandraScheduleStore:
    """The schedule; see ``actors.ports.store.ScheduleStore`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._hours = HourWalk(session, "task_schedule")
        self._finder = KeyFinder(session, _ROW)
        self._insert = session.prepare(
            f"INSERT INTO {_TABLE} (partition_id, hour, scheduled_time, ordering_id,"
            " uniqueness_key, data, log_offset) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        self._load = session.prepare(
            f"{_ROW} {_HOUR} AND {KEY_BOUND} > (?, ?, ?) AND (scheduled_time) < (?) LIMIT ?"
        )
        # Filtering within one hour: rows are in order of time, ids come second.
        self._load_between = session.prepare(
            f"{_ROW} {_HOUR} AND scheduled_time > ? AND scheduled_time < ?"
            " AND ordering_id = ? LIMIT ? ALLOW FILTERING"
        )
        self._load_instant = session.prepare(
            f"{_ROW} {_HOUR} AND scheduled_time = ? AND ordering_id = ?"
            " AND uniqueness_key >= ? LIMIT ?"
        )
        self._delete = session.prepare(f"DELETE FROM {_TABLE} USING TIMESTAMP ? {_HOUR}")

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows; of two of one key in one call the last stands."""

        def work() -> None:
            newest = {task.key: task for task in tasks}.values()
            rows = (_bound(partition, task, write_time) for task in newest)
            limit_bytes = self._session.settings.batch_bytes
            self._session.execute_all(list(batches(self._insert, rows, limit_bytes)))

        return self._session.submit(work)

    def load_tasks(
        self, partition: int, after: TaskKey, before_ms: int, limit: int
    ) -> "Future[TaskPage]":
        """Read up to ``limit`` rows with key > ``after`` and scheduled_ms < ``before_ms``."""

        def work() -> TaskPage:
            groups = self._hours.groups(
                partition, hour_of(after.scheduled_ms), hour_of(before_ms - 1) + HOUR_MS
            )
            rows, complete = self._hours.first_rows(
                groups,
                lambda hour, wanted: self._load.bind((partition, hour, *after, before_ms, wanted)),
                limit,
            )
            return TaskPage(_tasks(rows), complete)

        return self._session.submit(work)

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        """Read single rows; a key without a row is absent from the answer."""

        def work() -> Mapping[TaskKey, StoredTask]:
            return {task.key: task for task in _tasks(self._finder.find(partition, keys))}

        return self._session.submit(work)

    def load_ordering(
        self, partition: int, ordering_id: str, after: TaskKey, up_to: TaskKey, limit: int
    ) -> "Future[TaskPage]":
        """Read up to ``limit`` rows of one ordering id with ``after`` < key <= ``up_to``.

        The milliseconds of the bounds are read by exact key, what lies between by hour.
        """

        def work() -> TaskPage:
            if after >= up_to:
                return TaskPage([], complete=True)
            rows = self._at_after(partition, ordering_id, after, limit)
            if len(rows) <= limit:
                rows += self._between(partition, ordering_id, after, up_to, limit - len(rows))
            if len(rows) <= limit and after.scheduled_ms < up_to.scheduled_ms:
                rows += self._instant(
                    partition, first_key(up_to, ordering_id), limit + 1 - len(rows)
                )
            tasks = [task for task in _tasks(rows) if task.key <= up_to]
            return TaskPage(tasks[:limit], len(tasks) <= limit)

        return self._session.submit(work)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[None]":
        """Remove whole hours, [first, end).

        A range of more than ``LISTING_HOURS_MIN`` hours is removed where rows are found.
        """

        def work() -> None:
            hours = self._hours.all_or_existing(partition, first_hour_ms, end_hour_ms)
            self._session.execute_all(
                [self._delete.bind((write_time, partition, hour)) for hour in hours]
            )

        return self._session.submit(work)

    def _at_after(self, partition: int, ordering_id: str, after: TaskKey, limit: int) -> list[Row]:
        """Read the rows of ``after``'s own millisecond that lie above it."""
        if ordering_id < after.ordering_id:
            return []
        start = first_key(after, ordering_id)
        if ordering_id == after.ordering_id:
            # The least text above another is that text and a NUL.
            start = after._replace(uniqueness_key=after.uniqueness_key + "\0")
        return self._instant(partition, start, limit + 1)

    def _instant(self, partition: int, start: TaskKey, wanted: int) -> list[Row]:
        hour = hour_of(start.scheduled_ms)
        return self._session.execute(self._load_instant.bind((partition, hour, *start, wanted)))

    def _between(
        self, partition: int, ordering_id: str, after: TaskKey, up_to: TaskKey, limit: int
    ) -> list[Row]:
        first_ms, end_ms = after.scheduled_ms, up_to.scheduled_ms
        groups = self._hours.groups(partition, hour_of(first_ms), hour_of(end_ms) + HOUR_MS)
        # One above the limit is asked for: the caller tells by it whether more is there.
        return self._hours.first_rows(
            groups,
            lambda hour, wanted: self._load_between.bind(
                (partition, hour, first_ms, end_ms, ordering_id, wanted)
            ),
            limit + 1,
        )[0]


def first_key(at: TaskKey, ordering_id: str) -> TaskKey:
    """Return the lowest key that ``ordering_id`` can have in the millisecond of ``at``."""
    return TaskKey(at.scheduled_ms, ordering_id, "")


def _bound(partition: int, task: StoredTask, write_time: int) -> BoundRow:
    key = task.key
    values = (
        partition,
        hour_of(key.scheduled_ms),
        *key,
        task.data.decode(),
        task.offset,
        write_time,
    )
    return BoundRow(key, len(task.data), values)


def _tasks(rows: Iterable[Row]) -> list[StoredTask]:
    return [StoredTask(key_of(row), row[3].encode(), row[4]) for row in rows]
