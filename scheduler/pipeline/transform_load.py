"""From somebody's rows to tasks: pure functions from DataFrame to DataFrame.

Decides which columns make up a task and which row is put aside, with its reason.  No row is ever
lost: each comes out either as a task or with a reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    IntegerType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from actors.model.bucket import hour_of
from actors.model.errors import InvalidTask
from actors.model.partition import partition_of
from scheduler.pipeline.judging import FIELDS, Rules, Verdict, judge, judge_line

CORRUPT = "_corrupt_record"
"""Where Spark puts a line that has not the columns of its file."""
DUPLICATE = "another row of the input has the same key"

_JUDGED = (
    "partition int, hour timestamp, scheduled_time timestamp, ordering_id string,"
    " uniqueness_key string, data string, row string, reason string"
)
_MICROS = pa.timestamp("us", tz="UTC")
_JUDGED_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("hour", _MICROS),
        ("scheduled_time", _MICROS),
        *((name, pa.string()) for name in ("ordering_id", "uniqueness_key", "data")),
        ("row", pa.string()),
        ("reason", pa.string()),
    ]
)


def judged_lines(lines: DataFrame, rules: Rules, names: Mapping[str, str]) -> DataFrame:
    """Judge lines of JSON in column ``value``, as text: nothing of their data is rewritten."""
    return lines.where(f.trim("value") != "").mapInArrow(
        partial(_judge_lines, rules, dict(names)), _JUDGED
    )


def judged_columns(rows: DataFrame, rules: Rules, names: Mapping[str, str]) -> DataFrame:
    """Judge the rows of a table; raises InvalidTask where columns are missing or of no use.

    Without a column for the data, all other columns together become the data.
    """
    columns = _chosen(rows.schema, names)
    time = f.col(columns["scheduled_time"])
    if isinstance(rows.schema[columns["scheduled_time"]].dataType, TimestampNTZType):
        time = f.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    prepared = rows.select(
        time.alias("time"),
        f.col(columns["ordering_id"]).cast("string").alias("ordering_id"),
        f.col(columns["uniqueness_key"]).cast("string").alias("uniqueness_key"),
        _data(rows.schema, columns).alias("data"),
        f.to_json(f.struct("*")).alias("row"),
        (f.col(CORRUPT) if CORRUPT in rows.columns else f.lit(None).cast("string")).alias("torn"),
    )
    return prepared.mapInArrow(partial(_judge_rows, rules), _JUDGED)


def without_duplicates(judged: DataFrame, writers: int) -> DataFrame:
    """Leave one row of each key a task and give the others a reason, sorted by bucket.

    Rows of one bucket end up together, so that they are written as one batch.
    """
    key = ("partition", "hour", "scheduled_time", "ordering_id", "uniqueness_key")
    of_key = Window.partitionBy(*key).orderBy(f.col("data"), f.col("row"))
    good = judged.where(f.col("reason").isNull()).repartition(writers, "partition", "hour")
    numbered = good.withColumn("number", f.row_number().over(of_key))
    repeated = f.when(f.col("number") > 1, f.lit(DUPLICATE))
    return numbered.withColumn("reason", repeated).drop("number")


def by_bucket(tasks: DataFrame, writers: int) -> DataFrame:
    """Sort tasks with columns partition and hour so that each bucket is written at once."""
    return tasks.repartition(writers, "partition", "hour").sortWithinPartitions(
        "partition", "hour", "scheduled_time"
    )


def with_partition(rows: DataFrame, count: int) -> DataFrame:
    """Add (or replace) the partition, of ``count``, that each row's ordering id belongs to."""
    kept = rows.drop("partition")
    schema = StructType([*kept.schema.fields, StructField("partition", IntegerType())])
    return kept.mapInArrow(partial(_add_partition, count), schema)


def counted(judged: DataFrame) -> DataFrame:
    """Return one row: rows, tasks, duplicates, and rows that were refused for another reason."""
    reason = f.col("reason")
    repeated = reason == DUPLICATE
    return judged.agg(
        f.count("*").alias("rows"),
        f.count_if(reason.isNull()).alias("tasks"),
        f.count_if(repeated).alias("duplicates"),
        f.count_if(reason.isNotNull() & ~repeated).alias("invalid"),
    )


