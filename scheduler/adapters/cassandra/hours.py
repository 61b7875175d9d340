"""Walks the hours of a table: which to read next, and how many at a time.

A range of keys may span minutes or, where somebody scheduled a task for 1970, half a million
empty hours.  The first hours are read directly, ever more at a time; from then on hours are
asked in bulk whether they hold a row, and beyond that the table is asked which hours it has.
It never reads a row's contents.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.model.bucket import HOUR_MS
from scheduler.adapters.cassandra.session import CassandraSession, Row

DIRECT_HOURS_MAX = 16
"""Hours read at a time."""
PROBED_HOURS_MAX = 512
"""Hours of one probe: the coordinator reads each of them."""
LISTING_HOURS_MIN = 10_000
"""From so many hours on (over a year), listing the hours of the whole table is cheaper."""


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
            if (end_ms - next_ms) // HOUR_MS > LISTING_HOURS_MIN and size > DIRECT_HOURS_MAX:
                yield from _pieces(self.existing(partition, next_ms, end_ms))
                return
            hours = range(next_ms, min(end_ms, next_ms + size * HOUR_MS), HOUR_MS)
            if size <= DIRECT_HOURS_MAX:
                yield hours
            else:
                yield from _pieces(self._probed(partition, hours))
            next_ms = hours[-1] + HOUR_MS
            size = min(2 * size, PROBED_HOURS_MAX)

    def existing(self, partition: int, first_ms: int, end_ms: int) -> Sequence[int]:
        """Return all hours of [first, end) that hold a row, by going through the table."""
        rows = self._session.execute(self._list.bind(()))
        return sorted(
            hour for owner, hour in rows if owner == partition and first_ms <= hour < end_ms
        )

    def all_or_existing(self, partition: int, first_ms: int, end_ms: int) -> Sequence[int]:
        """Return every hour of [first, end), or those with rows where that is far too many."""
        hours = range(first_ms, end_ms, HOUR_MS)
        if len(hours) > LISTING_HOURS_MIN:
            return self.existing(partition, first_ms, end_ms)
        return hours

    def first_rows(
        self,
        groups: Iterator[Sequence[int]],
        read: Callable[[int, int], Any],
        limit: int,
    ) -> tuple[list[Row], bool]:
        """Return up to ``limit`` rows of the hours, in order, and whether there are no more.

        ``read`` makes the statement for an hour and the number of rows still wanted.
        """
        found: list[Row] = []
        for hours in groups:
            # One more than asked for tells whether that was all.
            wanted = limit + 1 - len(found)
            for rows in self._session.execute_all([read(hour, wanted) for hour in hours]):
                found.extend(rows)
            if len(found) > limit:
                break
        return found[:limit], len(found) <= limit

    def _probed(self, partition: int, hours: Sequence[int]) -> Sequence[int]:
        rows = self._session.execute(self._probe.bind((partition, list(hours))))
        return sorted(row[0] for row in rows)


def _pieces(hours: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(hours), DIRECT_HOURS_MAX):
        yield hours[start : start + DIRECT_HOURS_MAX]
