"""``hourhand pipeline audit``: joins the stored tables and reports contradictions.

Decides the order of reading (watermarks first, so that a running system is not accused of its own
progress) and the number of examples. Each kind of finding is one pure function of the rows alone,
so it shares no code with their writers, and returns the columns of ``FINDING``; rows that began
after ``settled_ms`` are left out where a table may have been read too early.
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.job import (
    EXAMPLES_MAX,
    JobOptions,
    Summary,
    partition_count,
    read_table,
    spark_job,
)
from hourhand.scheduler.pipeline.reading import read_claims
from hourhand.scheduler.pipeline.transform_load import with_partition

KEY = ("partition", "scheduled_time", "ordering_id", "uniqueness_key")
FINDING = ("kind", *KEY, "detail")
KINDS = {
    "lost": "attempts were made, and neither the task nor its completion is stored",
    "missing": "the list of expected tasks has it, and neither task nor completion is stored",
    "overdue": "open, due for longer than allowed, and not worked on",
    "ran_after_completion": "an attempt began after the key was done",
    "overlapping": "an attempt began while another of its ordering id ran",
    "early": "an attempt began before the task was due",
    "blocked": "attempts are used up; the ordering id waits for an operator",
    "watermark_ahead": "open before the watermark and no straggler: no restart would load it",
}
"""The kinds of findings."""

_DONE = ("success", "failure", "dropped")


@dataclass(frozen=True, slots=True)
class Tables:
    """The stored tables, as the data source returns them; ``watermarks`` has the columns of
    ``WATERMARKS``.
    """

    tasks: DataFrame
    statuses: DataFrame
    attempts: DataFrame
    watermarks: DataFrame


WATERMARKS = "partition int, watermark timestamp, stragglers array<string>"
"""Each partition's watermark, read before the tables, and the ordering ids that it has passed."""


def findings(tables: Tables, settled_ms: int) -> DataFrame:
    """Return all findings."""
    settled = f.timestamp_millis(f.lit(settled_ms))
    opened = open_tasks(tables)
    runs = attempt_runs(tables)
    found = [
        lost(tables, settled),
        overdue(opened, settled),
        ran_after_completion(tables),
        overlapping(runs),
        early(runs),
        blocked(opened),
        watermark_ahead(opened, tables.watermarks),
    ]
    union = found[0]
    for each in found[1:]:
        union = union.unionByName(each)
    return union


def open_tasks(tables: Tables) -> DataFrame:
    """Return rows without a completion, with their last attempt since they were opened."""
    closing = tables.statuses.select(
        *KEY,
        "result",
        f.col("log_offset").alias("closed_offset"),
        "for_good",
        f.col("finished").alias("closed_at"),
    )
    joined = tables.tasks.select(*KEY, "log_offset").join(closing, list(KEY), "left")
    result = f.col("result")
    closed = f.coalesce(
        result.isin(*_DONE)
        | f.col("for_good")
        | ((result != "reopened") & (f.col("log_offset") <= f.col("closed_offset"))),
        f.expr("false"),
    )
    last = tables.attempts.groupBy(*KEY).agg(
        f.max_by(
            f.struct("attempt", f.col("result").alias("outcome"), "started", "next_attempt"),
            "attempt",
        ).alias("last")
    )
    reopened = f.when(result == "reopened", f.col("closed_at"))
    counts = reopened.isNull() | (f.col("last.started") > reopened)
    return (
        joined.where(~closed)
        .join(last, list(KEY), "left")
        .withColumn("last", f.when(counts, f.col("last")))
    )


def attempt_runs(tables: Tables) -> DataFrame:
    """Return every attempt that is known to have started, once, with its end if that is known."""
    closing = tables.statuses.where(f.col("started").isNotNull()).select(
        *KEY,
        f.col("attempts").alias("attempt"),
        "started",
        "finished",
    )
    recorded = tables.attempts.select(*KEY, "attempt", "started", "finished")
    return (
        recorded.unionByName(closing)
        .groupBy(*KEY, "attempt")
        .agg(f.min("started").alias("started"), f.max("finished").alias("finished"))
    )


