"""``make pipeline-demo``: the pipeline on real Kafka and Cassandra, while a node runs.

Loads tasks from Parquet, reports, audits, plants a fault of each kind and sees the audit find
it, archives.  Ends in a table, and in exit code 1 where something is not as it must be.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from actors.model.bucket import HOUR_MS, hour_of
from actors.model.key import TaskKey
from actors.model.partition import partition_of
from actors.model.status import AttemptRecord, AttemptResult, Completion, CompletionResult
from actors.model.task import StoredTask
from actors.task_executor import TaskExecutor
from examples.demo_cluster.installation import PARTITIONS, open_installation
from scheduler import Scheduler, Settings, Task, wiring
from scheduler.pipeline.archive import ArchivePlan, run_archive
from scheduler.pipeline.audit import AuditPlan, run_audit
from scheduler.pipeline.job import JobOptions, read_table
from scheduler.pipeline.load import LoadPlan, run_load
from scheduler.pipeline.options import Options
from scheduler.pipeline.report import ReportPlan, run_report
from scheduler.pipeline.session import open_session
from scheduler.pipeline.transform_audit import KINDS

DUE_SHARE = 100
"""One task of so many fell due in the last hours, so the node is busy while the others load."""
DAYS_MAX = 30
BUCKET_TASKS = 100
"""A bucket that is worth opening: fewer tasks are spread over fewer days."""
_WRITE_TIME = 1 << 50
_WAIT_S = 600.0

console = Console(stderr=True)


class Quiet(TaskExecutor):
    """Does nothing, well."""

    def execute(self, task: Task) -> None:
        """Accept the task."""


class Steps:
    """What was done, how many rows that were, and how long it took."""

    def __init__(self) -> None:
        self.table = Table("step", "rows", "seconds", "rows/s", "what")
        self.wrong: list[str] = []
        self._clock = wiring.open_clock()

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a step; it fills in ``rows`` and ``what``."""
        console.print(f"[bold]{name}[/bold]")
        told: dict[str, Any] = {"rows": 0, "what": ""}
        began_ms = self._clock.monotonic_ms()
        yield told
        seconds = (self._clock.monotonic_ms() - began_ms) / 1000
        rate = f"{told['rows'] / seconds:,.0f}" if told["rows"] else ""
        self.table.add_row(name, f"{told['rows']:,}", f"{seconds:,.1f}", rate, str(told["what"]))

    def expect(self, claim: str, *, holds: bool) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(claim)


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
                job = JobOptions(_options(settings), say=console.print)
                _play(spark, job, settings, folder, tasks, steps)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Console().print(steps.table)
    for each in steps.wrong:
        console.print(f"[red]WRONG: {each}[/red]")
    raise typer.Exit(1 if steps.wrong else 0)


def _play(
    spark: SparkSession, job: JobOptions, settings: Settings, folder: Path, count: int, steps: Steps
) -> None:
    clock = wiring.open_clock()
    source = str(folder / "tasks.parquet")
    with steps.step("make Parquet") as told:
        _tasks(spark, count, clock.now_ms()).write.parquet(source)
        told["rows"] = count
    with Scheduler(settings, executor=Quiet):
        with steps.step("load beside a node") as told:
            loaded = run_load(job, LoadPlan(source, accept_past=True))
            told["rows"] = loaded["tasks"]
            told["what"] = f"{loaded['batched']:,} in batches, {loaded['logged']:,} also logged"
            steps.expect("every row is loaded", holds=loaded["rowsWritten"] == count)
        due = count // DUE_SHARE
        with steps.step("the node runs what is due") as told:
            told["rows"] = _wait_for(spark, job, due)
            steps.expect("what is due is executed once", holds=told["rows"] == due)
    with steps.step("count every row") as told:
        states = read_table(spark, job, "states").groupBy("state").count().collect()
        told["what"] = {row["state"]: row["count"] for row in states}
        told["rows"] = sum(row["count"] for row in states)
        steps.expect("no task is lost", holds=told["rows"] == count)
    with steps.step("report") as told:
        now_ms = clock.now_ms()
        report = run_report(job, ReportPlan(now_ms - 6 * HOUR_MS, now_ms, folder / "report"))
        told["rows"] = report["executions"] + report["ahead"]
        told["what"] = f"lateness p99 {report['lateness_ms_p99']} ms"
    _audit(spark, job, settings, folder, steps)
    with steps.step("archive") as told:
        archived = run_archive(job, ArchivePlan(str(folder / "archive"), 0))
        told["rows"] = sum(table["rows"] for table in archived["copied"].values())
        told["what"] = (
            f"removed {archived['removed']}, {archived['copied']['statuses']['checksum']}"
        )


