"""Records as rows of the log file: ids, headers, positions. Pure functions and SQL.

A record's id is ``partition << 48 | offset``. Offsets are dense, and records are removed only
from the front: a gap anywhere else is Damage.
"""

import sqlite3
import sys
from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from hourhand.actors.model.task.codec import Headers, LogRecord, record_bytes
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.adapters.embedded.many_rows import write_rows
from hourhand.scheduler.adapters.embedded.seal import Damage, opened, sealed
from hourhand.scheduler.adapters.embedded.seal import Row as AnyRow

_OFFSET_BITS = 48
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_PRUNE_STEP = 2_000

_NOW_DAYS = "julianday('now') - 2440587.5"
_ENDS = "json_group_array(json_array(partition, next_offset)) FROM log_end"
_NOW_AND_ENDS = f"SELECT {_NOW_DAYS}, {_ENDS} WHERE partition IN (SELECT value FROM json_each(?))"
_decode_ends = msgspec.json.Decoder(list[tuple[int, int]]).decode
_headers_decoder = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])
_headers_encoder = msgspec.msgpack.Encoder()

Row = tuple[int, int, bytes | None, bytes | None, bytes | None]


def record_id(partition: int, offset: int) -> int:
    """Return the row id of a position."""
    return partition << _OFFSET_BITS | offset


def packed_headers(headers: Headers) -> bytes | None:
    """Return headers as a column; None without headers, which most records lack."""
    return _headers_encoder.encode(list(headers)) if headers else None


def as_record(row: Row) -> LogRecord:
    """Return a row in the form in which the log delivers it."""
    identity, timestamp_ms, key, value, headers = row
    return LogRecord(
        identity >> _OFFSET_BITS,
        identity & _OFFSET_MASK,
        timestamp_ms,
        key,
        value,
        _headers_decoder.decode(headers) if headers else (),
    )


def insert_records(
    connection: sqlite3.Connection,
    appended: Iterable[tuple[int, bytes, bytes, bytes | None]],
) -> list[int]:
    """Append (partition, key, value, headers), dated now; return their offsets in order."""
    rows = list(appended)
    timestamp_ms, ends = _now_and_ends(connection, {row[0] for row in rows})
    offsets: list[int] = []
    records: list[AnyRow] = []
    for partition, key, value, headers in rows:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        offsets.append(offset)
        record = (partition << _OFFSET_BITS | offset, timestamp_ms, key, value, headers)
        records.append(sealed(record))
    # In the order of ids SQLite walks the B-tree from page to page instead of jumping.
    records.sort(key=_by_id)
    write_rows(connection, _insertion, records)
    write_rows(connection, _end_insertion, list(ends.items()))
    return offsets


@cache
def _insertion(count: int) -> str:
    marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
    return f"INSERT INTO record VALUES {marks}"


@cache
def _end_insertion(count: int) -> str:
    marks = ", ".join(["(?, ?)"] * count)
    return f"INSERT OR REPLACE INTO log_end VALUES {marks}"


def _now_and_ends(
    connection: sqlite3.Connection, partitions: Iterable[int]
) -> tuple[int, dict[int, int]]:
    """Return ``now_ms``, and the next offsets of those of these partitions that have records."""
    days: float
    ends: str
    # One row for all: for each row sqlite3 releases the interpreter's lock and waits for it again.
    ((days, ends),) = connection.execute(_NOW_AND_ENDS, (str(list(partitions)),))
    return _as_ms(days), dict(_decode_ends(ends))


def now_ms(connection: sqlite3.Connection) -> int:
    """Return SQLite's wall clock in UTC milliseconds.

    A record is dated when it is appended, so dates grow with offsets unless the clock steps.
    """
    days: float
    (days,) = connection.execute(f"SELECT {_NOW_DAYS}").fetchone()
    return _as_ms(days)


def _as_ms(days: float) -> int:
    return round(days * 86_400_000)


def _by_id(row: AnyRow) -> int:
    identity: int = row[0]
    return identity


def read_ends(connection: sqlite3.Connection) -> dict[int, int]:
    """Return partition to next offset, for every partition that ever had a record."""
    # One row for all, as above.
    ((ends,),) = connection.execute(f"SELECT {_ENDS}")
    return dict(_decode_ends(ends))


