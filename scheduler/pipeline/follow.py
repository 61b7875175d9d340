"""``hourhand pipeline follow``: lifecycle events into a Parquet table by date, as they happen.

Decides when a batch is written, the columns of the table, and which of several records of one event
is kept; unreadable records are kept unchanged. Spark keeps offsets and the list of the table's
files side by side, so a run continues wherever the last one was killed.

``format("hourhand_events")`` is the topic as a stream of Spark's. A batch that is read again has
the same rows. Each batch also has a time of its own, which never decreases: by it, and not by a
node's clock, repeats are forgotten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hourhand.actors.model.values.errors import LogUnavailable, SettingsInvalid
from hourhand.actors.model.values.public import public
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.job import JobOptions, Summary, raise_readable, spark_job
from hourhand.scheduler.pipeline.options import Options, parse_options
from hourhand.scheduler.ports.messages import TopicReader

_LOOK_S = 1
_STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_RECORD = (
    "event string, id string, time timestamp, partition int, scheduledTime timestamp,"
    " orderingId string, uniquenessKey string, version int, epoch long, offset long, attempt int,"
    " startedTime timestamp, nextAttemptTime timestamp, movedTo timestamp, reason string,"
    " errorClass string"
)
_COLUMNS = {
    "time": "time",
    "partition": "partition",
    "scheduled_time": "scheduledTime",
    "ordering_id": "orderingId",
    "uniqueness_key": "uniquenessKey",
    "epoch": "epoch",
    "log_offset": "offset",
    "attempt": "attempt",
    "started_time": "startedTime",
    "next_attempt_time": "nextAttemptTime",
    "moved_to": "movedTo",
    "reason": "reason",
    "error_class": "errorClass",
}
UNREAD = "unread"
"""The event of an unreadable record; its text is in column ``raw``."""
EVENTS_FORMAT = "hourhand_events"

_SCHEMA = StructType(
    [
        StructField("topic_partition", IntegerType(), nullable=False),
        StructField("topic_offset", LongType(), nullable=False),
        StructField("read_time", TimestampType(), nullable=False),
        StructField("record", StringType()),
    ]
)
_ARROW = pa.schema(
    [
        pa.field("topic_partition", pa.int32(), nullable=False),
        pa.field("topic_offset", pa.int64(), nullable=False),
        pa.field("read_time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("record", pa.string()),
    ]
)

Offset = dict[str, Any]
"""``{"next": {partition: offset}, "read_ms": …}``, as Spark stores it."""


@public("hourhand.pipeline")
def events_of(records: DataFrame) -> DataFrame:
    """Return a row for each record, with ``date``: of the event, or else of the reading."""
    place = f.concat_ws("-", f.lit(UNREAD), "topic_partition", "topic_offset")
    told = records.withColumn("_", f.from_json("record", _RECORD))
    readable = f.col("_.id").isNotNull() & f.col("_.event").isNotNull()
    return told.select(
        f.when(readable, f.col("_.event")).otherwise(f.lit(UNREAD)).alias("event"),
        f.when(readable, f.col("_.id")).otherwise(place).alias("id"),
        *(f.col(f"_.{name}").alias(column) for column, name in _COLUMNS.items()),
        f.when(~readable, f.col("record")).alias("raw"),
        "topic_partition",
        "topic_offset",
        "read_time",
        f.to_date(f.coalesce(f.col("_.time"), f.col("read_time"))).alias("date"),
    )


def without_repeats(events: DataFrame, within: str) -> DataFrame:
    """Keep the first record of each event, among those read within this time of each other.

    ``read_time`` never decreases, so no row can come too late to be kept.
    """
    return events.withWatermark("read_time", within).dropDuplicatesWithinWatermark(["id"])


@dataclass(frozen=True, slots=True)
class FollowPlan:
    """The folder, the interval of batches, and the time for repeats."""

    folder: str
    once: bool = False
    """Stop at the topic's end as it was at the start."""
    every_ms: int = 10_000
    repeats_within_ms: int = 3_600_000
    """Time after the first record of an event for which repeats of it are recognised."""
    batch_rows: int = 1_000_000
    files: int = 2
    """Most files of a batch for each date."""


def run_follow(
    job: JobOptions, plan: FollowPlan, started: Callable[[StreamingQuery], None] | None = None
) -> Summary:
    """Follow until stopped, or once; the summary counts the rows that this run read and kept."""
    topic = events_topic(job.source)
    # A missing topic is reported before Spark starts, as an error of its own.
    with closing(wiring.open_topic_reader(job.source.settings(), topic)) as reader:
        reader.bounds()
    with spark_job("follow", job) as spark:
        query = _start(spark, job, plan)
        if started is not None:
            started(query)
        counts = _watch(query, job.say)
    return {"job": "follow", "topic": topic, "folder": plan.folder, **counts}


def _start(spark: SparkSession, job: JobOptions, plan: FollowPlan) -> StreamingQuery:
    spark.dataSource.register(HourhandEventsSource)
    if _STATE_PROVIDER not in job.conf:
        # State is on disk: an hour of a busy installation is more than memory should hold.
        spark.conf.set(_STATE_PROVIDER, _ROCKS)
    options = job.source._replace(rows_per_batch=plan.batch_rows).as_mapping()
    records = spark.readStream.format(EVENTS_FORMAT).options(**options).load()
    events = without_repeats(events_of(records), f"{plan.repeats_within_ms} milliseconds")
    writer = (
        events.coalesce(plan.files)
        .writeStream.format("parquet")
        .partitionBy("date")
        .outputMode("append")
        .option("path", plan.folder)
        # Spark and other readers ignore a folder that begins with an underscore.
        .option("checkpointLocation", f"{plan.folder.rstrip('/')}/_checkpoint")
    )
    if plan.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{plan.every_ms} milliseconds").start()


