"""``make pipeline-demo``: the pipeline on real Kafka and Cassandra, while a node runs.

Loads tasks from Parquet, reports, audits, plants a fault of each kind and sees the audit find
it, archives, and moves all to another number of partitions, where a node goes on.  Ends in a
table, and in exit code 1 where something is wrong.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from examples.demo_stage.installation import PARTITIONS, open_installation, remove
from examples.pipeline_faults import never_stored, options_of, plant
from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.pipeline import open_session
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.archive import ArchivePlan, run_archive
from hourhand.scheduler.pipeline.audit import KINDS, AuditPlan, run_audit
from hourhand.scheduler.pipeline.job import JobOptions, read_table
from hourhand.scheduler.pipeline.load import LoadPlan, run_load
from hourhand.scheduler.pipeline.repartition import RepartitionPlan, run_repartition
from hourhand.scheduler.pipeline.report import ReportPlan, run_report

DUE_SHARE = 100
"""One task of so many fell due in the last hours, so the node is busy while the others load."""
DAYS_MAX = 30
BUCKET_TASKS = 100
"""A bucket that is worth opening: fewer tasks are spread over fewer days."""
NEW_PARTITIONS = 48
AFTER_TASKS = 1_000
"""Scheduled on the new topic, to see it work."""
_WAIT_S = 600.0

console = Console(stderr=True)


class Quiet(TaskExecutor):
    """Does nothing, well."""

    def execute(self, task: Task) -> None:
        """Accept the task."""


class Steps:
    """The steps that were done: rows, duration, and checks that do not hold."""

    def __init__(self) -> None:
        self.table = Table("step", "rows", "seconds", "rows/s", "checksum", "what")
        self.wrong: list[str] = []
        self._clock = wiring.open_clock()

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a step; it fills in ``rows``, ``checksum`` and ``what``."""
        console.print(f"[bold]{name}[/bold]")
        told: dict[str, Any] = {"rows": 0, "checksum": "", "what": ""}
        began_ms = self._clock.monotonic_ms()
        yield told
        seconds = (self._clock.monotonic_ms() - began_ms) / 1000
        rate = f"{told['rows'] / seconds:,.0f}" if told["rows"] else ""
        rest = (f"{seconds:,.1f}", rate, str(told["checksum"]), str(told["what"]))
        self.table.add_row(name, f"{told['rows']:,}", *rest)

    def expect(self, claim: str, *, holds: bool) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(claim)


@dataclass(frozen=True, slots=True)
class Play:
    """Common parts of all steps."""

    spark: SparkSession
    settings: Settings
    folder: Path
    count: int
    steps: Steps = field(default_factory=Steps)

    @property
    def job(self) -> JobOptions:
        """Options of every job."""
        return JobOptions(options_of(self.settings), say=console.print)

    def table(self, name: str) -> DataFrame:
        """Return a table of the installation."""
        return read_table(self.spark, self.job, name)


def main(
    tasks: Annotated[int, typer.Option(min=1_000, help="Tasks to load.")] = 2_000_000,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
) -> None:
    """Play it all and print the table."""
    folder = Path(tempfile.mkdtemp(prefix="hourhand-pipeline-demo-"))
    steps = Steps()
    try:
        with open_installation(folder, "cooperative-sticky", console.print) as settings:
            spark = open_session("demo", master)
            try:
                play = Play(spark, settings, folder, tasks, steps)
                load_and_run(play)
                report_and_audit(play)
                archive(play)
                repartition(play)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Console(width=160).print(steps.table)
    for each in steps.wrong:
        console.print(f"[red]WRONG: {each}[/red]")
    raise typer.Exit(1 if steps.wrong else 0)


def load_and_run(play: Play) -> None:
    """Load a file beside a node, which runs what is due of it."""
    source = str(play.folder / "tasks.parquet")
    steps, count = play.steps, play.count
    with steps.step("make Parquet") as told:
        _tasks(play.spark, count, wiring.open_clock().now_ms()).write.parquet(source)
        told["rows"] = count
        made = _checksum(play.spark.read.parquet(source))
        told["checksum"] = made
    with Scheduler(play.settings, executor=Quiet):
        with steps.step("load beside a node") as told:
            loaded = run_load(play.job, LoadPlan(source, accept_past=True))
            told["rows"] = loaded["tasks"]
            told["what"] = f"{loaded['batched']:,} in batches, {loaded['logged']:,} also logged"
            steps.expect("every row is loaded", holds=loaded["rowsWritten"] == count)
        due = len(range(0, count, DUE_SHARE))
        with steps.step("the node runs what is due") as told:
            told["rows"] = _wait_for(play, due)
            steps.expect("what is due is executed once", holds=told["rows"] == due)
    with steps.step("count every row") as told:
        states = play.table("states").persist()
        by_state = states.groupBy("state").count().collect()
        told["what"] = {row["state"]: row["count"] for row in by_state}
        told["rows"] = sum(row["count"] for row in by_state)
        told["checksum"] = _checksum(states)
        states.unpersist()
        steps.expect("no task is lost", holds=told["rows"] == count)
        steps.expect("the keys are those of the file", holds=told["checksum"] == made)


