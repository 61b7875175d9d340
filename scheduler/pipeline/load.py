"""``hourhand pipeline load``: schedules what a file holds, and puts aside what is no task.

Decides how a file is read and what is reported; safe to run again, as writing a task twice
changes nothing.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from actors.model.errors import InvalidInput
from actors.model.instant import INSTANT_MIN_MS
from scheduler import wiring
from scheduler.pipeline.job import EXAMPLES_MAX, JobOptions, Summary, partition_count, spark_job
from scheduler.pipeline.judging import Rules, checked_timezone
from scheduler.pipeline.reading import read_metrics
from scheduler.pipeline.source import FORMAT
from scheduler.pipeline.transform_load import (
    CORRUPT,
    counted,
    judged_columns,
    judged_lines,
    without_duplicates,
)

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to load, and by which rules."""

    path: str
    format: str | None = None
    """parquet, csv or json (an object a line); by the path's ending where it is not named."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field of a task to the name it has in the file."""
    timezone: str | None = None
    accept_past: bool = False
    rejects: str | None = None
    """Folder for what is no task; beside the input where it is not named."""
    rows_per_second: float | None = None
    writers: int | None = None
    """Spark tasks that write at a time; as many as Spark has cores."""


def run_load(job: JobOptions, plan: LoadPlan) -> Summary:
    """Load a file; the summary counts every row of it once.

    Raises InvalidInput, InvalidTask, and what the stores and the log raise.
    """
    kind = plan.format or FORMATS.get(Path(plan.path.rstrip("/")).suffix.lower(), "")
    if kind not in FORMATS.values():
        raise InvalidInput(
            f"{plan.path!r} does not tell what it holds: say so with --format parquet, csv or json"
        )
    rules = _rules(job, plan)
    with spark_job("load", job) as spark:
        judged = (
            judged_lines(spark.read.text(plan.path), rules, plan.columns)
            if kind == "json"
            else judged_columns(_rows(spark, kind, plan.path), rules, plan.columns)
        )
        return _load(spark, job, plan, judged)


def _load(spark: SparkSession, job: JobOptions, plan: LoadPlan, judged: DataFrame) -> Summary:
    writers = plan.writers or spark.sparkContext.defaultParallelism
    # On disk: judging twice would cost more, and memory would have to grow with the input.
    judged = judged.persist(StorageLevel.DISK_ONLY)
    checked = without_duplicates(judged, writers).persist(StorageLevel.DISK_ONLY)
    reason = f.col("reason")
    rejected = judged.where(reason.isNotNull()).unionByName(checked.where(reason.isNotNull()))
    tasks = checked.where(reason.isNull())
    counts = counted(checked.unionByName(judged.where(reason.isNotNull()))).first()
    assert counts is not None, "an aggregate without groups has one row"
    summary: Summary = {"job": "load", "dryRun": job.dry_run, **counts.asDict()}
    if summary["duplicates"] + summary["invalid"]:
        examples = rejected.select("row", "reason").limit(EXAMPLES_MAX).collect()
        summary["rejects"] = [row.asDict() for row in examples]
        if not job.dry_run:
            folder = plan.rejects or f"{plan.path.rstrip('/')}.rejects"
            rejected.select("row", "reason").write.mode("overwrite").json(folder)
            summary["rejectsFolder"] = folder
    if not job.dry_run and summary["tasks"]:
        summary |= _write(job, plan, tasks, writers)
    checked.unpersist()
    judged.unpersist()
    return summary


def _write(job: JobOptions, plan: LoadPlan, tasks: DataFrame, writers: int) -> Summary:
    per_writer = None if plan.rows_per_second is None else plan.rows_per_second / writers
    with tempfile.TemporaryDirectory(prefix="hourhand-load-") as metrics:
        options = job.source._replace(
            table="tasks", rows_per_second=per_writer, metrics=metrics
        ).as_mapping()
        tasks.write.format(FORMAT).mode("append").options(**options).save()
        written = read_metrics(Path(metrics))
    names = ("rows", "batched", "logged", "done")
    totals = {name: sum(each.get(name, 0) for each in written) for name in names}
    # Executors elsewhere keep their notes; what was asked for is then what is known.
    return {f"{name}Written" if name == "rows" else name: totals[name] for name in names}


def _rules(job: JobOptions, plan: LoadPlan) -> Rules:
    settings = job.source.settings()
    now_ms = wiring.open_clock().now_ms()
    return Rules(
        partition_count=partition_count(job),
        oldest_ms=INSTANT_MIN_MS if plan.accept_past else now_ms - settings.client.grace_ms,
        record_bytes_max=settings.client.record_bytes_max,
        timezone=checked_timezone(plan.timezone),
    )


def _rows(spark: SparkSession, kind: str, path: str) -> DataFrame:
    """Read a table; every line of a CSV, also one that has too many or too few columns."""
    if kind == "parquet":
        return spark.read.parquet(path)
    columns = spark.read.csv(path, header=True).columns
    fields = [StructField(name, StringType()) for name in (*columns, CORRUPT)]
    reader = spark.read.schema(StructType(fields)).option("columnNameOfCorruptRecord", CORRUPT)
    return reader.csv(path, header=True, mode="PERMISSIVE", enforceSchema=False, escape='"')
