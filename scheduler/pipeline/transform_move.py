"""Rows of one installation as they are in another one: pure functions on DataFrames.

Decides nothing itself: which partition a row belongs to is the partitioner's, what becomes of
its offset is ``renumbering``'s.
"""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from actors.model.definition import RESERVED
from actors.model.partition import partition_of
from scheduler.pipeline.renumbering import (
    MOVED_BY,
    moved_data,
    moved_definition,
    moved_offset,
    moved_outcome,
    moved_unique,
)
from scheduler.pipeline.state_tables import (
    DEFINITIONS,
    OUTCOMES,
    definition_batch,
    definitions_of,
    outcome_batch,
    outcomes_of,
)

_KEPT_S = 86_400
"""Rows that expire within a day may vanish while a job runs, and are not compared."""


def moved(rows: DataFrame, table: str, new_count: int) -> DataFrame:
    """Return a table's rows with the partitions of ``new_count`` and renumbered offsets."""
    move = {DEFINITIONS: _move_definitions, OUTCOMES: _move_outcomes}.get(table, _move_rows)
    return rows.mapInArrow(partial(move, new_count), rows.schema)


def lasting(rows: DataFrame, now_s: float) -> DataFrame:
    """Return the rows that are certainly there for another day."""
    if "expires" not in rows.columns:
        return rows
    end = f.timestamp_seconds(f.lit(now_s + _KEPT_S))
    return rows.where(f.col("expires").isNull() | (f.col("expires") > end))


def _move_rows(new_count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = {field.name: batch.column(field.name) for field in batch.schema}
        ids = columns["ordering_id"].to_pylist()
        columns["partition"] = pa.array([partition_of(each, new_count) for each in ids], pa.int32())
        if "log_offset" in columns and batch.num_rows:
            # Refuses what is too high; the others are lowered together.
            moved_offset(pc.max(columns["log_offset"]).as_py())
            columns["log_offset"] = pc.subtract(columns["log_offset"], MOVED_BY)
        if pc.any(pc.starts_with(columns["ordering_id"], RESERVED)).as_py():
            _rename_own(ids, columns)
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _rename_own(ids: list[str], columns: dict[str, pa.Array]) -> None:
    """Renumber the names and data of Hourhand's own tasks, where they carry an offset."""
    uniques = columns["uniqueness_key"].to_pylist()
    columns["uniqueness_key"] = pa.array(map(moved_unique, ids, uniques), pa.string())
    if "data" in columns:
        data = columns["data"].to_pylist()
        columns["data"] = pa.array(
            [
                moved_data(each, text.encode()).decode()
                for each, text in zip(ids, data, strict=True)
            ],
            pa.string(),
        )


def _move_definitions(
    new_count: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [moved_definition(each) for _, each in definitions_of(batch)]
        owners = [partition_of(each.name.ordering_id, new_count) for each in rows]
        yield definition_batch(list(zip(owners, rows, strict=True)))


def _move_outcomes(new_count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Outcomes stay with the partition of their record, which together with it is unique."""
    del new_count
    for batch in batches:
        yield outcome_batch(
            [
                each._replace(offset=moved_offset(each.offset), outcome=moved_outcome(each.outcome))
                for each in outcomes_of(batch)
            ]
        )
