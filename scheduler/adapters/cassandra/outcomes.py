"""``OutcomeLog`` on Cassandra: the table ``outcome_log``, one Cassandra partition for each of ours.

Rows are removed by ranges, which Cassandra joins into one while it is told of them one after
another; so reading from the start passes few tombstones.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row
from hourhand.scheduler.runtime.light_future import then

_TABLE = "{keyspace}.outcome_log"
_SELECT = f"SELECT number, piece, body FROM {_TABLE} WHERE partition_id = ?"


class CassandraOutcomeLog:
    """See ``hourhand.actors.ports.store.OutcomeLog`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._insert = session.prepare(
            f"INSERT INTO {_TABLE} (partition_id, number, piece, body) VALUES (?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        self._load = session.prepare(f"{_SELECT} AND number >= ? AND number < ? LIMIT ?")
        self._last = session.prepare(
            f"{_SELECT} AND number < ? ORDER BY number DESC, piece DESC LIMIT 1"
        )
        self._delete = session.prepare(
            f"DELETE FROM {_TABLE} USING TIMESTAMP ? WHERE partition_id = ?"
            " AND (number, piece) >= (?, ?) AND (number, piece) <= (?, ?)"
        )

    def insert_closed(
        self, partition: int, rows: Sequence[OutcomesRow], write_time: int
    ) -> "Future[None]":
        """Write rows, each alone: few groups have more than one, and each of these is large."""
        return self._session.write(
            self._insert.bind((partition, each.number, each.piece, each.body, write_time))
            for each in rows
        )

    def load_closed(
        self, partition: int, first: int, end: int, limit: int
    ) -> "Future[Sequence[OutcomesRow]]":
        read = self._load.bind((partition, first, end, limit))
        return self._session.submit(lambda: [_row(row) for row in self._session.execute(read)])

    def find_last_closed(self, partition: int, end: int) -> "Future[OutcomesRow | None]":
        found = self._session.look_up([self._last.bind((partition, end))])
        return then(found, lambda answers: _row(answers[0][0]) if answers[0] else None)

    def delete_closed(
        self, partition: int, first: tuple[int, int], last: tuple[int, int], write_time: int
    ) -> "Future[None]":
        return self._session.write([self._delete.bind((write_time, partition, *first, *last))])


def _row(row: Row) -> OutcomesRow:
    return OutcomesRow(*row)
