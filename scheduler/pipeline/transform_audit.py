"""What must never be true of stored rows: one pure function for each kind of finding.

Decides from the rows alone, so it shares no code with what wrote them.  Each function returns
the columns of ``FINDING``; rows of a system that runs are read while it goes on, so what began
after ``settled_ms`` is left out where a reading could be too old to know.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

KEY = ("partition", "scheduled_time", "ordering_id", "uniqueness_key")
FINDING = ("kind", *KEY, "detail")
KINDS = {
    "lost": "attempts were made, and neither the task nor its completion is stored",
    "missing": "the list of expected tasks has it, and neither task nor completion is stored",
    "overdue": "open, due for longer than allowed, and nothing under way",
    "ran_after_completion": "an attempt began after the key was done",
    "overlapping": "an attempt began while another of its ordering id ran",
    "early": "an attempt began before the task was due",
    "blocked": "attempts are used up; the ordering id waits for an operator",
    "watermark_ahead": "open before the watermark and no straggler: no restart would load it",
}
"""What is looked for."""

_DONE = ("success", "failure", "dropped")


@dataclass(frozen=True, slots=True)
class Tables:
    """What is stored, as the data source returns it; ``watermarks`` as ``WATERMARKS`` says."""

    tasks: DataFrame
    statuses: DataFrame
    attempts: DataFrame
    watermarks: DataFrame


WATERMARKS = "partition int, watermark timestamp, stragglers array<string>"
"""Each partition's watermark, read before the tables, and the ordering ids it has passed."""


def findings(tables: Tables, settled_ms: int) -> DataFrame:
    """Return everything that is wrong."""
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
    """Return rows that no completion closes, with their last attempt since they were opened."""
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
    """Return every attempt that is known to have started, once, with its end where it is known."""
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
    """Return keys that were attempted and are stored nowhere."""
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
    """Return open tasks that nobody works on although they are due."""
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
    """Return attempts that began while an earlier one of their ordering id had not ended.

    An attempt without an end died with its process, and overlaps nothing that is known.
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
    """Return open tasks whose last attempt is over and is followed by none."""
    over = f.col("last.next_attempt").isNull() & (f.col("last.outcome") != "started")
    return _found(
        opened.where(over),
        "blocked",
        f.format_string("attempt %d was the last one", "last.attempt"),
    )


def watermark_ahead(opened: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Return open tasks that no owner will ever load again."""
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
