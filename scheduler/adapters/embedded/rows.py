"""Parts that the tables of the store file share: ranges, write times, whole-hour deletes.

Every table begins with partition and key and ends with ``write_time``, which alone decides which of
two versions of a row counts, and the row's checksum.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import ID_BYTES_MAX
from hourhand.actors.model.values.bucket import hour_of
from hourhand.scheduler.adapters.embedded.many_rows import write_rows
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed

_DELETE_STEP = 5_000
"""Rows removed in one transaction: a crowded hour must not block other writes for long."""
_TOMBSTONES_MAX = 4_096
"""Number of latest hours that are kept for each kind and partition: half a year of hourly sweeps. A
node deletes hours that are long past, and other writers read ``loaded_until`` first."""

FOUND_MAX = 32
"""Most keys of one statement: a statement for each costs far more than the look-up."""

KEY_COLUMNS = "scheduled_ms, ordering_id, uniqueness_key"
RANGE = f"partition = ? AND ({KEY_COLUMNS}) > (?, ?, ?) AND ({KEY_COLUMNS}) <= (?, ?, ?)"
"""A range of one partition, open below and closed above."""


class Table(NamedTuple):
    """One table: all its columns, and the ones of its key."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    """The columns without the key, ``write_time`` and ``checksum``."""

    @property
    def upsert(self) -> str:
        """The statement that writes a sealed row unless a later version is there."""
        return self.upserts(1)

    def upserts(self, count: int) -> str:
        """Return the statement that writes ``count`` sealed rows, as ``upsert`` writes one."""
        columns, marks = ", ".join(self.names), self.marks(count)
        return f"INSERT INTO {self.name} ({columns}) VALUES {marks} {self.unless_later}"

    def marks(self, count: int) -> str:
        """Return the places for the values of ``count`` rows."""
        return ", ".join([f"({', '.join('?' * len(self.names))})"] * count)

    @property
    def unless_later(self) -> str:
        """The clause by which the later of two versions of a row counts."""
        changes = ", ".join(f"{each} = excluded.{each}" for each in self.names[len(self.key) :])
        return (
            f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {changes}"
            f" WHERE excluded.write_time > {self.name}.write_time"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return (*self.key, *self.columns, "write_time", "checksum")

    @property
    def selected(self) -> str:
        """All columns of a row for reading; ``read_rows`` checks them."""
        return ", ".join(self.names)


_TASK_KEY = ("partition", "scheduled_ms", "ordering_id", "uniqueness_key")

TASK_SCHEDULE = Table("task_schedule", _TASK_KEY, ("data", "record_offset"))
TASK_STATUS = Table(
    "task_status",
    _TASK_KEY,
    (
        "result",
        "record_offset",
        "attempts",
        "started_ms",
        "finished_ms",
        "moved_to_ms",
        "for_good",
        "reason",
    ),
)
ATTEMPT_HISTORY = Table(
    "attempt_history",
    (*_TASK_KEY, "attempt"),
    (
        "result",
        "started_ms",
        "finished_ms",
        "next_attempt_ms",
        "used",
        "suspect",
        "error_class",
        "error_message",
        "error_stack",
        "fence",
    ),
)

TASK_CHECKPOINT = Table("task_checkpoint", _TASK_KEY, ("attempt", "made_ms", "body", "fence"))
TASK_RESULT = Table(
    "task_result", _TASK_KEY, ("attempt", "finished_ms", "kept_until_ms", "body", "fence")
)


def insert_rows(
    connection: sqlite3.Connection, rows: Sequence[Row], *, table: Table, kind: str
) -> None:
    """Write rows, each unless a later version is there, or its hour was deleted later."""
    write_rows(connection, partial(_insertion, table, kind), list(map(sealed, rows)))


@cache
def _insertion(table: Table, tombstone_kind: str, count: int) -> str:
    """Return the statement that writes ``count`` sealed rows of a table; see ``insert_rows``."""
    columns, marks = ", ".join(table.names), table.marks(count)
    partition_column, time_column, version_column = (
        f"column{table.names.index(name) + 1}"
        for name in ("partition", "scheduled_ms", "write_time")
    )
    return (
        f"INSERT INTO {table.name} ({columns}) SELECT * FROM (VALUES {marks})"
        f" WHERE NOT EXISTS (SELECT 1 FROM tombstone WHERE kind = '{tombstone_kind}'"
        f" AND partition = {partition_column} AND end_ms > {time_column}"
        f" AND first_ms <= {time_column} AND write_time >= {version_column})"
        f" {table.unless_later}"
    )


def read_rows(connection: sqlite3.Connection, query: str, arguments: Row) -> list[Row]:
    """Return rows of ``Table.selected``, each the key without its partition, then the columns.

    Raises Damage if one is not what was written.
    """
    return [opened(row)[1:-1] for row in connection.execute(query, arguments)]


def find_rows(
    connection: sqlite3.Connection, table: Table, partition: int, keys: Sequence[TaskKey]
) -> list[Row]:
    """Return rows of ``Table.selected`` without checksum, of distinct keys, in key order.

    Raises Damage if one is not what was written.
    """
    found: list[Row] = []
    for first in range(0, len(keys), FOUND_MAX):
        some = keys[first : first + FOUND_MAX]
        size = rounded_up(len(some))
        missing = (None,) * (len(TaskKey._fields) * (size - len(some)))
        arguments = (*chain.from_iterable(some), *missing, partition)
        found += map(opened, connection.execute(_find(table, size), arguments))
    columns = len(table.key)
    found.sort(key=lambda row: row[:columns])
    return found


def rounded_up(count: int) -> int:
    """Return the number of keys that a statement for ``count`` of them has; the others are NULL,
    the key of no row.  There are few such numbers, so SQLite has compiled their statements.
    """
    return 1 << (count - 1).bit_length()


@cache
def _find(table: Table, size: int) -> str:
    """Return the statement that looks up ``size`` task keys; the partition is its last
    parameter.
    """
    marks = ", ".join(["(?, ?, ?)"] * size)
    # A cross join goes from the keys to the rows, never from all rows to the keys.
    return (
        f"WITH wanted (wanted_ms, wanted_ordering, wanted_uniqueness) AS (VALUES {marks})"
        f" SELECT {table.selected} FROM wanted CROSS JOIN {table.name}"
        " WHERE partition = ? AND scheduled_ms = wanted_ms"
        " AND ordering_id = wanted_ordering AND uniqueness_key = wanted_uniqueness"
    )


def tombstones_over(
    connection: sqlite3.Connection,
    kind: str,
    partition: int,
    span: tuple[int, int],
    write_time: int,
) -> list[tuple[int, int]]:
    """Return the deleted ranges of time that meet [first, last] and outlive a write time."""
    first_ms, last_ms = span
    return connection.execute(
        "SELECT first_ms, end_ms FROM tombstone WHERE kind = ? AND partition = ?"
        " AND end_ms > ? AND first_ms <= ? AND write_time >= ?",
        (kind, partition, first_ms, last_ms, write_time),
    ).fetchall()


def bury(
    connection: sqlite3.Connection,
    kind: str,
    partition: int,
    span: tuple[int, int],
    write_time: int,
) -> None:
    """Record a whole-hour delete, in place of the older ones that it covers."""
    first_ms, end_ms = span
    connection.execute(
        "DELETE FROM tombstone WHERE kind = ? AND partition = ?"
        " AND end_ms <= ? AND end_ms > ? AND first_ms >= ? AND write_time <= ?",
        (kind, partition, end_ms, first_ms, first_ms, write_time),
    )
    connection.execute(
        "INSERT INTO tombstone (kind, partition, end_ms, first_ms, write_time)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET write_time = excluded.write_time"
        " WHERE excluded.write_time > write_time",
        (kind, partition, end_ms, first_ms, write_time),
    )
    connection.execute(
        "DELETE FROM tombstone WHERE kind = ? AND partition = ? AND (end_ms, first_ms) <"
        " (SELECT end_ms, first_ms FROM tombstone WHERE kind = ? AND partition = ?"
        "  ORDER BY end_ms DESC, first_ms DESC LIMIT 1 OFFSET ?)",
        (kind, partition, kind, partition, _TOMBSTONES_MAX - 1),
    )


def sweep(
    connection: sqlite3.Connection,
    table: str,
    partition: int,
    span: tuple[int, int],
    write_time: int,
) -> bool:
    """Remove some thousand rows of a span up to a write time; True if there may be more.

    It keeps no state, so a call whose transaction was rolled back is simply repeated.
    """
    doomed = "partition = ? AND scheduled_ms >= ? AND scheduled_ms < ? AND write_time <= ?"
    arguments = (partition, *span, write_time)
    last = connection.execute(
        f"SELECT {KEY_COLUMNS} FROM {table} WHERE {doomed} ORDER BY {KEY_COLUMNS} LIMIT 1 OFFSET ?",
        (*arguments, _DELETE_STEP - 1),
    ).fetchone()
    if last is None:
        connection.execute(f"DELETE FROM {table} WHERE {doomed}", arguments)
        return False
    # Up to and including that key: every call makes progress, even if one key has many rows.
    connection.execute(
        f"DELETE FROM {table} WHERE {doomed} AND ({KEY_COLUMNS}) <= (?, ?, ?)",
        (*arguments, *last),
    )
    return True


def whole_hours(first_hour_ms: int, end_hour_ms: int) -> tuple[int, int]:
    """Return the span to delete; raises ValueError if it cuts an hour."""
    for each in (first_hour_ms, end_hour_ms):
        if each != hour_of(each):
            raise ValueError(f"{each} is not the start of an hour")
    return first_hour_ms, end_hour_ms


def storable(keys: Iterable[TaskKey]) -> list[TaskKey]:
    """Return the distinct keys that a row can have, sorted.

    An operator may ask for any text; SQLite cannot be asked for a lone surrogate.
    """
    return sorted({key for key in keys if _is_text(key.ordering_id + key.uniqueness_key)})


def _is_text(text: str) -> bool:
    if len(text) > 2 * ID_BYTES_MAX:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
