"""The pure functions of load, report and audit, on frames that fit on a page."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.scheduler.pipeline.audit import (
    KINDS,
    WATERMARKS,
    Tables,
    examples_of,
    findings,
    missing,
)
from hourhand.scheduler.pipeline.columns import schema_of
from hourhand.scheduler.pipeline.report import ahead, busiest, causes, executions, summarised
from hourhand.scheduler.pipeline.transform_load import (
    DUPLICATE,
    counts,
    judged_columns,
    without_duplicates,
)
from hourhand.scheduler.pipeline.validation import LoadRules

pytestmark = pytest.mark.integration

NOON = datetime(2026, 2, 9, 12, tzinfo=UTC)
RULES = LoadRules(partition_count=4, oldest_ms=INSTANT_MIN_MS, record_bytes_max=1_000)
SETTLED_MS = 1_770_638_400_000
"""Noon."""


def later(seconds: float) -> datetime:
    """Return a moment after noon."""
    return NOON + timedelta(seconds=seconds)


def frame(spark: SparkSession, table: str, *rows: dict[str, Any]) -> DataFrame:
    """Return a table of rows; what a row does not tell is what most rows have."""
    usual = {
        "partition": 0,
        "hour": NOON,
        "scheduled_time": NOON,
        "uniqueness_key": "x",
        "data": "{}",
        "log_offset": 1,
        "write_time": 1,
        "attempts": 1,
        "for_good": False,
        "used": 1,
        "suspect": False,
        "fence": 1,
    }
    schema = schema_of(table)
    filled = [[{**usual, **row}.get(name) for name in schema.names] for row in rows]
    return spark.createDataFrame(filled, schema)


def closed(ordering_id: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    """Return a completion of an attempt that ran so many seconds after noon."""
    times = {"started": later(start), "finished": later(end)}
    return {"ordering_id": ordering_id, "result": "success", **times, **more}


def tried(ordering_id: str, attempt: int, start: float, end: float | None, **more: Any) -> Any:
    """Return an attempt that failed so many seconds after noon."""
    times = {"started": later(start), "finished": None if end is None else later(end)}
    return {"ordering_id": ordering_id, "attempt": attempt, "result": "failure", **times, **more}


def test_rows_become_tasks_or_reasons(spark: SparkSession) -> None:
    """Every row comes out once; of two with one key the first by its data is the task."""
    at = "2026-02-09T12:00:00Z"
    rows = spark.createDataFrame(
        [(at, "a", 1, 5), (at, "a", 1, 4), ("noon", "a", 2, 0), (at, "b", 3, 0)],
        "due string, customer string, uniqueness_key int, amount int",
    )
    names = {"scheduled_time": "due", "ordering_id": "customer"}

    judged = judged_columns(rows, RULES, names).cache()
    checked = without_duplicates(judged, 2).cache()

    tasks = {row.ordering_id: row for row in checked.where("reason IS NULL").collect()}
    assert tasks["a"].data == '{"amount":4}'
    assert tasks["b"].partition == partition_of("b", 4)
    assert tasks["b"].scheduled_time == tasks["b"].hour
    (repeated,) = checked.where(f.col("reason") == DUPLICATE).collect()
    assert '"amount":5' in repeated.row
    assert checked.agg(*counts()).first() == Row(rows=4, tasks=2, duplicates=1, invalid=1)


def test_a_column_names_the_kind_of_each_row(spark: SparkSession) -> None:
    """By the usual name or another; it is not among the columns that become the data."""
    at = "2026-02-09T12:00:00Z"
    rows = [(at, "a", 1, 5, "mail"), (at, "a", 2, 6, None), (at, "a", 3, 7, "no kind")]
    columns = "scheduled_time string, ordering_id string, uniqueness_key int, amount int"
    usual = spark.createDataFrame(rows, f"{columns}, kind string")
    renamed = usual.withColumnRenamed("kind", "executor")

    for judged in (
        judged_columns(usual, RULES, {}),
        judged_columns(renamed, RULES, {"kind": "executor"}),
    ):
        mail, plain, refused = judged.orderBy("row").collect()
        assert mail.data == '{"amount":5,"hourhand.kind":"mail"}'
        assert plain.data == '{"amount":6}'
        assert "'no kind' is not a kind" in refused.reason


@pytest.mark.parametrize("kind", ["int", "bigint", "string"])
def test_a_column_names_the_priority_of_each_row(spark: SparkSession, kind: str) -> None:
    """As a number or as text; a file without it is as before."""
    at = "2026-02-09T12:00:00Z"
    rows = [(at, "a", 1, 5, 9), (at, "a", 2, 6, None), (at, "a", 3, 7, 500)]
    columns = "scheduled_time string, ordering_id string, uniqueness_key int, amount int"
    usual = spark.createDataFrame(rows, f"{columns}, priority int").withColumn(
        "priority", f.col("priority").cast(kind)
    )

    urgent, plain, refused = judged_columns(usual, RULES, {}).orderBy("row").collect()
    (without, *_) = judged_columns(usual.drop("priority"), RULES, {}).orderBy("row").collect()

    assert urgent.data == '{"amount":5,"hourhand.priority":9}'
    assert plain.data == '{"amount":6}'
    assert "is not a priority" in refused.reason
    assert without.data == '{"amount":5}'


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("ordering_id string, uniqueness_key string", "column scheduled_time or scheduledTime is"),
        (
            "scheduled_time double, ordering_id string, uniqueness_key string",
            "column scheduled_time is double, which cannot be scheduled_time: a timestamp, text",
        ),
        (
            "scheduled_time string, ordering_id array<int>, uniqueness_key string",
            "column ordering_id is array<int>, which cannot be ordering_id",
        ),
        (
            "scheduled_time string, ordering_id string, uniqueness_key string, kind int",
            "column kind is int, which cannot be kind: text is needed",
        ),
        (
            "scheduled_time string, ordering_id string, uniqueness_key string, priority double",
            "column priority is double, which cannot be priority: a whole number or text",
        ),
    ],
)
def test_a_table_without_the_columns_is_refused_as_a_whole(
    spark: SparkSession, schema: str, complaint: str
) -> None:
    """Before a row of it is read."""
    with pytest.raises(InvalidTask, match=complaint):
        judged_columns(spark.createDataFrame([], schema), RULES, {})


Rows = list[dict[str, Any]]
BEFORE, SOON = later(-7_200), later(30)


def sound_rows() -> tuple[Rows, Rows, Rows]:
    """Return tasks, statuses and attempts in which all is well."""
    tasks: Rows = [
        {"ordering_id": "done"},
        {"ordering_id": "waits", "scheduled_time": later(60)},
        {"ordering_id": "retries"},
        {"ordering_id": "straggler", "scheduled_time": BEFORE},
        {"ordering_id": "opened"},
    ]
    statuses = [
        closed("done", 5, 6, attempts=2),
        closed("swept", 0, 1),
        closed("opened", 0, 1, result="reopened"),
    ]
    attempts = [
        tried("done", 1, 0, 1),
        tried("retries", 1, 0, 1, next_attempt=SOON),
        tried("straggler", 1, -7_000, -6_999, next_attempt=SOON, scheduled_time=BEFORE),
        tried("opened", 2, 2, None, result="started"),
    ]
    return tasks, statuses, attempts


def planted_rows() -> tuple[Rows, Rows, Rows]:
    """Return rows that make one fault of each kind; the ordering id tells which."""
    tasks: Rows = [
        {"ordering_id": "overdue", "scheduled_time": later(-600)},
        {"ordering_id": "blocked"},
        {"ordering_id": "passed", "scheduled_time": BEFORE},
        {"ordering_id": "busy", "uniqueness_key": "other"},
    ]
    statuses = [closed("twice", 5, 6), closed("early", -1, 1), closed("busy", 5, 6)]
    attempts = [
        tried("lost", 1, -600, -599, scheduled_time=BEFORE),
        tried("twice", 1, 7, 8),
        tried("busy", 1, 0, 5.5, uniqueness_key="other"),
        tried("busy", 2, 20, 21, uniqueness_key="other", next_attempt=SOON),
        tried("blocked", 101, 0, 1),
        tried("passed", 1, -7_000, -6_999, next_attempt=SOON, scheduled_time=BEFORE),
    ]
    return tasks, statuses, attempts


def an_installation(spark: SparkSession, *rows: tuple[Rows, Rows, Rows]) -> Tables:
    """Return the tables that hold all these rows."""
    tasks, statuses, attempts = (
        frame(spark, name, *(row for each in rows for row in each[place]))
        for place, name in enumerate(("tasks", "statuses", "attempts"))
    )
    watermarks = spark.createDataFrame([(0, later(-3_600), ["straggler"])], WATERMARKS)
    return Tables(tasks, statuses, attempts, watermarks)


def test_a_sound_installation_has_no_findings(spark: SparkSession) -> None:
    """Done, waiting, retrying, held up, reopened, swept: none of them is a fault."""
    tables = an_installation(spark, sound_rows())

    assert findings(tables, SETTLED_MS).collect() == []


def test_each_kind_of_fault_is_found_when_it_is_planted(spark: SparkSession) -> None:
    """And nothing but what was planted."""
    tables = an_installation(spark, sound_rows(), planted_rows())
    expected = spark.createDataFrame(
        [(0, later(1), "never-stored", "x"), (0, NOON, "done", "x")],
        "partition int, scheduled_time timestamp, ordering_id string, uniqueness_key string",
    )

    found = findings(tables, SETTLED_MS).unionByName(missing(tables, expected))

    planted = {(row.kind, row.ordering_id) for row in found.collect()}
    assert planted == {
        ("lost", "lost"),
        ("missing", "never-stored"),
        ("overdue", "overdue"),
        ("ran_after_completion", "twice"),
        ("overlapping", "busy"),
        ("early", "early"),
        ("blocked", "blocked"),
        ("watermark_ahead", "passed"),
    }
    assert {kind for kind, _ in planted} == set(KINDS)
    assert examples_of(found, 1).count() == len(KINDS)


def test_executions_are_counted_by_their_first_and_last_attempt(spark: SparkSession) -> None:
    """Late by the first attempt, long by the last; what no attempt closed is none."""
    statuses = frame(
        spark,
        "statuses",
        closed("a", 10, 12, attempts=2),
        closed("a", 0.5, 0.6, uniqueness_key="y"),
        closed("b", 0, 2, result="failure", attempts=101, started=None),
        {"ordering_id": "c", "result": "cancelled", "finished": NOON, "attempts": 0},
    )
    attempts = frame(
        spark,
        "attempts",
        tried("a", 1, 0.25, 1, error_class="ValueError", error_message="no"),
        tried("b", 101, 1, 2, error_class="KeyError", error_message="<b>"),
        tried("b", 100, 0.5, 0.6, error_class="KeyError", error_message="<a>"),
    )

    ran = executions(statuses, attempts).cache()
    (total,) = summarised(ran).collect()

    assert (total.executions, total.success, total.failure, total.retries) == (3, 2, 1, 101)
    assert (total.lateness_ms_p50, total.lateness_ms_max) == (500, 500)
    assert total.duration_ms_max == 2_000
    assert [row.ordering_id for row in busiest(ran, 1).collect()] == ["a"]
    found = causes(attempts, 5).collect()
    assert [(row.cause, row.attempts, row.message) for row in found] == [
        ("KeyError", 2, "<a>"),
        ("ValueError", 1, "no"),
    ]


def test_the_load_ahead_is_counted_by_minute(spark: SparkSession) -> None:
    """In order of time, whatever the order of rows."""
    times = [(later(seconds), "a") for seconds in (200, 61, 1, 59)]
    rows = spark.createDataFrame(times, "scheduled_time timestamp, ordering_id string")

    minutes = ahead(rows, "minute").collect()

    assert [row.tasks for row in minutes] == [2, 1, 1]