def report_and_audit(play: Play) -> None:
    """Report, and audit twice: what is sound, and what is planted."""
    now_ms, steps = wiring.open_clock().now_ms(), play.steps
    with steps.step("report") as told:
        period = ReportPlan(now_ms - 6 * HOUR_MS, now_ms, play.folder / "report")
        report = run_report(play.job, period)
        told["rows"] = report["executions"] + report["ahead"]
        charts = Path(report["page"]).read_text().count('class="plotly-graph-div"')
        told["what"] = f"lateness p99 {report['lateness_ms_p99']} ms, {charts} charts"
        steps.expect("the report has charts", holds=charts > 0)
    with steps.step("audit") as told:
        sound = run_audit(play.job, AuditPlan())
        told["rows"], told["what"] = sound["tasks"], sound["found"] or "nothing found"
        steps.expect(f"all is well, found {sound['found']}", holds=not sound["found"])
    expected = str(play.folder / "expected.parquet")
    plant(play.settings)
    never_stored(play.spark).write.parquet(expected)
    with steps.step("audit of planted faults") as told:
        planted = run_audit(play.job, AuditPlan(expected=expected))
        told["rows"], told["what"] = planted["tasks"], planted["found"]
        steps.expect("each kind is found", holds=planted["found"].keys() == KINDS.keys())


def archive(play: Play) -> None:
    """Move finished hours into Parquet."""
    with play.steps.step("archive") as told:
        archived = run_archive(play.job, ArchivePlan(str(play.folder / "archive"), 0))
        told["rows"] = sum(table["rows"] for table in archived["copied"].values())
        told["checksum"] = archived["copied"]["statuses"]["checksum"]
        told["what"] = f"removed {archived['removed']}"


def repartition(play: Play) -> None:
    """Move everything to another topic and keyspace, and let a node go on there."""
    before = _waiting(play)
    name = f"{play.settings.topic.name}-{NEW_PARTITIONS}"
    into = {
        "topic.name": name,
        "topic.dead_letter": f"{name}-dead-letter",
        "group.id": name,
        "cassandra.keyspace": name.replace("-", "_"),
    }
    moved = Play(play.spark, _moved(play.settings, into), play.folder, play.count, play.steps)
    try:
        with play.steps.step(f"repartition {PARTITIONS} to {NEW_PARTITIONS}") as told:
            found = run_repartition(play.job, RepartitionPlan(NEW_PARTITIONS, into))
            told["rows"] = sum(int(table["rows"]) for table in found["copied"].values())
            told["checksum"] = found["copied"]["tasks"]["checksum"]
            told["what"] = {table: each["rows"] for table, each in found["copied"].items()}
        with play.steps.step("compare what waits") as told:
            after = _waiting(moved)
            told["rows"], told["checksum"] = after
            told["what"] = "the same as before" if after == before else f"{before} before"
            play.steps.expect("what waits is what waited", holds=after == before)
        with play.steps.step("a node on the new topic") as told:
            told["rows"] = _run_some(moved)
            holds = told["rows"] == AFTER_TASKS
            play.steps.expect("a node runs on the new topic", holds=holds)
    finally:
        remove(moved.settings)


def _moved(settings: Settings, into: dict[str, str]) -> Settings:
    def changed(group: str) -> Any:
        prefix = f"{group}."
        named = {key.removeprefix(prefix): value for key, value in into.items() if prefix in key}
        return getattr(settings, group).model_copy(update=named)

    topic = changed("topic").model_copy(update={"partitions": NEW_PARTITIONS})
    groups = {"topic": topic, "group": changed("group"), "cassandra": changed("cassandra")}
    return settings.model_copy(update=groups)


def _waiting(play: Play) -> tuple[int, str]:
    """Return how many tasks wait, and the checksum of their keys and data."""
    waiting = play.table("states").where("state = 'pending'").persist()
    try:
        return waiting.count(), _checksum(waiting, "data")
    finally:
        waiting.unpersist()


def _run_some(play: Play) -> int:
    """Schedule tasks that are due at once, and return how many ended well."""
    now = datetime.now(UTC)
    with Scheduler(play.settings, executor=Quiet) as node:
        node.schedule_tasks(
            Task(ordering_id=f"after-{n % 97}", scheduled_time=now, uniqueness_key=str(n))
            for n in range(AFTER_TASKS)
        ).raise_if_rejected()
        return _wait_for(play, AFTER_TASKS, "after-")


def _checksum(tasks: DataFrame, *more: str) -> str:
    """Return a sum over all keys, and more columns, that is the same in any order."""
    columns = ("scheduled_time", "ordering_id", "uniqueness_key", *more)
    hashed = f.xxhash64(*(f.col(each) for each in columns))
    row = tasks.agg(f.sum(hashed.cast("decimal(38,0)")).alias("sum")).first()
    return f"{int(row['sum'] or 0) % 2**64:016x}" if row else ""


def _tasks(spark: SparkSession, count: int, now_ms: int) -> DataFrame:
    number = f.col("id")
    hours = min(DAYS_MAX * 24, 1 + count // (PARTITIONS * BUCKET_TASKS))
    ahead_ms = now_ms + HOUR_MS + number * (hours * HOUR_MS // count)
    past_ms = now_ms - number % (3 * HOUR_MS)
    due_ms = f.when(number % DUE_SHARE == 0, past_ms).otherwise(ahead_ms)
    return spark.range(count).select(
        f.timestamp_millis(due_ms).alias("scheduled_time"),
        f.concat(f.lit("customer-"), number % 50_000).alias("ordering_id"),
        f.concat(f.lit("reminder-"), number).alias("uniqueness_key"),
        f.to_json(f.struct(number.alias("reminder"))).alias("data"),
    )


def _wait_for(play: Play, due: int, prefix: str = "") -> int:
    """Return how many tasks ended well, when all did or it takes too long."""
    pause, clock = threading.Event(), wiring.open_clock()
    until_ms = clock.monotonic_ms() + 1000 * _WAIT_S
    well = (f.col("result") == "success") & f.col("ordering_id").startswith(prefix)
    while True:
        done = play.table("statuses").where(well).count()
        if done >= due or clock.monotonic_ms() > until_ms:
            return done
        pause.wait(2)


if __name__ == "__main__":
    typer.run(main)
