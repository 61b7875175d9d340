"""The whole content of an installation, as DataFrames.

Workers read them; the driver holds the names of buckets, and a number or two for each partition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hourhand.actors.model.operations.ownership import Claim
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.columns import arrow_schema_of, stored_columns_of
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.reading import HourhandReader
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITION_SCHEMA,
    LOG_SCHEMA,
    OUTCOME_SCHEMA,
    definition_batch,
    outcome_batch,
    owner_table,
    record_batch,
)
from hourhand.scheduler.ports.transfer import Span

_OUTCOME_SHARES = 16
_TASKS_PER_CORE = 3


def rows_frame(spark: SparkSession, source: Options, table: str) -> DataFrame:
    """Return a table's stored columns, read by the data source's reader, planned in this process.

    For every read Spark would start two further processes to plan it.
    """
    stored = tuple(each.name for each in stored_columns_of(table))
    reader = HourhandReader(source._replace(table=table, columns=stored, stored=True))
    parts = list(reader.partitions())
    return _shared(spark, parts, arrow_schema_of(table, stored), reader.read)


def definitions_frame(spark: SparkSession, source: Options, partitions: Sequence[int]) -> DataFrame:
    """Return every definition, including ended and parked ones."""
    return _shared(spark, list(partitions), DEFINITION_SCHEMA, partial(_definitions, source))


def outcomes_frame(spark: SparkSession, source: Options) -> DataFrame:
    """Return the outcomes of all commands."""
    shares = list(range(_OUTCOME_SHARES))
    return _shared(spark, shares, OUTCOME_SCHEMA, partial(_outcomes, source))


def log_frame(spark: SparkSession, source: Options, spans: Mapping[int, Span]) -> DataFrame:
    """Return the records that no node has read, each partition's in order."""
    unread = {each: (span.next, span.end) for each, span in spans.items() if span.next < span.end}
    return _shared(spark, sorted(unread), LOG_SCHEMA, partial(_records, source, unread))


def owners_frame(spark: SparkSession, claims: Mapping[int, Claim | None]) -> DataFrame:
    """Return the owners of the partitions that ever had one."""
    return spark.createDataFrame(owner_table(claims))


def _shared(
    spark: SparkSession,
    shares: list[Any],
    schema: pa.Schema,
    read: Callable[[Any], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Return the results of ``read`` for each share, divided among some Spark tasks for each
    core.
    """
    tasks_max = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    numbers = spark.range(len(shares), numPartitions=max(1, min(len(shares), tasks_max)))
    return numbers.mapInArrow(partial(_read_shares, shares, read), from_arrow_schema(schema))


def _read_shares(
    shares: list[Any],
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(shares[number])


def _definitions(source: Options, partition: int) -> Iterator[pa.RecordBatch]:
    with closing(wiring.open_transfer(source.settings())) as store:
        for rows in store.scan_definitions(partition):
            yield definition_batch([(partition, each) for each in rows])


def _outcomes(source: Options, share: int) -> Iterator[pa.RecordBatch]:
    with closing(wiring.open_transfer(source.settings())) as store:
        for rows in store.scan_outcomes(share, _OUTCOME_SHARES):
            yield outcome_batch(rows)


def _records(
    source: Options, unread: Mapping[int, tuple[int, int]], partition: int
) -> Iterator[pa.RecordBatch]:
    with closing(wiring.open_tail(source.settings())) as tail:
        for records in tail.read(partition, *unread[partition]):
            yield record_batch(records)