def _watch(query: StreamingQuery, say: Callable[[str], None]) -> Summary:
    counts = {"batches": 0, "rows": 0, "repeats": 0}
    seen = -1
    try:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_LOOK_S))
            for progress in query.recentProgress:
                if progress["batchId"] > seen:
                    seen = progress["batchId"]
                    _count(progress, counts, say)
    except KeyboardInterrupt:
        say("stopping; the next run finishes the rest")
    except (StreamingQueryException, AnalysisException) as error:
        raise_readable(error)
    finally:
        query.stop()
    return {**counts, "kept": counts["rows"] - counts["repeats"]}


def _count(progress: Any, counts: dict[str, int], say: Callable[[str], None]) -> None:
    rows = progress["numInputRows"]
    if not rows:
        return
    operators = progress["stateOperators"]
    repeats = sum(each["customMetrics"].get("numDroppedDuplicateRows", 0) for each in operators)
    counts["batches"] += 1
    counts["rows"] += rows
    counts["repeats"] += repeats
    say(f"batch {progress['batchId']}: {rows} events, {repeats} repeats")


class HourhandEventsSource(DataSource):
    """Records of ``events.topic``, from the earliest one."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.readStream.format``."""
        return EVENTS_FORMAT

    def schema(self) -> StructType:
        """Return the columns: the record's place, the time of reading, and its JSON."""
        return _SCHEMA

    def streamReader(self, schema: StructType) -> "EventsReader":  # noqa: N802 - Spark's name
        """Return the reader; a schema of the caller's is refused."""
        if schema.names != _SCHEMA.names:
            raise SettingsInvalid("the stream of events has its own schema: leave yours out")
        return EventsReader(self._options)


class EventsPartition(InputPartition):
    """The records that one Spark task reads."""

    def __init__(self, partition: int, start: int, end: int, read_ms: int) -> None:
        super().__init__((partition, start, end, read_ms))


class EventsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader: offsets on the driver, records in the workers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Mapping[int, int] | None = None
        self._opened: TopicReader | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of the earliest record."""
        first = {partition: first for partition, (first, _) in self._bounds().items()}
        return _offset(first, wiring.open_clock().now_ms())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the size limit of a batch."""
        most = self._options.rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the end of the next batch; ``start`` itself if there is nothing to read."""
        begun = _next_of(start)
        ends = {}
        for partition, (first, end) in self._bounds().items():
            next_offset = begun.get(partition, first)
            if not first <= next_offset <= end:
                raise LogUnavailable(_gap(self._options, partition, next_offset, first, end))
            wanted = end if self._target is None else self._target.get(partition, next_offset)
            ends[partition] = max(next_offset, min(end, wanted))
            begun[partition] = next_offset
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = shared_out(begun, ends, most)
        if ends == begun:
            return start
        return _offset(ends, max(start["read_ms"], wiring.open_clock().now_ms()))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at the current end of the topic."""
        self._target = {partition: end for partition, (_, end) in self._bounds().items()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return a part for each partition of the topic that has records in the batch."""
        begun = _next_of(start)
        return [
            EventsPartition(partition, begun.get(partition, 0), until, end["read_ms"])
            for partition, until in _next_of(end).items()
            if until > begun.get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one part."""
        number, start, end, read_ms = partition.value
        with closing(_open(self._options)) as reader:
            for records in reader.read(number, start, end):
                texts = [(each.value or b"").decode("utf-8", "replace") for each in records]
                columns = [
                    pa.array([number] * len(records), pa.int32()),
                    pa.array([each.offset for each in records], pa.int64()),
                    pa.array([read_ms * 1000] * len(records), pa.int64()).cast(_ARROW[2].type),
                    pa.array(texts, pa.string()),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)

    def stop(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()

    def _bounds(self) -> Mapping[int, tuple[int, int]]:
        if self._opened is None:
            self._opened = _open(self._options)
        return self._opened.bounds()


def shared_out(
    begun: Mapping[int, int], ends: Mapping[int, int], most: int | None
) -> dict[int, int]:
    """Return ends for about ``most`` records: of each partition its share, at least one."""
    waiting = {partition: ends[partition] - begun[partition] for partition in ends}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(ends)
    return {
        partition: begun[partition] + min(count, max(1, count * most // total))
        for partition, count in waiting.items()
    }


def events_topic(options: Options) -> str:
    """Return the topic in the settings; raises SettingsInvalid if they name none."""
    topic = options.settings().events.topic
    if topic is None:
        raise SettingsInvalid(
            "events.topic names no topic: nodes tell nobody what happens to tasks. Name one in the"
            " settings of nodes and bulk loads, run hourhand migrate, and name it here"
        )
    return topic


def _open(options: Options) -> TopicReader:
    return wiring.open_topic_reader(options.settings(), events_topic(options))


def _offset(next_offsets: Mapping[int, int], read_ms: int) -> Offset:
    return {"next": {str(p): next_offsets[p] for p in sorted(next_offsets)}, "read_ms": read_ms}


def _next_of(offset: Offset) -> dict[int, int]:
    return {int(partition): int(value) for partition, value in offset["next"].items()}


def _gap(options: Options, partition: int, next_offset: int, first: int, end: int) -> str:
    topic = events_topic(options)
    if next_offset < first:
        return (
            f"events {next_offset} to {first - 1} of {topic!r}, partition {partition}, expired"
            " before they were followed: raise the topic's retention, and follow into another"
            " folder, which begins with what is there"
        )
    return (
        f"{topic!r}, partition {partition}, ends at {end}, but {next_offset} is to be read next:"
        " the topic was recreated; follow it into another folder"
    )