def lost(tables: Tables, settled: Column) -> DataFrame:
    """Return keys with attempts that are stored nowhere."""
    tried = (
        tables.attempts.where(f.col("started") < settled)
        .groupBy(*KEY)
        .agg(f.max("started").alias("at"))
    )
    known = tables.tasks.select(*KEY).unionByName(tables.statuses.select(*KEY)).distinct()
    gone = tried.join(known, list(KEY), "left_anti")
    return _found(gone, "lost", f.concat(f.lit("attempted at "), f.col("at").cast("string")))


def missing(tables: Tables, expected: DataFrame) -> DataFrame:
    """Return keys of ``expected`` (columns of ``KEY``) that are stored nowhere."""
    known = tables.tasks.select(*KEY).unionByName(tables.statuses.select(*KEY)).distinct()
    gone = expected.select(*KEY).distinct().join(known, list(KEY), "left_anti")
    return _found(gone, "missing", f.lit("expected, and not stored"))


def overdue(opened: DataFrame, settled: Column) -> DataFrame:
    """Return open tasks that are due and not worked on."""
    due = f.greatest("scheduled_time", f.col("last.next_attempt"))
    idle = f.col("last").isNull() | f.col("last.next_attempt").isNotNull()
    return _found(
        opened.where(idle & (due < settled)),
        "overdue",
        f.concat(f.lit("due since "), due.cast("string")),
    )


def ran_after_completion(tables: Tables) -> DataFrame:
    """Return attempts that began after their key was done."""
    done = tables.statuses.where(f.col("result").isin(*_DONE)).select(
        *KEY, f.col("finished").alias("done_at")
    )
    tried = tables.attempts.select(*KEY, "attempt", "started")
    late = tried.join(done, list(KEY)).where(f.col("started") > f.col("done_at"))
    return _found(
        late,
        "ran_after_completion",
        f.concat(
            f.format_string("attempt %d began after the key was done at ", "attempt"),
            f.col("done_at").cast("string"),
        ),
    )


