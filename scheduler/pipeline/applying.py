"""Gives the records of a DataFrame their effect in a target, each old partition in one task.

Decides who applies which record in which order; what becomes of one is ``TailApplier``'s.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from actors.model.codec import Command
from actors.model.partition import partition_of
from actors.model.task import StoredTask
from scheduler import wiring
from scheduler.pipeline.copying import Destination, attempt_number
from scheduler.pipeline.state_tables import records_of
from scheduler.pipeline.tail_applying import TailApplier, in_pieces

_PIECE_RECORDS = 1_000
_APPLIED = "partition int, earliest bigint, records bigint, poison bigint, elsewhere bigint"
_APPLIED_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("earliest", "records", "poison", "elsewhere")),
    ]
)


class AppliedLog(NamedTuple):
    """What became of the records that no node had read."""

    counts: dict[str, int]
    earliest: Mapping[int, int]
    """By new partition, the first time of a row that was written or left open."""


class _Share(NamedTuple):
    """What one Spark task is told; pickled to the workers."""

    destination: Destination
    ends: Mapping[int, int]
    new_count: int
    elsewhere: bool
    """Whether those that stood in a wrong partition are meant, or all others."""


def apply_log(
    log: DataFrame, destination: Destination, ends: Mapping[int, int], new_count: int
) -> AppliedLog:
    """Apply all records; those that stand in a wrong partition last, as a node appends them.

    ``ends`` has the ends of the old log, by all of its partitions.
    """
    share = _Share(destination, ends, new_count, elsewhere=False)
    applied = _collected(_in_order(log, "partition").mapInArrow(partial(_apply, share), _APPLIED))
    if not applied.counts["elsewhere"]:
        return applied
    # All in one task: where they belong may be anywhere, and their order is that of the log.
    strays = log.repartition(1).sortWithinPartitions("partition", "log_offset")
    share = share._replace(elsewhere=True)
    late = _collected(strays.mapInArrow(partial(_apply, share), _APPLIED))
    earliest = {
        each: min(first.get(each, 2**62) for first in (applied.earliest, late.earliest))
        for each in applied.earliest.keys() | late.earliest.keys()
    }
    return AppliedLog(applied.counts, earliest)


def _in_order(log: DataFrame, column: str) -> DataFrame:
    return log.repartition(column).sortWithinPartitions(column, "log_offset")


def _collected(applied: DataFrame) -> AppliedLog:
    """Bring a row for each new partition to the driver."""
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in _APPLIED_ARROW.names[2:]]
    rows = applied.groupBy("partition").agg(f.min("earliest").alias("earliest"), *sums).collect()
    counts = {name: sum(row[name] for row in rows) for name in _APPLIED_ARROW.names[2:]}
    return AppliedLog(counts, {row.partition: row.earliest for row in rows if row.partition >= 0})


def _apply(share: _Share, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Apply the records of a Spark task and tell what became of them."""
    first = next(batches, None)
    if first is None:
        return
    settings = share.destination.options.settings()
    stores, writer = wiring.open_stores(settings), wiring.open_writer(settings)
    try:
        applier = TailApplier(
            stores,
            writer,
            new_count=share.new_count,
            next_write_time=_write_times(share.destination),
            now_ms=wiring.open_clock().now_ms,
            row_bytes_max=settings.tree.execution.row_bytes_max,
        )
        counts = _Counts()
        batch: pa.RecordBatch | None = first
        while batch is not None:
            for old, entries in _entries(share, applier, counts, batch):
                for piece in in_pieces(entries, _PIECE_RECORDS):
                    applier.apply(old, piece)
            batch = next(batches, None)
        yield _told(applier.earliest, counts)
    finally:
        writer.close()
        stores.close()


class _Counts:
    """What one Spark task has seen."""

    def __init__(self) -> None:
        self.records = 0
        self.poison = 0
        self.elsewhere = 0
        self.late = count()
        """Numbers the records that are applied behind the end of their own partition."""


def _entries(
    share: _Share, applier: TailApplier, counts: _Counts, batch: pa.RecordBatch
) -> Iterator[tuple[int, list[StoredTask | Command]]]:
    """Return a batch's entries by the old partition that they are to be applied in."""
    old_count = len(share.ends)
    by_old: dict[int, list[StoredTask | Command]] = {}
    for record in records_of(batch):
        entry = applier.decoded(record) if not share.elsewhere else applier.peeked(record)
        if entry is None:
            counts.poison += not share.elsewhere
            continue
        home = partition_of(entry.key.ordering_id, old_count)
        strayed = home != record.partition
        counts.elsewhere += strayed
        if strayed != share.elsewhere:
            continue
        if strayed:
            # As a node produces it again: behind all that its own partition holds.
            entry = replace(entry, offset=share.ends[home] + next(counts.late))
        counts.records += 1
        by_old.setdefault(home, []).append(entry)
    yield from by_old.items()


def _write_times(destination: Destination) -> Callable[[int], int]:
    numbers = count(attempt_number())
    return lambda partition: destination.write_time(partition, next(numbers))


def _told(earliest: Mapping[int, int], counts: _Counts) -> pa.RecordBatch:
    # Partition -1 carries what is no partition's.
    rows = [(each, at, 0, 0, 0) for each, at in earliest.items()]
    rows.append((-1, 0, counts.records, counts.poison, counts.elsewhere))
    columns = [
        pa.array(values, field.type)
        for field, values in zip(_APPLIED_ARROW, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_APPLIED_ARROW)
