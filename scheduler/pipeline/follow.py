"""``hourhand pipeline follow``: lifecycle events into a Parquet table by date, as they are told.

Decides when a batch is written and what is said of it.  Offsets, and which files belong to the
table, are kept by Spark beside each other; so a run that was killed, wherever, is gone on with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scheduler import wiring
from scheduler.pipeline.job import JobOptions, Summary, raise_readable, spark_job
from scheduler.pipeline.stream import EVENTS_FORMAT, HourhandEventsSource, events_topic
from scheduler.pipeline.transform_follow import events_of, without_repeats

_LOOK_S = 1
_STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class FollowPlan:
    """Where to, how often, and what counts as a repeat."""

    folder: str
    once: bool = False
    """End where the topic ended at the beginning."""
    every_ms: int = 10_000
    repeats_within_ms: int = 3_600_000
    """A second telling of an event is recognised so long after the first was read."""
    batch_rows: int = 1_000_000
    files: int = 2
    """Files that a batch writes for each date, at most."""


def run_follow(
    job: JobOptions, plan: FollowPlan, started: Callable[[StreamingQuery], None] | None = None
) -> Summary:
    """Follow until stopped, or once; the summary counts what this run read and kept."""
    topic = events_topic(job.source)
    # Missing, it is told before Spark starts, and as an error of its own.
    reader = wiring.open_topic_reader(job.source.settings(), topic)
    try:
        reader.bounds()
    finally:
        reader.close()
    with spark_job("follow", job) as spark:
        query = _start(spark, job, plan)
        if started is not None:
            started(query)
        counts = _watch(query, job.say)
    return {"job": "follow", "topic": topic, "folder": plan.folder, **counts}


def _start(spark: SparkSession, job: JobOptions, plan: FollowPlan) -> StreamingQuery:
    spark.dataSource.register(HourhandEventsSource)
    if _STATE_PROVIDER not in job.conf:
        # On disk: an hour of a busy installation is more than memory should hold.
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
        # A folder that begins so is no part of the table to Spark and others that read it.
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
        say("stopping; what is unfinished is done by the next run")
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
    say(f"batch {progress['batchId']}: {rows} events, {repeats} told before")
