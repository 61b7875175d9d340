"""``completion_segment``: plain successes of one hour, some hundred in one row of the store file.

It decides how they are packed and which of several versions of a key stands: the one of the
highest write time, whether it is a row of ``task_status`` or an entry of a segment.  It never
decides what may be deleted.  A version before overlooks segments, so the file's version keeps
it out while there are any (ADR 32).  Entries leave here as rows of ``TASK_STATUS.selected`` without
checksum, so a reader sees one table.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, merge
from itertools import groupby
from operator import itemgetter

import msgspec

from actors.model.bucket import hour_of
from actors.model.key import TaskKey
from actors.model.ownership import EPOCH_SHIFT
from actors.model.status import Completion, CompletionResult
from scheduler.adapters.embedded.connection import set_version, version_of
from scheduler.adapters.embedded.rows import TASK_STATUS, insert_rows
from scheduler.adapters.embedded.schema import STORE
from scheduler.adapters.embedded.seal import Row, opened, sealed

STATUS = "status"
"""The kind of tombstone that covers completions and attempts."""
SEGMENT_ROWS_MIN = 32
"""Fewer successes of an hour are rows: reading one key of them is then as cheap as ever."""
SEGMENT_ROWS_MAX = 500
"""A read of one key unpacks no more than this for each segment that covers its time."""
_ID_LENGTH_MAX = 200
"""Characters of both ids together; longer ones are rows, which bounds a segment's bytes."""
_DELETE_STEP = 100
_TURNED_STEP = 20
"""Segments of one transaction, of up to 500 entries each."""
_SOUGHT_MAX = 16

