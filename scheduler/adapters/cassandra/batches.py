"""Turns rows into same-row batches: one mutation each, cut near a number of bytes.

Rows of one hour share a Cassandra partition, so a batch of them is one atomic mutation and
costs the server little more than one row.  It decides where to cut; it never decides what
is written.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from actors.model.bucket import hour_of
from actors.model.errors import PoisonRecord
from actors.model.key import TaskKey
from scheduler.adapters.cassandra.packing import (
    PackedBatch,
    RowPrefix,
    packed_bigint,
    packed_int,
)

ROWS_MAX = 1_000
"""Rows of one batch; the protocol ends at 65,535, and more gained nothing."""
ROW_BYTES_MAX = 15 * 2**20
"""Half a commit log segment (16 MiB by default) less what surrounds a row."""

PackedRow = tuple[TaskKey, bytes, bytes]
"""A row as it is written: its key, the clustering columns, and all columns behind them."""


def batches(
    prepared: Any, partition: int, rows: Iterable[PackedRow], batch_bytes: int
) -> Iterator[PackedBatch]:
    """Yield unlogged batches, each of one hour, that together hold all rows.

    Of two rows with the same clustering columns the last stands: they have the same write
    time, so the store could not tell.  Raises PoisonRecord for a row that is longer than the
    store can ever hold, before it yields anything.
    """
    by_hour: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
    for key, clustering, values in rows:
        size_bytes = len(clustering) + len(values)
        if size_bytes > ROW_BYTES_MAX:
            raise PoisonRecord(
                f"task {key} has {size_bytes} bytes, and Cassandra holds no row above"
                f" {ROW_BYTES_MAX}: lower client.record_bytes_max"
            )
        by_hour[hour_of(key.scheduled_ms)][clustering] = values
    for hour_ms, found in by_hour.items():
        prefix = RowPrefix(prepared, packed_int(partition), packed_bigint(hour_ms))
        packed = [prefix.packed + clustering + values for clustering, values in found.items()]
        for piece in cut(packed, batch_bytes):
            yield prefix.batch(piece)


def cut(rows: Sequence[bytes], batch_bytes: int) -> Iterator[Sequence[bytes]]:
    """Yield stretches of rows for a batch each: at least one row, at most ``ROWS_MAX``."""
    start, size_bytes = 0, 0
    for position, row in enumerate(rows):
        row_bytes = len(row)
        if position > start and (
            size_bytes + row_bytes > batch_bytes or position - start == ROWS_MAX
        ):
            yield rows[start:position]
            start, size_bytes = position, 0
        size_bytes += row_bytes
    yield rows[start:]
