"""Walks the hours of a table: the next hours to read, and their number.

A range of keys may span minutes or, if there is a task for 1970, half a million empty hours. The
first hours are read directly, in growing groups; later ones are probed in bulk for rows, and for
very long ranges the table's hours are listed. It never looks at a row.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from hourhand.actors.model.values.bucket import HOUR_MS, SURELY_DELETED_HOURS, hour_of
from hourhand.scheduler.adapters.cassandra.pages import Piece
from hourhand.scheduler.adapters.cassandra.session import FETCH_ROWS, CassandraSession, Row

READ_HOURS_MAX = 16
"""Hours of one read: its cost grows with the number of hours that have enough rows."""
PROBED_HOURS_MAX = 512
"""Hours of one probe: the coordinator reads each of them."""
LISTING_HOURS_MIN = 10_000
"""For this number of hours (over a year), listing the hours of the whole table is cheaper."""
DELETED_HOURS_MAX = 1_000
"""Hours with rows that one call deletes."""


class HourReads:
    """One read of a table: of a single hour, sent to a replica of it, or of several at once."""

    def __init__(
        self, session: CassandraSession, select: str, bounds: str, fetch_rows: int = FETCH_ROWS
    ) -> None:
        """``bounds`` is the condition behind the hour, for the values that ``bind`` gets."""
        where = f"{select} WHERE partition_id = ? AND hour"
        self._one = session.prepare(f"{where} = ? AND {bounds}")
        self._several = session.prepare(f"{where} IN ? AND {bounds}")
        self._one.fetch_size = self._several.fetch_size = fetch_rows

    def bind(self, partition: int, hours: Sequence[int], values: tuple[Any, ...]) -> Any:
        """Return the statement for these hours; its rows come in order of hours, then of keys.

        Cassandra reads the partitions of an IN in the order of their keys, not of their tokens.
        """
        if len(hours) == 1:
            return self._one.bind((partition, hours[0], *values))
        return self._several.bind((partition, list(hours), *values))


class HourWalk:
    """The hours of one table."""

    def __init__(self, session: CassandraSession, table: str) -> None:
        self._session = session
        self._probe = session.prepare(
            f"SELECT toUnixTimestamp(hour) FROM {{keyspace}}.{table}"
            " WHERE partition_id = ? AND hour IN ? PER PARTITION LIMIT 1"
        )
        self._list = session.prepare(
            f"SELECT DISTINCT partition_id, toUnixTimestamp(hour) FROM {{keyspace}}.{table}"
        )

    def groups(self, partition: int, first_ms: int, end_ms: int) -> Iterator[Sequence[int]]:
        """Yield, in order, groups of hours that together hold every row of [first, end).

        Both are starts of an hour.  Waits for the store; raises StoreUnavailable.
        """
        size, next_ms = 1, first_ms
        while next_ms < end_ms:
            if (end_ms - next_ms) // HOUR_MS > LISTING_HOURS_MIN and size > READ_HOURS_MAX:
                yield from _pieces(self.existing(partition, next_ms, end_ms))
                return
            hours = range(next_ms, min(end_ms, next_ms + size * HOUR_MS), HOUR_MS)
            if size <= READ_HOURS_MAX:
                yield hours
            else:
                yield from _pieces(self._probed(partition, hours))
            next_ms = hours[-1] + HOUR_MS
            size = min((2 if size < READ_HOURS_MAX else 4) * size, PROBED_HOURS_MAX)

    def existing(self, partition: int, first_ms: int, end_ms: int) -> Sequence[int]:
        """Return all hours of [first, end) that hold a row, by listing the whole table."""

        def wanted(row: Row) -> bool:
            owner, hour = row
            return bool(owner == partition and first_ms <= hour < end_ms)

        return sorted(hour for _, hour in self._session.scan(self._list.bind(()), wanted))

    def to_delete(self, partition: int, first_ms: int, end_ms: int) -> tuple[Sequence[int], int]:
        """Return the hours of [first, end) to delete, and the hour up to which they are complete.

        The latest hours are deleted even without rows: a later write with a lower write time must
        find the delete. Older ones only if they hold rows: half a million tombstones, for one task
        of 1970, would slow every read of the table.
        """
        surely_ms = max(first_ms, end_ms - SURELY_DELETED_HOURS * HOUR_MS)
        held = list(islice(self._held(partition, first_ms, surely_ms), DELETED_HOURS_MAX))
        if len(held) == DELETED_HOURS_MAX:
            return held, held[-1] + HOUR_MS
        return [*held, *range(surely_ms, end_ms, HOUR_MS)], end_ms

    def _held(self, partition: int, first_ms: int, end_ms: int) -> Iterator[int]:
        """Yield in order the hours of [first, end) that hold a row."""
        if (end_ms - first_ms) // HOUR_MS > LISTING_HOURS_MIN:
            yield from self.existing(partition, first_ms, end_ms)
            return
        probed_ms = PROBED_HOURS_MAX * HOUR_MS
        for start_ms in range(first_ms, end_ms, probed_ms):
            hours = range(start_ms, min(end_ms, start_ms + probed_ms), HOUR_MS)
            yield from self._probed(partition, hours)

    def first_rows(
        self,
        groups: Iterator[Sequence[int]],
        read: Callable[[Sequence[int], int], Any],
        rows_max: int,
    ) -> Piece:
        """Return the first rows of the hours, in order, at most ``rows_max``.

        ``read`` makes the statement for some hours and a number of rows.
        """
        found: list[Row] = []
        for hours in groups:
            found += self._session.execute(read(hours, rows_max - len(found)))
            if len(found) == rows_max:
                return Piece(found, complete=False)
        return Piece(found, complete=True)

    def _probed(self, partition: int, hours: Sequence[int]) -> Sequence[int]:
        rows = self._session.execute(self._probe.bind((partition, list(hours))))
        return sorted(row[0] for row in rows)


def _pieces(hours: Sequence[int]) -> Iterator[Sequence[int]]:
    """Cut hours that hold rows: few at first, because one of them may be enough."""
    start, size = 0, 1
    while start < len(hours):
        yield hours[start : start + size]
        start, size = start + size, min(2 * size, READ_HOURS_MAX)


def whole_hours(first_ms: int, end_ms: int) -> tuple[int, int]:
    """Return the span to delete; raises ValueError if it cuts an hour."""
    for each in (first_ms, end_ms):
        if each != hour_of(each):
            raise ValueError(f"{each} is not the start of an hour")
    return first_ms, end_ms
