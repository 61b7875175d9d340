"""From a user's rows to tasks: pure functions from DataFrame to DataFrame.

Decides the columns of a task and which row is put aside, with its reason. No row is ever lost: each
comes out either as a task or with a reason.
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

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.public import public
from hourhand.scheduler.pipeline.columns import hours_of, instants_of
from hourhand.scheduler.pipeline.validation import (
    BESIDE,
    FIELDS,
    OPTIONAL,
    LoadRules,
    TaskColumns,
    Verdict,
    millis_of,
    partitions_of,
    plain_tasks,
    validate,
    validate_line,
)

CORRUPT = "_corrupt_record"
"""Spark's column for a line that lacks the columns of its file."""
DUPLICATE = "another row of the input has the same key"

_JUDGED = (
    "partition int, hour timestamp, scheduled_time timestamp, ordering_id string,"
    " uniqueness_key string, data string, row string, reason string"
)
_JUDGED_FIELDS = ("time", "ordering_id", "uniqueness_key", "data", *BESIDE)
_NEEDED = {
    "scheduled_time": "a timestamp, text or milliseconds",
    "priority": "a whole number or text",
}
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


def judged_lines(
    lines: DataFrame, rules: LoadRules, names: Mapping[str, str], *, keep_rows: bool = True
) -> DataFrame:
    """Judge lines of JSON in column ``value``, as text: their data is not rewritten.

    Column ``row`` is the line; without ``keep_rows`` it is empty.
    """
    return lines.where(f.trim("value") != "").mapInArrow(
        partial(_judge_lines, rules, dict(names), keep_rows=keep_rows), _JUDGED
    )


def judged_columns(
    rows: DataFrame, rules: LoadRules, names: Mapping[str, str], *, keep_rows: bool = True
) -> DataFrame:
    """Judge the rows of a table; raises InvalidTask if columns are missing or unusable.

    Without a column for the data, all other columns together become the data. Column ``row`` is the
    whole row as JSON; without ``keep_rows`` it is empty.
    """
    columns = _chosen(rows.schema, names)
    time = f.col(columns["scheduled_time"])
    if isinstance(rows.schema[columns["scheduled_time"]].dataType, TimestampNTZType):
        time = f.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    no_text = f.lit(None).cast("string")
    prepared = rows.select(
        time.alias("time"),
        f.col(columns["ordering_id"]).cast("string").alias("ordering_id"),
        f.col(columns["uniqueness_key"]).cast("string").alias("uniqueness_key"),
        _data(rows.schema, columns).alias("data"),
        *(
            (f.col(columns[name]).cast("string") if name in columns else no_text).alias(name)
            for name in BESIDE
        ),
        (f.to_json(f.struct("*")) if keep_rows else no_text).alias("row"),
        (f.col(CORRUPT) if CORRUPT in rows.columns else no_text).alias("torn"),
    )
    return prepared.mapInArrow(partial(_judge_rows, rules), _JUDGED)


def without_duplicates(judged: DataFrame, writers: int) -> DataFrame:
    """Give all rows of one key except one a reason; rows come sorted by bucket.

    The one is the first by its data, so the task is the same for any order of the rows. Rows of one
    bucket end up together, so that they are written as one batch.
    """
    key = ("partition", "hour", "scheduled_time", "ordering_id", "uniqueness_key")
    of_key = Window.partitionBy(*key).orderBy(
        "data", *(name for name in judged.columns if name == "row")
    )
    numbered = judged.repartition(writers, "partition", "hour").withColumn(
        "number", f.row_number().over(of_key)
    )
    repeated = f.when(f.col("number") > 1, f.lit(DUPLICATE))
    return numbered.withColumn("reason", f.coalesce("reason", repeated)).drop("number")


@public("hourhand.pipeline")
def by_bucket(tasks: DataFrame, writers: int) -> DataFrame:
    """Sort tasks with columns partition and hour so that each bucket is written at once."""
    return tasks.repartition(writers, "partition", "hour").sortWithinPartitions(
        "partition", "hour", "scheduled_time"
    )


