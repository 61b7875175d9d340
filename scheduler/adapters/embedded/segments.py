"""``completion_segment``: plain successes of one hour, some hundred in one row of the store file.

It decides which segments are read for a range or a key and how one is unpacked.
``completion_segments`` decides the content of a segment and which version of a key counts; others
decide deletes. Earlier versions do not see segments, so the file's version keeps them out while
there are any (ADR 27). Entries leave here as rows of ``TASK_STATUS.selected`` without checksum, so
a reader sees one table.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import itemgetter

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.values.bucket import hour_of
from hourhand.scheduler.adapters.completion_segments import (
    Segment,
    in_key_order,
    packed,
    segments_of,
    unpacked,
)
from hourhand.scheduler.adapters.embedded.connection import set_version, version_of
from hourhand.scheduler.adapters.embedded.rows import TASK_STATUS, insert_rows
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed

STATUS = "status"
"""The kind of tombstone that covers completions and attempts."""
_DELETE_STEP = 100
_TURNED_STEP = 20
"""Segments of one transaction, of up to 500 entries each."""

_COLUMNS = "partition, hour_ms, first_ms, last_ms, body, write_time, checksum"
_SELECT = f"SELECT {_COLUMNS} FROM completion_segment"
_SELECT_WITH_ID = f"SELECT {_COLUMNS}, id FROM completion_segment"
_INSERT = f"INSERT INTO completion_segment ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE completion_segment SET partition = ?, hour_ms = ?, first_ms = ?, last_ms = ?,"
    " body = ?, write_time = ?, checksum = ? WHERE id = ?"
)
key_of = itemgetter(slice(1, 4))
"""The key of a row of ``TASK_STATUS.selected``."""


def insert_segments(
    connection: sqlite3.Connection,
    partition: int,
    hour_ms: int,
    completions: Iterable[Completion],
    write_time: int,
) -> None:
    """Write plain successes of one hour, cut into segments in key order."""
    if version_of(connection) < STORE.version_max:
        set_version(connection, STORE.version_max)
    connection.executemany(
        _INSERT,
        [_sealed(partition, hour_ms, each, write_time) for each in segments_of(completions)],
    )


def entries_between(
    connection: sqlite3.Connection, partition: int, first_ms: int, last_ms: int
) -> Iterator[Row]:
    """Yield entries scheduled in [first, last], in key order; raises Damage.

    Only overlapping segments are held at a time. The query for segments is open from the call to
    the last entry, and with it a snapshot: a caller that reads rows in between misses no segment
    that is turned into rows.
    """
    # Numbers only: a sort would carry the bodies of all of them.
    numbers = connection.execute(
        "SELECT id FROM completion_segment WHERE partition = ? AND hour_ms >= ? AND hour_ms <= ?"
        " AND last_ms >= ? AND first_ms <= ? ORDER BY first_ms",
        (partition, hour_of(first_ms), hour_of(last_ms), first_ms, last_ms),
    )
    return _in_order(connection, numbers, first_ms, last_ms)


def _in_order(
    connection: sqlite3.Connection, numbers: sqlite3.Cursor, first_ms: int, last_ms: int
) -> Iterator[Row]:
    segments = (
        segment
        for number in numbers
        for segment in connection.execute(f"{_SELECT} WHERE id = ?", number)
    )
    overlapping = (
        (segment[2], [row for row in _rows(segment) if first_ms <= row[1] <= last_ms])
        for segment in segments
    )
    return in_key_order(overlapping, key_of)


def entries_of(
    connection: sqlite3.Connection, partition: int, keys: Collection[TaskKey]
) -> Iterator[Row]:
    """Yield the entries of single keys, each segment unpacked once; raises Damage."""
    query = (
        "SELECT id FROM completion_segment WHERE partition = ? AND hour_ms = ?"
        " AND last_ms >= ? AND first_ms <= ?"
    )
    found: set[int] = set()
    for time_ms in {key.scheduled_ms for key in keys}:
        arguments = (partition, hour_of(time_ms), time_ms, time_ms)
        found.update(number for (number,) in connection.execute(query, arguments))
    wanted = set(keys)
    for number in sorted(found):
        for segment in connection.execute(f"{_SELECT} WHERE id = ?", (number,)):
            yield from _rows(segment, wanted)


def remove_entries(
    connection: sqlite3.Connection, partition: int, hour_ms: int, doomed: Mapping[TaskKey, int]
) -> None:
    """Take keys out of their segments, each up to a write time."""
    segments = connection.execute(
        f"{_SELECT_WITH_ID} WHERE partition = ? AND hour_ms = ?",
        (partition, hour_ms),
    ).fetchall()
    for *segment, number in segments:
        *_, body, write_time = opened(tuple(segment))
        entries = unpacked(body)
        kept = [each for each in entries if doomed.get(each[0], write_time - 1) < write_time]
        if len(kept) == len(entries):
            continue
        if kept:
            # The row is replaced in place: a concurrent scan still finds the rest.
            row = (*_sealed(partition, hour_ms, packed(kept), write_time), number)
            connection.execute(_UPDATE, row)
        else:
            connection.execute("DELETE FROM completion_segment WHERE id = ?", (number,))


def sweep_segments(
    connection: sqlite3.Connection, partition: int, span: tuple[int, int], write_time: int
) -> bool:
    """Remove some segments of whole hours up to a write time; True if there may be more."""
    removed = connection.execute(
        "DELETE FROM completion_segment WHERE id IN (SELECT id FROM completion_segment"
        " WHERE partition = ? AND hour_ms >= ? AND hour_ms < ? AND write_time <= ? LIMIT ?)",
        (partition, *span, write_time, _DELETE_STEP),
    )
    return removed.rowcount == _DELETE_STEP


def turn_into_rows(connection: sqlite3.Connection) -> bool:
    """Turn some segments into rows; True if there are more. After the last one an earlier version
    may open the file again.
    """
    segments = connection.execute(f"{_SELECT_WITH_ID} ORDER BY id LIMIT ?", (_TURNED_STEP,))
    for *segment, number in segments.fetchall():
        # ``insert_rows`` leaves out rows that a delete under way in steps is about to remove.
        insert_rows(connection, list(_rows(tuple(segment))), table=TASK_STATUS, kind=STATUS)
        connection.execute("DELETE FROM completion_segment WHERE id = ?", (number,))
    if connection.execute("SELECT 1 FROM completion_segment LIMIT 1").fetchone():
        return True
    set_version(connection, STORE.version)
    return False


def _sealed(partition: int, hour_ms: int, segment: Segment, write_time: int) -> Row:
    return sealed((partition, hour_ms, *segment, write_time))


def _rows(segment: Row, wanted: Collection[TaskKey] | None = None) -> Iterator[Row]:
    partition, *_, body, write_time = opened(segment)
    for key, offset, attempts, started_ms, finished_ms in unpacked(body, wanted):
        if wanted is not None and key not in wanted:
            continue
        yield (
            partition,
            *key,
            "success",
            offset,
            attempts,
            started_ms,
            finished_ms,
            None,
            0,
            None,
            write_time,
        )