_Entry = tuple[TaskKey, int, int, int | None, int]
"""Key, offset, attempts, started_ms, finished_ms."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Entry]).decode
_COLUMNS = "partition, hour_ms, first_ms, last_ms, body, write_time, checksum"
_SELECT = f"SELECT {_COLUMNS} FROM completion_segment"
_SELECT_WITH_ID = f"SELECT {_COLUMNS}, id FROM completion_segment"
_INSERT = f"INSERT INTO completion_segment ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE completion_segment SET partition = ?, hour_ms = ?, first_ms = ?, last_ms = ?,"
    " body = ?, write_time = ?, checksum = ? WHERE id = ?"
)
_key_of = itemgetter(slice(1, 4))
_write_time_of = itemgetter(-1)


def plain_by_hour(
    completions: Iterable[Completion], write_time: int
) -> tuple[Mapping[int, list[Completion]], list[Completion]]:
    """Return what goes into segments, by hour in milliseconds, and what is written as rows.

    Whoever writes below every owner may write twice with one write time: these are rows.
    """
    by_hour: dict[int, list[Completion]] = {}
    rows: list[Completion] = []
    for each in completions:
        if write_time >> EPOCH_SHIFT and _is_plain(each):
            by_hour.setdefault(hour_of(each.key.scheduled_ms), []).append(each)
        else:
            rows.append(each)
    for hour_ms in [hour for hour, found in by_hour.items() if len(found) < SEGMENT_ROWS_MIN]:
        rows += by_hour.pop(hour_ms)
    return by_hour, rows


def insert_segments(
    connection: sqlite3.Connection,
    partition: int,
    hour_ms: int,
    completions: Iterable[Completion],
    write_time: int,
) -> None:
    """Write plain successes of one hour, cut into segments in key order."""
    entries: list[_Entry] = sorted(
        (each.key, each.offset, each.attempts, each.started_ms, each.finished_ms)
        for each in completions
    )
    if version_of(connection) < STORE.version_max:
        set_version(connection, STORE.version_max)
    connection.executemany(
        _INSERT,
        [
            _segment(partition, hour_ms, entries[start : start + SEGMENT_ROWS_MAX], write_time)
            for start in range(0, len(entries), SEGMENT_ROWS_MAX)
        ],
    )


def entries_between(
    connection: sqlite3.Connection, partition: int, first_ms: int, last_ms: int
) -> Iterator[Row]:
    """Yield entries scheduled in [first, last], in key order; raises Damage.

    Of the segments it holds those whose times overlap where it stands.  The list of segments is
    open from the call to the last entry, and with it a snapshot: who reads rows in between misses
    nothing that is turned from one into the other.
    """
    # Numbers alone: a sort would carry the bodies of all of them.
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
    waiting: list[tuple[tuple[object, ...], int, int, list[Row]]] = []
    for number, segment in enumerate(segments):
        while waiting and waiting[0][3][waiting[0][2]][1] < segment[2]:
            yield _next_of(waiting)
        rows = [row for row in _unpacked(segment) if first_ms <= row[1] <= last_ms]
        if rows:
            heappush(waiting, (_key_of(rows[0]), number, 0, rows))
    while waiting:
        yield _next_of(waiting)


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
            yield from _unpacked(segment, wanted)


def merged(rows: Iterable[Row], entries: Iterable[Row]) -> Iterator[Row]:
    """Yield, of rows and entries in key order, the version of each key that stands."""
    for _, versions in groupby(merge(rows, entries, key=_key_of), _key_of):
        yield max(versions, key=_write_time_of)


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
        entries = _decode(body)
        kept = [each for each in entries if doomed.get(each[0], write_time - 1) < write_time]
        if len(kept) == len(entries):
            continue
        if kept:
            # In its place: a scan beside this one still finds what is left.
            row = (*_segment(partition, hour_ms, kept, write_time), number)
            connection.execute(_UPDATE, row)
        else:
            connection.execute("DELETE FROM completion_segment WHERE id = ?", (number,))


def sweep_segments(
    connection: sqlite3.Connection, partition: int, span: tuple[int, int], write_time: int
) -> bool:
    """Remove some segments of whole hours up to a write time; whether there may be more."""
    removed = connection.execute(
        "DELETE FROM completion_segment WHERE id IN (SELECT id FROM completion_segment"
        " WHERE partition = ? AND hour_ms >= ? AND hour_ms < ? AND write_time <= ? LIMIT ?)",
        (partition, *span, write_time, _DELETE_STEP),
    )
    return removed.rowcount == _DELETE_STEP


def turn_into_rows(connection: sqlite3.Connection) -> bool:
    """Turn some segments into rows; whether there are more.  With the last one a version before
    may open the file again.
    """
    segments = connection.execute(f"{_SELECT_WITH_ID} ORDER BY id LIMIT ?", (_TURNED_STEP,))
    for *segment, number in segments.fetchall():
        # What a delete that goes on in steps is about to take must not come back as rows.
        insert_rows(connection, TASK_STATUS.upsert, STATUS, list(_unpacked(tuple(segment))))
        connection.execute("DELETE FROM completion_segment WHERE id = ?", (number,))
    if connection.execute("SELECT 1 FROM completion_segment LIMIT 1").fetchone():
        return True
    set_version(connection, STORE.version)
    return False


def _is_plain(completion: Completion) -> bool:
    key = completion.key
    return (
        completion.result is CompletionResult.SUCCESS
        and completion.reason is None
        and completion.moved_to_ms is None
        and not completion.for_good
        and len(key.ordering_id) + len(key.uniqueness_key) <= _ID_LENGTH_MAX
    )


def _segment(partition: int, hour_ms: int, entries: Sequence[_Entry], write_time: int) -> Row:
    first_ms, last_ms = entries[0][0].scheduled_ms, entries[-1][0].scheduled_ms
    return sealed((partition, hour_ms, first_ms, last_ms, _encode(entries), write_time))


def _unpacked(segment: Row, wanted: Collection[TaskKey] | None = None) -> Iterator[Row]:
    partition, *_, body, write_time = opened(segment)
    # Ids stand in the body as they are: to look for one costs a hundredth of unpacking.
    few = wanted is not None and len(wanted) <= _SOUGHT_MAX
    if few and not any(key.uniqueness_key.encode() in body for key in wanted or ()):
        return
    for key, offset, attempts, started_ms, finished_ms in _decode(body):
        if wanted is not None and key not in wanted:
            continue
        yield (
            *(partition, *key, "success", offset, attempts, started_ms, finished_ms),
            *(None, 0, None, write_time),
        )


def _next_of(waiting: list[tuple[tuple[object, ...], int, int, list[Row]]]) -> Row:
    _, number, place, rows = heappop(waiting)
    if place + 1 < len(rows):
        heappush(waiting, (_key_of(rows[place + 1]), number, place + 1, rows))
    return rows[place]
