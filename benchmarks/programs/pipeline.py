"""The data pipeline in a process of its own, with one Spark session for all it is asked to do.

Commands: ``read hourhand``, ``read connector``, ``make PATH ROWS DAYS``, ``load PATH``, ``audit``.
It says how long each took; ``audit`` also says what the driver held at most, which means
something only where executors are processes of their own (``local-cluster[…]``): with a local
master the driver holds what its executor sorts and joins.  It never decides what is compared.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.loads import NOTE
from benchmarks.machine import resident_bytes
from benchmarks.program import tell, told
from benchmarks.records import wall_s
from examples.pipeline_faults import options_of
from hourhand import Settings
from hourhand.scheduler.pipeline.audit import AuditPlan, run_audit
from hourhand.scheduler.pipeline.columns import columns_of
from hourhand.scheduler.pipeline.job import JobOptions
from hourhand.scheduler.pipeline.load import LoadPlan, run_load
from hourhand.scheduler.pipeline.session import open_session
from hourhand.scheduler.pipeline.source import FORMAT

_CONNECTOR = "org.apache.spark.sql.cassandra"
_STORED = tuple(each.name for each in columns_of("tasks") if each.name != "write_time")
"""Columns that the connector reads: a write time comes from a function, not from a column."""
_LOOK_S = 0.5
_IDS = 10_000
_HOURS = 48
_DAY_MS = 86_400_000
_MIB = 2**20


def main() -> None:
    """Open the session, then do what is asked, a line at a time."""
    spec = told()
    settings = Settings(**spec["settings"])
    spark = _session(spec, settings)
    job = JobOptions(options_of(settings), say=lambda _line: None)
    commands: dict[str, Callable[..., dict[str, Any]]] = {
        "read": lambda which: _read(spark, job, settings, which),
        "make": lambda path, rows, days: _make(spark, path, int(rows), int(days)),
        "load": lambda path: _load(job, path),
        "audit": lambda: _audit(spark, job),
    }
    tell("ready")
    for line in sys.stdin:
        command, *arguments = line.split()
        if command not in commands:
            break
        began_s = wall_s()
        found = commands[command](*arguments)
        tell("done", seconds=wall_s() - began_s, **found)
    spark.stop()


def _session(spec: dict[str, Any], settings: Settings) -> SparkSession:
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.cassandra.connection.host": ",".join(settings.cassandra.contact_points),
        "spark.cassandra.connection.port": str(settings.cassandra.port),
    }
    if "work" in spec:
        _work_in(Path(spec["work"]))
    if spec.get("jars"):
        conf["spark.jars"] = ",".join(spec["jars"])
    return open_session("benchmark", spec["master"], conf)


def _work_in(folder: Path) -> None:
    """Have Spark's workers write into a folder, not into the one that Spark is installed in."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        link = folder / each.name
        if not link.is_symlink():
            link.symlink_to(each)
    os.environ["SPARK_HOME"] = str(folder)


def _read(spark: SparkSession, job: JobOptions, settings: Settings, which: str) -> dict[str, Any]:
    """Read every row of the schedule, all columns that its table has, and throw them away."""
    observed: DataFrame
    if which == "connector":
        reader = spark.read.format(_CONNECTOR).options(
            keyspace=settings.cassandra.keyspace, table="task_schedule"
        )
        observed = reader.load()
    else:
        options = job.source._replace(columns=_STORED).as_mapping()
        observed = spark.read.format(FORMAT).options(**options).load()
    observed.write.format("noop").mode("overwrite").save()
    return {}


def _make(spark: SparkSession, path: str, rows: int, days: int) -> dict[str, Any]:
    """Write a file of tasks that are due from so many days after today on."""
    number = f.col("id")
    first_ms = int(wall_s() * 1000) + days * _DAY_MS
    due = f.timestamp_millis(f.lit(first_ms) + number * (_HOURS * 3_600_000 // rows))
    tasks = spark.range(rows).select(
        due.alias("scheduled_time"),
        f.concat(f.lit("customer-"), number % _IDS).alias("ordering_id"),
        number.cast("string").alias("uniqueness_key"),
        f.to_json(f.struct(number.alias("number"), f.lit(NOTE).alias("note"))).alias("data"),
    )
    tasks.write.mode("overwrite").parquet(path)
    return {}


def _load(job: JobOptions, path: str) -> dict[str, Any]:
    summary = run_load(job, LoadPlan(path))
    return {"rows": summary["rowsWritten"], "invalid": summary["invalid"]}


def _audit(spark: SparkSession, job: JobOptions) -> dict[str, Any]:
    """Audit everything, and watch what the driver holds meanwhile."""
    ended, peak = threading.Event(), [0]

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            peak[0] = max(peak[0], _live_bytes(spark))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        summary = run_audit(job, AuditPlan())
    finally:
        ended.set()
        watcher.join()
    return {"rows": summary["tasks"], "peak_mib": peak[0] / _MIB}


def _live_bytes(spark: SparkSession) -> int:
    """Return what both halves of the driver hold: the JVM's live heap, and this process.

    Live is what a full collection leaves.  The heap's garbage is not counted: how much of it
    lies about depends on how large the heap may be.
    """
    gc.collect()
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    used = int(runtime.totalMemory()) - int(runtime.freeMemory())
    return used + resident_bytes(os.getpid())


if __name__ == "__main__":
    main()
