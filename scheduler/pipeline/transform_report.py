"""What ran, how late and how well, and what is to come: pure functions over stored rows.

Decides what is counted: a task is executed when its key was closed by an attempt, late by the
time from when it was due to its first attempt.  Each result has as many rows as there are hours,
partitions, minutes ahead, or ids asked for; never as many as there are tasks.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

KEY = ("partition", "scheduled_time", "ordering_id", "uniqueness_key")
RESULTS = ("success", "failure", "dropped")
UNITS = ("minute", "hour", "day")
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 1_000


def executions(statuses: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row for each executed task: when, where, how, how late and for how long.

    ``lateness_ms`` and ``duration_ms`` are whole milliseconds, of the first and of the last
    attempt.
    """
    tried = attempts.groupBy(*KEY).agg(
        f.min("started").alias("first_started"),
        f.max_by(f.struct("started", "finished"), "attempt").alias("last"),
    )
    closed = statuses.where(f.col("result").isin(*RESULTS)).withColumnRenamed("started", "began")
    # A key that ran out of attempts was closed by no attempt: its history has them all.
    started = f.coalesce("began", "last.started")
    finished = f.when(f.col("began").isNotNull(), f.col("finished")).otherwise(
        f.col("last.finished")
    )
    return (
        closed.join(tried, list(KEY), "left")
        .where(started.isNotNull())
        .select(
            *KEY,
            f.date_trunc("hour", "scheduled_time").alias("hour"),
            "result",
            f.greatest(f.col("attempts"), f.lit(1)).alias("attempts"),
            (
                f.unix_millis(f.least(f.col("first_started"), started))
                - f.unix_millis("scheduled_time")
            ).alias("lateness_ms"),
            (f.unix_millis(finished) - f.unix_millis(started)).alias("duration_ms"),
        )
    )


def summarised(ran: DataFrame, *groups: str) -> DataFrame:
    """Return counts and percentiles of executions, by some columns or in all."""
    return ran.groupBy(*groups).agg(
        f.count("*").alias("executions"),
        *(f.count_if(f.col("result") == name).alias(name) for name in RESULTS),
        f.sum(f.col("attempts") - 1).alias("retries"),
        *_percentiles("lateness_ms"),
        f.max("lateness_ms").alias("lateness_ms_max"),
        *_percentiles("duration_ms"),
        f.max("duration_ms").alias("duration_ms_max"),
    )


def by_day(ran: DataFrame) -> DataFrame:
    """Return ``summarised`` by day in UTC."""
    return summarised(ran.withColumn("day", f.date_trunc("day", "scheduled_time")), "day")


def busiest(ran: DataFrame, count: int) -> DataFrame:
    """Return the ordering ids with the most executions."""
    return summarised(ran, "ordering_id").orderBy(f.desc("executions"), "ordering_id").limit(count)


def slowest(ran: DataFrame, count: int) -> DataFrame:
    """Return the ordering ids whose attempts take the longest, by their 95th percentile."""
    of_ids = summarised(ran, "ordering_id")
    return of_ids.orderBy(f.desc("duration_ms_p95"), "ordering_id").limit(count)


def causes(attempts: DataFrame, count: int) -> DataFrame:
    """Return the classes of errors that attempts ended in, most frequent first, with a message."""
    failed = attempts.where(f.col("result").isin("failure", "timeout"))
    return (
        failed.groupBy(f.coalesce("error_class", f.col("result")).alias("cause"))
        .agg(
            f.count("*").alias("attempts"),
            f.approx_count_distinct("ordering_id").alias("ordering_ids"),
            f.substring(f.min("error_message"), 1, 300).alias("message"),
        )
        .orderBy(f.desc("attempts"), "cause")
        .limit(count)
    )


def ahead(states: DataFrame, unit: str) -> DataFrame:
    """Return how many open tasks fall due in each minute, hour or day."""
    return (
        states.groupBy(f.date_trunc(unit, "scheduled_time").alias("due"))
        .agg(f.count("*").alias("tasks"), f.approx_count_distinct("ordering_id").alias("ids"))
        .orderBy("due")
    )


def _percentiles(name: str) -> list[Column]:
    return [
        f.percentile_approx(name, share, _ACCURACY).alias(f"{name}_{short}")
        for short, share in _PERCENTILES.items()
    ]
