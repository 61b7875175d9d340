"""``TallyStore`` on Cassandra: the table ``hour_tally``.

The hours of one save are one batch in one Cassandra partition, cut by size; the offset goes
with the last piece, so what is lost between two is counted again and never left out.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from cassandra.query import BatchStatement, BatchType

from actors.model.tally import HourTally, decode_tally, encode_tally
from actors.ports.oversight import PartitionTally
from scheduler.adapters.cassandra.session import CassandraSession

_BATCH_ROWS_MAX = 200
"""A body is at most a few hundred bytes."""
_FETCH_ROWS = 2_000
"""Rows of one answer: a month of hours comes at once."""


class CassandraTallyStore:
    """Counts; see ``actors.ports.oversight`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        table = "{keyspace}.hour_tally"
        self._load = session.prepare(
            f"SELECT toUnixTimestamp(hour), body, counted_offset FROM {table}"
            " WHERE partition_id = ? AND hour >= ? AND hour < ?"
        )
        self._load.fetch_size = _FETCH_ROWS
        self._offset = session.prepare(
            f"SELECT counted_offset FROM {table} WHERE partition_id = ? LIMIT 1"
        )
        self._insert = session.prepare(
            f"INSERT INTO {table} (partition_id, hour, body) VALUES (?, ?, ?) USING TIMESTAMP ?"
        )
        self._note_offset = session.prepare(
            f"INSERT INTO {table} (partition_id, counted_offset) VALUES (?, ?) USING TIMESTAMP ?"
        )
        self._delete = session.prepare(
            f"DELETE FROM {table} USING TIMESTAMP ? WHERE partition_id = ? AND hour < ?"
        )

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        """Read the counts of some hours."""

        def work() -> PartitionTally:
            rows = self._session.execute(self._load.bind((partition, first_hour_ms, end_hour_ms)))
            # The offset stands beside each row; without one of these hours it has to be asked for.
            last = rows or self._session.execute(self._offset.bind((partition,)))
            offset = last[-1][-1] if last else None
            return PartitionTally(offset or 0, {hour: decode_tally(body) for hour, body, _ in rows})

        return self._session.submit(work)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        """Replace the counts of some hours, then the offset."""
        rows = [
            (partition, hour_ms, encode_tally(tally), write_time)
            for hour_ms, tally in sorted(hours.items())
        ]

        def work() -> None:
            pieces = [
                rows[at : at + _BATCH_ROWS_MAX] for at in range(0, len(rows), _BATCH_ROWS_MAX)
            ]
            batches = [self._batch(piece) for piece in pieces or [[]]]
            batches[-1].add(self._note_offset, (partition, counted_offset, write_time))
            for batch in batches:
                self._session.execute(batch)

        return self._session.submit(work)

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        """Remove the counts of old hours, by one range tombstone."""
        return self._session.write([self._delete.bind((write_time, partition, before_hour_ms))])

    def _batch(self, rows: list[tuple[Any, ...]]) -> Any:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for row in rows:
            batch.add(self._insert, row)
        batch.is_idempotent = True
        return batch
