"""Turns rows into same-row batches: one mutation each, cut near a number of bytes.

Rows of one hour share a Cassandra partition, so a batch of them is one atomic mutation and
costs the server little more than one row.  It decides where to cut; it never decides what
is written.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cassandra.query import BatchStatement, BatchType

from actors.model.bucket import hour_of
from actors.model.errors import PoisonRecord
from actors.model.key import TaskKey

ROWS_MAX = 1_000
"""Rows of one batch; the protocol ends at 65,535, and more gained nothing."""
ROW_BYTES_MAX = 15 * 2**20
"""Half a commit log segment (16 MiB by default) less what surrounds a row."""
_ROW_OVERHEAD_BYTES = 64


class BoundRow(NamedTuple):
    """One row as the prepared statement takes it."""

    key: TaskKey
    size_bytes: int
    """Length of its variable parts other than the ids."""
    values: tuple[Any, ...]


def batches(prepared: Any, rows: Iterable[BoundRow], batch_bytes: int) -> Iterator[BatchStatement]:
    """Yield unlogged batches, each of one hour, that together hold all rows.

    Raises PoisonRecord for a row that is longer than the store can ever hold.
    """
    by_hour: defaultdict[int, list[BoundRow]] = defaultdict(list)
    for row in rows:
        by_hour[hour_of(row.key.scheduled_ms)].append(row)
    for hour_rows in by_hour.values():
        for piece in _cut(hour_rows, batch_bytes):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for row in piece:
                batch.add(prepared, row.values)
            batch.is_idempotent = True
            yield batch


def _cut(rows: Sequence[BoundRow], batch_bytes: int) -> Iterator[Sequence[BoundRow]]:
    start, size = 0, 0
    for position, row in enumerate(rows):
        row_bytes = _row_bytes(row)
        if position > start and (size + row_bytes > batch_bytes or position - start == ROWS_MAX):
            yield rows[start:position]
            start, size = position, 0
        size += row_bytes
    yield rows[start:]


def _row_bytes(row: BoundRow) -> int:
    # Characters stand for bytes here: the cut is "near", and counting would cost as much as
    # encoding.  What matters is the limit, and a row near it is long for its data.
    ids = len(row.key.ordering_id) + len(row.key.uniqueness_key)
    size_bytes = _ROW_OVERHEAD_BYTES + ids + row.size_bytes
    if size_bytes > ROW_BYTES_MAX:
        raise PoisonRecord(
            f"task {row.key} has {size_bytes} bytes, and Cassandra holds no row above"
            f" {ROW_BYTES_MAX}: lower client.record_bytes_max"
        )
    return size_bytes