def overlapping(runs: DataFrame) -> DataFrame:
    """Return attempts that began before an earlier one of their ordering id had ended.

    An attempt without an end died with its process, and counts as no overlap.
    """
    before = (
        Window.partitionBy("partition", "ordering_id")
        .orderBy("started", "finished", "scheduled_time", "uniqueness_key", "attempt")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    ended = f.max("finished").over(before)
    return _found(
        runs.withColumn("busy_until", ended).where(f.col("started") < f.col("busy_until")),
        "overlapping",
        f.concat(
            f.format_string("attempt %d began at ", "attempt"),
            f.col("started").cast("string"),
            f.lit(", another ran until "),
            f.col("busy_until").cast("string"),
        ),
    )


def early(runs: DataFrame) -> DataFrame:
    """Return attempts that began before their task was due."""
    return _found(
        runs.where(f.col("started") < f.col("scheduled_time")),
        "early",
        f.concat(
            f.format_string("attempt %d began at ", "attempt"), f.col("started").cast("string")
        ),
    )


def blocked(opened: DataFrame) -> DataFrame:
    """Return open tasks whose last attempt ended without a next one."""
    over = f.col("last.next_attempt").isNull() & (f.col("last.outcome") != "started")
    return _found(
        opened.where(over),
        "blocked",
        f.format_string("attempt %d was the last one", "last.attempt"),
    )


def watermark_ahead(opened: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Return open tasks that no owner would load again."""
    passed = opened.join(f.broadcast(watermarks), "partition").where(
        (f.col("scheduled_time") < f.col("watermark"))
        & ~f.array_contains("stragglers", f.col("ordering_id"))
    )
    return _found(
        passed,
        "watermark_ahead",
        f.concat(f.lit("the watermark is at "), f.col("watermark").cast("string")),
    )


def examples_of(found: DataFrame, count: int) -> DataFrame:
    """Return the first findings of each kind, in key order."""
    of_kind = Window.partitionBy("kind").orderBy("scheduled_time", "ordering_id", "uniqueness_key")
    numbered = found.withColumn("number", f.row_number().over(of_kind))
    return numbered.where(f.col("number") <= count).drop("number").orderBy("kind", "scheduled_time")


def _found(rows: DataFrame, kind: str, detail: Column) -> DataFrame:
    return rows.select(f.lit(kind).alias("kind"), *KEY, detail.alias("detail"))


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The range and the options of an audit."""

    from_ms: int | None = None
    to_ms: int | None = None
    """Scheduled times in [from, to); by default all that are stored."""
    tolerance_ms: int = 300_000
    """Time after which a task is overdue, or lost."""
    expected: str | None = None
    """Parquet of tasks that must be stored, in the columns of ``export`` and ``load``."""
    findings: str | None = None
    """Folder for all findings, as Parquet."""


def run_audit(job: JobOptions, plan: AuditPlan) -> Summary:
    """Audit an installation; ``summary["found"]`` counts by kind, and is empty when all is well."""
    now_ms = wiring.open_clock().now_ms()
    with spark_job("audit", job) as spark:
        watermarks = _watermarks(spark, job)
        # Persisted on disk and read once: each kind of finding uses most of them.
        tasks, statuses, attempts = (
            _within(read_table(spark, job, name, *KEY, *columns), plan)
            .select(*KEY, *columns)
            .persist(StorageLevel.DISK_ONLY)
            for name, columns in _TABLES.items()
        )
        tables = Tables(tasks, statuses, attempts, watermarks)
        found = findings(tables, now_ms - plan.tolerance_ms)
        if plan.expected is not None:
            found = found.unionByName(missing(tables, _expected(spark, job, plan.expected)))
        found = found.persist(StorageLevel.DISK_ONLY)
        counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        examples = examples_of(found, EXAMPLES_MAX).collect() if counts else []
        if plan.findings is not None and not job.dry_run:
            found.write.mode("overwrite").parquet(plan.findings)
        checked = tables.tasks.count()
        for each in (found, tasks, statuses, attempts):
            each.unpersist()
    return {
        "job": "audit",
        "tasks": checked,
        "found": {kind: counts[kind] for kind in KINDS if kind in counts},
        "meaning": {kind: KINDS[kind] for kind in counts},
        "examples": [_shown(row.asDict()) for row in examples],
    }


_TABLES = {
    "tasks": ("log_offset",),
    "statuses": ("result", "log_offset", "attempts", "started", "finished", "for_good"),
    "attempts": ("attempt", "result", "started", "finished", "next_attempt"),
}
"""Columns that are read of each table, besides the key."""


def _within(table: DataFrame, plan: AuditPlan) -> DataFrame:
    time = f.col("scheduled_time")
    if plan.from_ms is not None:
        table = table.where(time >= from_millis(plan.from_ms))
    if plan.to_ms is not None:
        table = table.where(time < from_millis(plan.to_ms))
    return table


def _watermarks(spark: SparkSession, job: JobOptions) -> DataFrame:
    """Return one row for each partition that ever had an owner: at most a few hundred."""
    claims = read_claims(job.source.settings(), range(partition_count(job)))
    rows = [
        (
            partition,
            from_millis(claim.watermark.watermark_ms),
            [each.ordering_id for each in claim.watermark.stragglers],
        )
        for partition, claim in claims.items()
        if claim is not None
    ]
    return spark.createDataFrame(rows, WATERMARKS)


def _expected(spark: SparkSession, job: JobOptions, path: str) -> DataFrame:
    rows = spark.read.parquet(path)
    lacking = [name for name in KEY if name not in (*rows.columns, "partition")]
    if lacking:
        raise InvalidInput(
            f"{path} has no column {', '.join(lacking)}: tasks are expected, as an archive or"
            " an export holds them"
        )
    return with_partition(rows, partition_count(job))


def _shown(row: dict[str, object]) -> dict[str, object]:
    return {name: str(row[name]) for name in FINDING}
