"""``hourhand pipeline report``: what a period brought and what is to come, as files to look at.

Decides which tables make up a report, and what is counted: a task is executed when its key was
closed by an attempt, late by the time from when it was due to its first attempt.  Each table has
as many rows as there are hours, partitions, minutes ahead, or ids asked for, and never as many as
there are tasks.  It is aggregated by Spark, written as Parquet, and read back in that size for
the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from actors.model.errors import InvalidInput
from actors.model.instant import from_millis
from scheduler import wiring
from scheduler.pipeline.delta import PARQUET, check_format, finish_table, times_of
from scheduler.pipeline.job import JobOptions, Summary, read_table, spark_job
from scheduler.pipeline.report_page import render
from scheduler.pipeline.states import OPEN_STATES

TOP = 20
"""Ordering ids and causes that are listed."""
PERIOD_HOURS_MAX = 24 * 366
_AHEAD = {"minute": timedelta(hours=24), "hour": timedelta(days=30), "day": timedelta(days=366)}
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


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """Which period, and where to."""

    from_ms: int
    to_ms: int
    folder: Path
    format: str = PARQUET


def run_report(job: JobOptions, plan: ReportPlan) -> Summary:
    """Write a report into a folder: a Parquet table for each view, and ``report.html``.

    Raises InvalidInput where the period is none, or longer than a year.
    """
    if not 0 < plan.to_ms - plan.from_ms <= PERIOD_HOURS_MAX * 3_600_000:
        raise InvalidInput("the period of a report begins before it ends, a year before at most")
    check_format(plan.format)
    now_ms = wiring.open_clock().now_ms()
    with spark_job("report", job) as spark, times_of(plan.format, spark):
        views = _views(spark, job, plan, now_ms)
        total = views.pop("total").first()
        assert total is not None, "an aggregate without groups has one row"
        tables = {name: _kept(view, plan.folder / name) for name, view in views.items()}
        spark.catalog.clearCache()
        for name, rows in tables.items():
            finish_table(plan.format, str(plan.folder / name), len(rows))
    page = plan.folder / "report.html"
    period = (from_millis(plan.from_ms), from_millis(plan.to_ms))
    page.write_text(render(total.asDict(), tables, period), encoding="utf-8")
    return {
        "job": "report",
        "page": str(page),
        "tables": {name: len(rows) for name, rows in tables.items()},
        **total.asDict(),
        "ahead": sum(row["tasks"] for row in tables["ahead_by_day"]),
    }


def _views(
    spark: SparkSession, job: JobOptions, plan: ReportPlan, now_ms: int
) -> dict[str, DataFrame]:
    time = f.col("scheduled_time")
    within = (time >= from_millis(plan.from_ms)) & (time < from_millis(plan.to_ms))
    statuses = read_table(spark, job, "statuses").where(within)
    attempts = read_table(spark, job, "attempts").where(within).persist(StorageLevel.DISK_ONLY)
    ran = executions(statuses, attempts).persist(StorageLevel.DISK_ONLY)
    now = from_millis(now_ms)
    waiting = (
        read_table(spark, job, "states")
        .where(f.col("state").isin(*sorted(OPEN_STATES)))
        .where((time >= now) & (time < now + _AHEAD["day"]))
        .select("scheduled_time", "ordering_id")
        .persist(StorageLevel.DISK_ONLY)
    )
    return {
        "total": summarised(ran),
        "by_hour": summarised(ran, "hour").orderBy("hour"),
        "by_day": by_day(ran).orderBy("day"),
        "by_partition": summarised(ran, "partition").orderBy("partition"),
        "busiest": busiest(ran, TOP),
        "slowest": slowest(ran, TOP),
        "causes": causes(attempts, TOP),
        **{
            f"ahead_by_{unit}": ahead(waiting.where(time < now + reach), unit)
            for unit, reach in _AHEAD.items()
        },
    }


def _kept(view: DataFrame, folder: Path) -> list[Mapping[str, Any]]:
    """Write an aggregate and return its rows: hours, partitions or ids, never tasks."""
    rows: list[Mapping[str, Any]] = [row.asDict() for row in view.collect()]
    frame = view.sparkSession.createDataFrame([tuple(row.values()) for row in rows], view.schema)
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return rows