def read_records(
    connection: sqlite3.Connection,
    partition: int,
    next_offset: int,
    limit: int,
    bytes_max: int = sys.maxsize,
) -> list[LogRecord]:
    """Return up to ``limit`` records of a partition, from ``next_offset`` on; they end with the one
    that reaches ``bytes_max``.

    Raises Damage for a record that is not what was written, and for a missing one.
    """
    rows = connection.execute(
        "SELECT id, timestamp_ms, key, value, headers, checksum FROM record"
        " WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        (record_id(partition, next_offset), record_id(partition + 1, 0), limit),
    )
    records: list[LogRecord] = []
    found_bytes = 0
    for row in rows:
        record = as_record(opened(row))
        records.append(record)
        found_bytes += record_bytes(record)
        if found_bytes >= bytes_max:
            break
    rows.close()
    if not records:
        return records
    first, last = records[0].offset, records[-1].offset
    jumps = first > next_offset and first > _first_offset(connection, partition, first)
    if jumps or last - first + 1 != len(records):
        raise Damage(f"records of partition {partition} between {next_offset} and {last} are gone")
    return records


def starting_position(
    connection: sqlite3.Connection, partition: int, stored_next_offset: int | None
) -> StartPosition:
    """Return the position of reading: the highest known next offset that the log can hold.

    Raises Damage if the log's end is not behind its last record, or is before the committed offset.
    """
    end = _next_offset(connection, "log_end", partition) or 0
    committed = _committed(connection, partition)
    last = _last_offset(connection, partition)
    if end != last + 1 or (committed or 0) > end:
        raise Damage(
            f"partition {partition} has a last record {last}, the end {end}, and {committed} as"
            " the next one to read"
        )
    known = [each for each in (committed, stored_next_offset) if each is not None]
    first = _first_offset(connection, partition, end)
    position = max((each for each in known if each <= end), default=first)
    return StartPosition(max(position, first), end)


def store_committed(
    connection: sqlite3.Connection, next_offsets: Mapping[int, int], store_tally: int
) -> None:
    """Store the group's next offsets, and the store's count at that time."""
    connection.executemany(
        "INSERT OR REPLACE INTO committed VALUES (?, ?, ?)", map(sealed, next_offsets.items())
    )
    connection.execute(
        "UPDATE pair SET store_tally = ? WHERE store_tally < ?", (store_tally, store_tally)
    )


def prune_records(connection: sqlite3.Connection, keep: int) -> bool:
    """Remove some records more than ``keep`` below the committed offsets; True if more can go."""
    left = _PRUNE_STEP
    for row in connection.execute("SELECT * FROM committed").fetchall():
        partition, committed = opened(row)
        first = _first_offset(connection, partition, committed)
        bound = min(committed - keep, first + left)
        if bound > first:
            span = (record_id(partition, first), record_id(partition, bound))
            connection.execute("DELETE FROM record WHERE id >= ? AND id < ?", span)
            left -= bound - first
        if left <= 0:
            return True
    return False


def _next_offset(connection: sqlite3.Connection, table: str, partition: int) -> int | None:
    row = connection.execute(
        f"SELECT next_offset FROM {table} WHERE partition = ?", (partition,)
    ).fetchone()
    return None if row is None else int(row[0])


def _committed(connection: sqlite3.Connection, partition: int) -> int | None:
    row = connection.execute(
        "SELECT partition, next_offset, checksum FROM committed WHERE partition = ?", (partition,)
    ).fetchone()
    return None if row is None else int(opened(row)[1])


def _last_offset(connection: sqlite3.Connection, partition: int) -> int:
    """Return the last existing offset, -1 if there is none."""
    row = connection.execute(
        "SELECT id FROM record WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1",
        (record_id(partition, 0), record_id(partition + 1, 0)),
    ).fetchone()
    return -1 if row is None else int(row[0]) & _OFFSET_MASK


def _first_offset(connection: sqlite3.Connection, partition: int, end: int) -> int:
    """Return the first existing offset, ``end`` if there is none."""
    row = connection.execute(
        "SELECT id FROM record WHERE id >= ? AND id < ? ORDER BY id LIMIT 1",
        (record_id(partition, 0), record_id(partition + 1, 0)),
    ).fetchone()
    return end if row is None else int(row[0]) & _OFFSET_MASK


def agree_partition_count(connection: sqlite3.Connection, wanted: int) -> int:
    """Return the log's number of partitions, ``wanted`` if it is not fixed yet."""
    row = connection.execute("SELECT partition_count FROM topic").fetchone()
    if row is None:
        connection.execute("INSERT INTO topic VALUES (?)", (wanted,))
        return wanted
    return int(row[0])
