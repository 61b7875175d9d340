"""``CheckpointStore`` on Cassandra: the table ``task_checkpoint``.

Reads go from hour to hour, writes are same-row batches; ``CassandraStatusStore`` deletes.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.scheduler.adapters.cassandra.hours import HourReads, HourWalk
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedRow,
    batches,
    packed_bigint,
    packed_bytes,
    packed_int,
    packed_key,
)
from hourhand.scheduler.adapters.cassandra.pages import KEY_BOUND, KEY_COLUMNS, KeyFinder, key_of
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row

_TABLE = "{keyspace}.task_checkpoint"
_ROW = f"SELECT {KEY_COLUMNS}, attempt, toUnixTimestamp(made), body, fence FROM {_TABLE}"
_RANGE = f"{KEY_BOUND} > (?, ?, ?) AND {KEY_BOUND} <= (?, ?, ?)"
_FETCHED = 64
"""Rows of one answer: each may hold 90 kB."""


class CassandraCheckpointStore:
    """Checkpoints; see ``hourhand.actors.ports.store.CheckpointStore`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._hours = HourWalk(session, "task_checkpoint")
        self._load = HourReads(session, _ROW, _RANGE, _FETCHED)
        self._finder = KeyFinder(session, _ROW)
        self._insert = session.prepare(
            f"INSERT INTO {_TABLE} (partition_id, hour, scheduled_time, ordering_id,"
            " uniqueness_key, attempt, made, body, fence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )

    def insert_checkpoints(
        self, partition: int, checkpoints: Sequence[TaskCheckpoint], write_time: int
    ) -> "Future[None]":
        """Write checkpoints; of two of one key in one call the last stands."""
        at = packed_bigint(write_time)
        rows = (_packed(each, at) for each in {each.key: each for each in checkpoints}.values())
        limit_bytes = self._session.settings.batch_bytes
        return self._session.write(batches(self._insert, partition, rows, limit_bytes))

    def load_checkpoints(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[TaskCheckpoint]]":
        def work() -> Sequence[TaskCheckpoint]:
            if after >= up_to:
                return []
            found: list[TaskCheckpoint] = []
            end_ms = hour_of(up_to.scheduled_ms) + HOUR_MS
            for hours in self._hours.groups(partition, hour_of(after.scheduled_ms), end_ms):
                reading = self._load.bind(partition, hours, (*after, *up_to))
                found += map(_checkpoint, self._session.execute(reading))
            return found

        return self._session.submit(work)

    def find_checkpoints(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[TaskCheckpoint]]":
        def work() -> Sequence[TaskCheckpoint]:
            found = map(_checkpoint, self._finder.find(partition, keys))
            return sorted(found, key=lambda each: each.key)

        return self._session.submit(work)


def _packed(checkpoint: TaskCheckpoint, write_time: bytes) -> PackedRow:
    values = (
        packed_int(checkpoint.attempt),
        packed_bigint(checkpoint.made_ms),
        packed_bytes(checkpoint.body),
        packed_bigint(checkpoint.fence),
        write_time,
    )
    return checkpoint.key, packed_key(checkpoint.key), b"".join(values)


def _checkpoint(row: Row) -> TaskCheckpoint:
    return TaskCheckpoint(key_of(row), row[3], row[4], row[5], row[6])