def with_partition(rows: DataFrame, count: int) -> DataFrame:
    """Add (or replace) the partition of each row's ordering id, of ``count``."""
    kept = rows.drop("partition")
    schema = StructType([*kept.schema.fields, StructField("partition", IntegerType())])
    return kept.mapInArrow(partial(_add_partition, count), schema)


def counts() -> tuple[Column, ...]:
    """Return aggregates: rows, tasks, duplicates, and rows refused for another reason."""
    reason = f.col("reason")
    repeated = reason == DUPLICATE
    return (
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
        elif field not in OPTIONAL or field in names:
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
        "kind": (StringType,),
        "seal": (StringType,),
        "expires": (StringType,),
        "links": (StringType,),
        "priority": texts,
    }
    for field, types in allowed.items():
        if field not in chosen:
            continue
        kind = schema[chosen[field]].dataType
        if not isinstance(kind, types):
            raise InvalidTask(
                f"column {chosen[field]} is {kind.simpleString()}, which cannot be {field}:"
                f" {_NEEDED.get(field, 'text')} is needed"
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
    rules: LoadRules,
    names: Mapping[str, str],
    batches: Iterator[pa.RecordBatch],
    *,
    keep_rows: bool,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = batch.column("value")
        judged = [validate_line(rules, line, names) for line in lines.to_pylist()]
        rows = lines if keep_rows else pa.nulls(len(lines), pa.string())
        yield _judged(rules, rows, judged)


def _judge_rows(rules: LoadRules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        torn = batch.column("torn")
        values = [batch.column(each) for each in _JUDGED_FIELDS]
        whole = torn.null_count == len(torn)
        tasks = plain_tasks(rules, *values) if whole else None
        if tasks is not None:
            yield _all_tasks(rules, tasks, batch.column("row"))
            continue
        columns = [times_of(values[0]), *(each.to_pylist() for each in values[1:])]
        if whole:
            verdicts = [validate(rules, *row) for row in zip(*columns, strict=True)]
        else:
            verdicts = [
                validate(rules, *row) if broken is None else _TORN
                for broken, *row in zip(torn.to_pylist(), *columns, strict=True)
            ]
        yield _judged(rules, pc.coalesce(torn, batch.column("row")), verdicts)


def _all_tasks(rules: LoadRules, tasks: TaskColumns, rows: pa.Array) -> pa.RecordBatch:
    arrays = [
        partitions_of(tasks.ordering_id, rules.partition_count),
        instants_of(hours_of(tasks.millis)),
        instants_of(tasks.millis),
        tasks.ordering_id,
        tasks.uniqueness_key,
        # They were text before, so they need no further check.
        tasks.data.view(pa.string()),
        rows,
        pa.nulls(len(rows), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_JUDGED_ARROW)


_TORN = Verdict(None, "the line does not have the columns of the file's first line")


def times_of(times: pa.Array) -> list[object]:
    """Return times as whole milliseconds if they are instants, and else unchanged."""
    if not pa.types.is_timestamp(times.type):
        return times.to_pylist()
    return millis_of(times).to_pylist()


def _add_partition(count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        owners = partitions_of(batch.column("ordering_id"), count)
        yield batch.append_column("partition", owners)


def _judged(rules: LoadRules, rows: pa.Array, verdicts: Sequence[Verdict]) -> pa.RecordBatch:
    keys = [None if task is None else task.key for task, _ in verdicts]
    millis = pa.array([None if key is None else key.scheduled_ms for key in keys], pa.int64())
    count = rules.partition_count
    columns = [
        [None if key is None else partition_of(key.ordering_id, count) for key in keys],
        instants_of(hours_of(millis)),
        instants_of(millis),
        [None if key is None else key.ordering_id for key in keys],
        [None if key is None else key.uniqueness_key for key in keys],
        # As bytes, which Arrow takes for text without decoding them first.
        [None if task is None else task.body for task, _ in verdicts],
        rows,
        [reason for _, reason in verdicts],
    ]
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type)
        for field, values in zip(_JUDGED_ARROW, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_JUDGED_ARROW)
