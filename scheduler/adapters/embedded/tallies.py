"""``TallyStore`` on the store file.

Each row carries the offset that was counted when it was written; the row of hour ``_MARK`` is
written every time, so it holds the latest.
"""

import sqlite3
from collections.abc import Mapping
from concurrent.futures import Future

from actors.model.tally import HourTally, decode_tally, encode_tally
from actors.ports.oversight import PartitionTally
from scheduler.adapters.embedded.database import Database
from scheduler.adapters.embedded.rows import Table
from scheduler.adapters.embedded.seal import Row, opened, sealed

_TALLY = Table("hour_tally", ("partition", "hour_ms"), ("body", "counted_offset"))
_MARK = -(2**62)
"""Before every hour there is."""


class EmbeddedTallies:
    """Rows of ``hour_tally``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        """Read the counts of some hours."""
        query = (
            f"SELECT {_TALLY.selected} FROM hour_tally WHERE partition = ?"
            " AND (hour_ms = ? OR (hour_ms >= ? AND hour_ms < ?)) ORDER BY hour_ms"
        )
        arguments = (partition, _MARK, first_hour_ms, end_hour_ms)

        def work(connection: sqlite3.Connection) -> PartitionTally:
            offset, hours = 0, {}
            for row in connection.execute(query, arguments):
                _, hour_ms, body, counted_offset, _ = opened(row)
                if hour_ms == _MARK:
                    offset = counted_offset
                else:
                    hours[hour_ms] = decode_tally(body)
            return PartitionTally(offset, hours)

        return self._database.read(work)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        """Replace the counts of some hours."""
        bodies = {_MARK: b"", **{hour: encode_tally(tally) for hour, tally in hours.items()}}
        rows: list[Row] = [
            (partition, hour_ms, body, counted_offset, write_time)
            for hour_ms, body in bodies.items()
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_TALLY.upsert, map(sealed, rows))

        return self._database.write(work, rows=len(rows))

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        """Remove the counts of old hours."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM hour_tally WHERE partition = ? AND hour_ms > ? AND hour_ms < ?"
                " AND write_time <= ?",
                (partition, _MARK, before_hour_ms, write_time),
            )

        return self._database.write(work)
