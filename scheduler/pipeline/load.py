"""``hourhand pipeline load``: schedules the tasks of a file, and puts other rows aside.

Decides the parsing of a file and the report; safe to run again, because writing a task twice
changes nothing.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.job import (
    EXAMPLES_MAX,
    JobOptions,
    Summary,
    only_row,
    partition_count,
    spark_job,
)
from hourhand.scheduler.pipeline.reading import read_metrics
from hourhand.scheduler.pipeline.source import FORMAT
from hourhand.scheduler.pipeline.transform_load import (
    CORRUPT,
    counts,
    judged_columns,
    judged_lines,
    without_duplicates,
)
from hourhand.scheduler.pipeline.validation import LoadRules, checked_timezone

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The file to load, and the rules."""

    path: str
    format: str | None = None
    """parquet, csv or json (an object a line); by default by the path's ending."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Name in the file, by field of a task."""
    timezone: str | None = None
    accept_past: bool = False
    rejects: str | None = None
    """Folder for rows that are not tasks; by default beside the input."""
    rows_per_second: float | None = None
    writers: int | None = None
    """Number of Spark tasks that write at a time; by default Spark's number of cores."""
    stored: bool = False
    """True if the data is the text of rows, as in archives of earlier versions."""


def run_load(job: JobOptions, plan: LoadPlan) -> Summary:
    """Load a file; the summary counts every row of it once.

    Raises InvalidInput, InvalidTask, and the errors of the stores and the log.
    """
    kind = plan.format or FORMATS.get(Path(plan.path.rstrip("/")).suffix.lower(), "")
    if kind not in FORMATS.values():
        raise InvalidInput(
            f"{plan.path!r} does not show its format: give it with --format parquet, csv or json"
        )
    rules = _rules(job, plan)
    with spark_job("load", job) as spark:
        judge = judged_lines if kind == "json" else judged_columns
        rows = spark.read.text(plan.path) if kind == "json" else _rows(spark, kind, plan.path)
        return _load(job, plan, partial(judge, rows, rules, plan.columns))


def _load(job: JobOptions, plan: LoadPlan, judged: Callable[..., DataFrame]) -> Summary:
    """Judge and write in one pass; rows that are put aside are looked up in a second one.

    Few inputs have any, and to carry each row's text along would cost as much as judging it.
    """
    spark = SparkSession.active()
    writers = plan.writers or spark.sparkContext.defaultParallelism
    checked = without_duplicates(judged(keep_rows=False).drop("row"), writers)
    summary: Summary = {"job": "load", "dryRun": job.dry_run}
    written: Summary = {}
    if job.dry_run:
        summary |= only_row(checked.agg(*counts()))
    else:
        seen = Observation()
        tasks = checked.observe(seen, *counts()).where(f.col("reason").isNull())
        written = _write(job, plan, tasks, writers)
        summary |= seen.get
    if summary["duplicates"] + summary["invalid"]:
        rejected = judged()
        if summary["duplicates"]:
            rejected = without_duplicates(rejected, writers)
        rejected = rejected.where(f.col("reason").isNotNull()).select("row", "reason")
        summary |= _put_aside(job, plan, rejected)
    return summary | written


def _put_aside(job: JobOptions, plan: LoadPlan, rejected: DataFrame) -> Summary:
    # On disk: memory would have to grow with the input.
    rejected = rejected.persist(StorageLevel.DISK_ONLY)
    summary: Summary = {}
    if not job.dry_run:
        folder = plan.rejects or f"{plan.path.rstrip('/')}.rejects"
        rejected.write.mode("overwrite").json(folder)
        summary["rejectsFolder"] = folder
    summary["rejects"] = [row.asDict() for row in rejected.limit(EXAMPLES_MAX).collect()]
    rejected.unpersist()
    return summary


def _write(job: JobOptions, plan: LoadPlan, tasks: DataFrame, writers: int) -> Summary:
    per_writer = None if plan.rows_per_second is None else plan.rows_per_second / writers
    with tempfile.TemporaryDirectory(prefix="hourhand-load-") as metrics:
        options = job.source._replace(
            table="tasks", rows_per_second=per_writer, metrics=metrics, stored=True
        ).as_mapping()
        tasks.write.format(FORMAT).mode("append").options(**options).save()
        written = read_metrics(Path(metrics))
    names = ("rows", "batched", "logged", "done")
    totals = {name: sum(each.get(name, 0) for each in written) for name in names}
    # Executors on other machines keep their counts; the requested rows are the known number then.
    return {f"{name}Written" if name == "rows" else name: totals[name] for name in names}


def _rules(job: JobOptions, plan: LoadPlan) -> LoadRules:
    settings = job.source.settings()
    now_ms = wiring.open_clock().now_ms()
    return LoadRules(
        partition_count=partition_count(job),
        oldest_ms=INSTANT_MIN_MS if plan.accept_past else now_ms - settings.client.grace_ms,
        record_bytes_max=settings.client.record_bytes_max,
        timezone=checked_timezone(plan.timezone),
        stored=plan.stored,
    )


def _rows(spark: SparkSession, kind: str, path: str) -> DataFrame:
    """Read a table; of a CSV every line, also one with too many or too few columns."""
    if kind == "parquet":
        return spark.read.parquet(path)
    columns = spark.read.csv(path, header=True).columns
    fields = [StructField(name, StringType()) for name in (*columns, CORRUPT)]
    reader = spark.read.schema(StructType(fields)).option("columnNameOfCorruptRecord", CORRUPT)
    return reader.csv(path, header=True, mode="PERMISSIVE", enforceSchema=False, escape='"')