def _chosen(schema: StructType, names: Mapping[str, str]) -> dict[str, str]:
    chosen = {}
    for field, usual in FIELDS.items():
        candidates = (names[field],) if field in names else usual
        found = next((each for each in candidates if each in schema.names), None)
        if found is not None:
            chosen[field] = found
        elif field != "data" or field in names:
            raise InvalidTask(
                f"column {' or '.join(candidates)} is missing; the input has"
                f" {', '.join(schema.names)}: name the right one with --column {field}=NAME"
            )
    _require_types(schema, chosen)
    return chosen


def _require_types(schema: StructType, chosen: Mapping[str, str]) -> None:
    texts = (StringType, IntegralType)
    allowed: Mapping[str, tuple[type, ...]] = {
        "scheduled_time": (StringType, TimestampType, TimestampNTZType, IntegralType),
        "ordering_id": texts,
        "uniqueness_key": texts,
    }
    for field, types in allowed.items():
        kind = schema[chosen[field]].dataType
        if not isinstance(kind, types):
            raise InvalidTask(
                f"column {chosen[field]} is {kind.simpleString()}, which cannot be {field}:"
                f" {'a timestamp, text or milliseconds' if field == 'scheduled_time' else 'text'}"
                " is needed"
            )


def _data(schema: StructType, columns: Mapping[str, str]) -> Column:
    if "data" not in columns:
        taken = {*columns.values(), CORRUPT}
        others = [name for name in schema.names if name not in taken]
        return f.to_json(f.struct(*others)) if others else f.lit("{}")
    if isinstance(schema[columns["data"]].dataType, StringType):
        return f.col(columns["data"])
    return f.to_json(f.col(columns["data"]))


def _judge_lines(
    rules: Rules, names: Mapping[str, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = batch.column("value").to_pylist()
        judged = [judge_line(rules, line, names) for line in lines]
        yield _judged(rules, batch.column("value"), judged)


def _judge_rows(rules: Rules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [
            times_of(batch.column("time")),
            *(batch.column(name).to_pylist() for name in ("ordering_id", "uniqueness_key", "data")),
        ]
        torn = batch.column("torn")
        if torn.null_count == len(torn):
            verdicts = [judge(rules, *row) for row in zip(*columns, strict=True)]
        else:
            verdicts = [
                judge(rules, *row) if broken is None else _TORN
                for broken, *row in zip(torn.to_pylist(), *columns, strict=True)
            ]
        yield _judged(rules, pc.coalesce(torn, batch.column("row")), verdicts)


_TORN = Verdict(None, "the line has not the columns of the file's first one")


def times_of(times: pa.Array) -> list[object]:
    """Return times as whole milliseconds where they are instants, and else as they are."""
    if not pa.types.is_timestamp(times.type):
        return times.to_pylist()
    micros = times.cast(_MICROS).cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1000 for each in micros]


def _add_partition(count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        owners = [partition_of(each, count) for each in batch.column("ordering_id").to_pylist()]
        yield batch.append_column("partition", pa.array(owners, pa.int32()))


def _judged(rules: Rules, rows: pa.Array, verdicts: Sequence[Verdict]) -> pa.RecordBatch:
    keys = [None if task is None else task.key for task, _ in verdicts]
    times = pa.array([None if key is None else key.scheduled_ms for key in keys], pa.int64())
    hours = pa.array(
        [None if key is None else hour_of(key.scheduled_ms) for key in keys], pa.int64()
    )
    count = rules.partition_count
    columns = [
        [None if key is None else partition_of(key.ordering_id, count) for key in keys],
        hours.cast(pa.timestamp("ms", tz="UTC")).cast(_MICROS),
        times.cast(pa.timestamp("ms", tz="UTC")).cast(_MICROS),
        [None if key is None else key.ordering_id for key in keys],
        [None if key is None else key.uniqueness_key for key in keys],
        # As bytes, which Arrow takes for text without decoding them first.
        [None if task is None else task.data for task, _ in verdicts],
        rows,
        [reason for _, reason in verdicts],
    ]
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type)
        for field, values in zip(_JUDGED_ARROW, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_JUDGED_ARROW)
