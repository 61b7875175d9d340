"""``ResultStore`` on Cassandra: the table ``task_result``.

A row is written in two parts, of which the body expires; ``CassandraStatusStore`` deletes rows.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import chain

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedRow,
    batches,
    packed_bigint,
    packed_bytes,
    packed_int,
    packed_key,
)
from hourhand.scheduler.adapters.cassandra.pages import KEY_COLUMNS, KeyFinder, key_of
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row

_TABLE = "{keyspace}.task_result"
_KEY = "partition_id, hour, scheduled_time, ordering_id, uniqueness_key"
_ROW = (
    f"SELECT {KEY_COLUMNS}, attempt, toUnixTimestamp(finished), toUnixTimestamp(kept_until), body,"
    f" fence FROM {_TABLE}"
)


class CassandraResultStore:
    """Results; see ``hourhand.actors.ports.store.ResultStore`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._finder = KeyFinder(session, _ROW)
        self._insert = session.prepare(
            f"INSERT INTO {_TABLE} ({_KEY}, attempt, finished, kept_until, fence)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._insert_body = session.prepare(
            f"INSERT INTO {_TABLE} ({_KEY}, body) VALUES (?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ? AND TTL ?"
        )

    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> "Future[None]":
        """Write results; of two of one key in one call the last stands."""
        last, at = list({each.key: each for each in results}.values()), packed_bigint(write_time)
        limit_bytes = self._session.settings.batch_bytes
        rows = batches(self._insert, partition, _rows(last, at), limit_bytes)
        bodies = batches(self._insert_body, partition, _bodies(last, at), limit_bytes)
        return self._session.write(chain(rows, bodies))

    def find_results(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[StoredResult]]":
        def work() -> Sequence[StoredResult]:
            found = map(_result, self._finder.find(partition, keys))
            return sorted(found, key=lambda each: each.key)

        return self._session.submit(work)


def _rows(results: Sequence[StoredResult], write_time: bytes) -> Iterator[PackedRow]:
    for each in results:
        values = (
            packed_int(each.attempt),
            packed_bigint(each.finished_ms),
            packed_bigint(each.kept_until_ms),
            packed_bigint(each.fence),
            write_time,
        )
        yield each.key, packed_key(each.key), b"".join(values)


def _bodies(results: Sequence[StoredResult], write_time: bytes) -> Iterator[PackedRow]:
    for each in results:
        values = packed_bytes(each.body), write_time, packed_int(each.kept_s)
        yield each.key, packed_key(each.key), b"".join(values)


def _result(row: Row) -> StoredResult:
    return StoredResult(key_of(row), row[3], row[4], row[5], row[6] or b"", row[7])
