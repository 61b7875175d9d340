"""``OutcomeLog`` and ``KeptOutcomes`` on the store file."""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.actors.ports.store import KeptOutcome
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import Table, read_rows
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed

OUTCOME_LOG = Table("outcome_log", ("partition", "number", "piece"), ("body",))
_SELECT = f"SELECT {OUTCOME_LOG.selected} FROM outcome_log WHERE partition = ?"
_KEEP = "INSERT INTO outcome_kept (told_ms, value, checksum) VALUES (?, ?, ?)"
_KEPT = "SELECT position, told_ms, value, checksum FROM outcome_kept WHERE position > ?"
_FORGOTTEN_PER_ROW, _FORGOTTEN_MIN = 2, 100
"""More are forgotten than come, so that what is kept stays bounded."""
_FORGET = (
    "DELETE FROM outcome_kept WHERE position IN (SELECT position FROM outcome_kept"
    " WHERE told_ms < ? ORDER BY position LIMIT ?)"
)


class EmbeddedOutcomes:
    """Rows of ``outcome_log`` and ``outcome_kept``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = OUTCOME_LOG.upsert

    def insert_closed(
        self, partition: int, rows: Sequence[OutcomesRow], write_time: int
    ) -> "Future[None]":
        written: list[Row] = [
            sealed((partition, each.number, each.piece, each.body, write_time)) for each in rows
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(self._upsert, written)

        return self._database.write(work, rows=len(written))

    def load_closed(
        self, partition: int, first: int, end: int, limit: int
    ) -> "Future[Sequence[OutcomesRow]]":
        query = f"{_SELECT} AND number >= ? AND number < ? ORDER BY number, piece LIMIT ?"

        def work(connection: sqlite3.Connection) -> Sequence[OutcomesRow]:
            return list(map(_row, read_rows(connection, query, (partition, first, end, limit))))

        return self._database.read(work)

    def find_last_closed(self, partition: int, end: int) -> "Future[OutcomesRow | None]":
        query = f"{_SELECT} AND number < ? ORDER BY number DESC, piece DESC LIMIT 1"

        def work(connection: sqlite3.Connection) -> OutcomesRow | None:
            rows = read_rows(connection, query, (partition, end))
            return _row(rows[0]) if rows else None

        return self._database.read(work)

    def delete_closed(
        self, partition: int, first: tuple[int, int], last: tuple[int, int], write_time: int
    ) -> "Future[None]":
        statement = (
            "DELETE FROM outcome_log WHERE partition = ? AND (number, piece) >= (?, ?)"
            " AND (number, piece) <= (?, ?) AND write_time <= ?"
        )

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(statement, (partition, *first, *last, write_time))

        return self._database.write(work)

    def keep_outcomes(
        self, values: Sequence[bytes], now_ms: int, retention_ms: int
    ) -> "Future[None]":
        rows = [sealed((now_ms, each)) for each in values]
        forgotten = max(_FORGOTTEN_MIN, _FORGOTTEN_PER_ROW * len(rows))

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_KEEP, rows)
            connection.execute(_FORGET, (now_ms - retention_ms, forgotten))

        return self._database.write(work, rows=len(rows))

    def load_kept(self, after: int, limit: int) -> "Future[Sequence[KeptOutcome]]":
        def work(connection: sqlite3.Connection) -> Sequence[KeptOutcome]:
            rows = connection.execute(f"{_KEPT} ORDER BY position LIMIT ?", (after, limit))
            return [KeptOutcome(row[0], opened(row[1:])[1]) for row in rows]

        return self._database.read(work)


def _row(row: Row) -> OutcomesRow:
    return OutcomesRow(*row)
