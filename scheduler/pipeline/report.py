"""``hourhand pipeline report``: what a period brought and what is to come, as files to look at.

Decides which tables make up a report.  Each is aggregated by Spark, written as Parquet, and read
back in that size for the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from actors.model.errors import InvalidInput
from actors.model.instant import from_millis
from scheduler import wiring
from scheduler.pipeline import transform_report as transform
from scheduler.pipeline.job import JobOptions, Summary, read_table, spark_job
from scheduler.pipeline.report_page import render
from scheduler.pipeline.states import OPEN_STATES

TOP = 20
"""Ordering ids and causes that are listed."""
PERIOD_HOURS_MAX = 24 * 366
_AHEAD = {"minute": timedelta(hours=24), "hour": timedelta(days=30), "day": timedelta(days=366)}


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """Which period, and where to."""

    from_ms: int
    to_ms: int
    folder: Path


def run_report(job: JobOptions, plan: ReportPlan) -> Summary:
    """Write a report into a folder: a Parquet table for each view, and ``report.html``.

    Raises InvalidInput where the period is none, or longer than a year.
    """
    if not 0 < plan.to_ms - plan.from_ms <= PERIOD_HOURS_MAX * 3_600_000:
        raise InvalidInput("the period of a report begins before it ends, a year before at most")
    now_ms = wiring.open_clock().now_ms()
    with spark_job("report", job) as spark:
        views = _views(spark, job, plan, now_ms)
        total = views.pop("total").first()
        assert total is not None, "an aggregate without groups has one row"
        tables = {name: _kept(view, plan.folder / name) for name, view in views.items()}
        spark.catalog.clearCache()
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
    ran = transform.executions(statuses, attempts).persist(StorageLevel.DISK_ONLY)
    now = from_millis(now_ms)
    waiting = (
        read_table(spark, job, "states")
        .where(f.col("state").isin(*sorted(OPEN_STATES)))
        .where((time >= now) & (time < now + _AHEAD["day"]))
        .select("scheduled_time", "ordering_id")
        .persist(StorageLevel.DISK_ONLY)
    )
    return {
        "total": transform.summarised(ran),
        "by_hour": transform.summarised(ran, "hour").orderBy("hour"),
        "by_day": transform.by_day(ran).orderBy("day"),
        "by_partition": transform.summarised(ran, "partition").orderBy("partition"),
        "busiest": transform.busiest(ran, TOP),
        "slowest": transform.slowest(ran, TOP),
        "causes": transform.causes(attempts, TOP),
        **{
            f"ahead_by_{unit}": transform.ahead(waiting.where(time < now + reach), unit)
            for unit, reach in _AHEAD.items()
        },
    }


def _kept(view: DataFrame, folder: Path) -> list[Mapping[str, Any]]:
    """Write an aggregate and return its rows: hours, partitions or ids, never tasks."""
    rows: list[Mapping[str, Any]] = [row.asDict() for row in view.collect()]
    frame = view.sparkSession.createDataFrame([tuple(row.values()) for row in rows], view.schema)
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return rows