def _audit(
    spark: SparkSession, job: JobOptions, settings: Settings, folder: Path, steps: Steps
) -> None:
    with steps.step("audit") as told:
        sound = run_audit(job, AuditPlan())
        told["rows"], told["what"] = sound["tasks"], sound["found"] or "nothing found"
        steps.expect(f"all is well, found {sound['found']}", holds=not sound["found"])
    expected = str(folder / "expected.parquet")
    _plant(settings)
    _keys(spark).write.parquet(expected)
    with steps.step("audit of planted faults") as told:
        planted = run_audit(job, AuditPlan(expected=expected))
        told["rows"], told["what"] = planted["tasks"], planted["found"]
        steps.expect("each kind is found", holds=planted["found"].keys() == KINDS.keys())


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


def _wait_for(spark: SparkSession, job: JobOptions, due: int) -> int:
    """Return how many tasks were executed, when all are or it takes too long."""
    pause, clock = threading.Event(), wiring.open_clock()
    until_ms = clock.monotonic_ms() + 1000 * _WAIT_S
    while True:
        done = read_table(spark, job, "statuses").where("result = 'success'").count()
        if done >= due or clock.monotonic_ms() > until_ms:
            return done
        pause.wait(2)


def _keys(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT current_timestamp() AS scheduled_time, 'never-stored' AS ordering_id,"
        " 'x' AS uniqueness_key"
    )


def _plant(settings: Settings) -> None:
    """Write rows that make one fault of each kind but ``missing``, which is a key not stored."""
    stores = wiring.open_stores(settings)
    hour_ms = hour_of(wiring.open_clock().now_ms()) - 5 * HOUR_MS
    try:
        for name in ("overdue", "blocked", "lost", "twice", "early", "busy"):
            key = TaskKey(hour_ms, f"planted-{name}", "x")
            partition = partition_of(key.ordering_id, settings.topic.partitions)
            done = Completion(key, CompletionResult.SUCCESS, 1, 1, hour_ms + 5_000, hour_ms + 6_000)
            writes: list[Any] = []
            if name in {"overdue", "blocked"}:
                row = StoredTask(key, b"{}", 1)
                writes.append(stores.schedule.insert_tasks(partition, [row], _WRITE_TIME))
            elif name != "lost":
                begun_ms = hour_ms - 5 if name == "early" else hour_ms + 5_000
                done = Completion(key, done.result, 1, 1, begun_ms, hour_ms + 6_000)
                writes.append(stores.status.insert_completions(partition, [done], _WRITE_TIME))
            if name in {"blocked", "lost", "twice", "busy"}:
                late_ms = hour_ms + (7_000 if name == "twice" else 5_500 if name == "busy" else 1)
                attempt = AttemptRecord(key, 9, AttemptResult.FAILURE, late_ms, late_ms + 400)
                writes.append(stores.status.insert_attempts(partition, [attempt], _WRITE_TIME))
            for each in writes:
                each.result(30)
    finally:
        stores.close()


def _options(settings: Settings) -> Options:
    named = {
        "log": settings.log,
        "store": settings.store,
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        "topic.name": settings.topic.name,
        "topic.dead_letter": settings.topic.dead_letter,
        "topic.partitions": str(settings.topic.partitions),
        "cassandra.contact_points": ",".join(settings.cassandra.contact_points),
        "cassandra.port": str(settings.cassandra.port),
        "cassandra.keyspace": settings.cassandra.keyspace,
    }
    return Options(assignments=tuple(sorted(named.items())))


if __name__ == "__main__":
    typer.run(main)
