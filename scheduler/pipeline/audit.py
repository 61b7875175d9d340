"""``hourhand pipeline audit``: joins what is stored and tells what must not be.

Decides the order of reading (watermarks first, so that a system at work is not accused of its
own progress) and how much of what was found is shown.
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from actors.model.errors import InvalidInput, StoreUnavailable
from actors.model.instant import from_millis
from scheduler import wiring
from scheduler.pipeline.job import (
    EXAMPLES_MAX,
    JobOptions,
    Summary,
    partition_count,
    read_table,
    spark_job,
)
from scheduler.pipeline.transform_audit import (
    FINDING,
    KEY,
    KINDS,
    WATERMARKS,
    Tables,
    examples_of,
    findings,
    missing,
)
from scheduler.pipeline.transform_load import with_partition

_READ_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What to look at."""

    from_ms: int | None = None
    to_ms: int | None = None
    """Scheduled times in [from, to); everything that is stored by default."""
    tolerance_ms: int = 300_000
    """A task is overdue, or lost, only after so long."""
    expected: str | None = None
    """Parquet of tasks that must be stored, as ``export`` and ``load`` take them."""
    findings: str | None = None
    """Folder that all findings are written to, as Parquet."""


def run_audit(job: JobOptions, plan: AuditPlan) -> Summary:
    """Audit an installation; ``summary["found"]`` counts by kind, and is empty when all is well."""
    now_ms = wiring.open_clock().now_ms()
    with spark_job("audit", job) as spark:
        watermarks = _watermarks(spark, job)
        # On disk, and read once: each kind of finding looks at most of them.
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
"""What is looked at of each table, besides the key."""


def _within(table: DataFrame, plan: AuditPlan) -> DataFrame:
    time = f.col("scheduled_time")
    if plan.from_ms is not None:
        table = table.where(time >= from_millis(plan.from_ms))
    if plan.to_ms is not None:
        table = table.where(time < from_millis(plan.to_ms))
    return table


def _watermarks(spark: SparkSession, job: JobOptions) -> DataFrame:
    """Return one row for each partition that ever had an owner: a few hundred at most."""
    count = partition_count(job)
    stores = wiring.open_stores(job.source.settings())
    try:
        asked = [stores.ownership.read_watermark(each) for each in range(count)]
        claims = [reading.result(_READ_TIMEOUT_S) for reading in asked]
    except TimeoutError:
        raise StoreUnavailable("the store gave no watermark in time; run it again") from None
    finally:
        stores.close()
    rows = [
        (
            partition,
            from_millis(claim.watermark.watermark_ms),
            [each.ordering_id for each in claim.watermark.stragglers],
        )
        for partition, claim in enumerate(claims)
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
