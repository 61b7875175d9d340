"""``hourhand pipeline export``: the whole state into Parquet, for backup and for moving.

The cluster is stopped meanwhile, and the installation is only read.  Each table is written,
read again and compared; the manifest comes last, so a run that was stopped is no export and is
simply run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from actors.model.errors import StoreUnavailable
from actors.model.instant import format_instant
from scheduler import wiring
from scheduler.pipeline.job import JobOptions, Summary, spark_job
from scheduler.pipeline.manifest import Manifest, begin_export, counted, end_export
from scheduler.pipeline.options import Options
from scheduler.pipeline.resting import SETTLE_S, Resting, at_rest, log_name, store_name
from scheduler.pipeline.state_frames import (
    definitions_frame,
    log_frame,
    outcomes_frame,
    owners_frame,
    rows_frame,
)
from scheduler.pipeline.state_tables import DEFINITIONS, LOG, OUTCOMES, OWNERS
from scheduler.ports.bulk import BulkTable


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Where to."""

    folder: str
    settle_s: float = SETTLE_S


def run_export(job: JobOptions, plan: ExportPlan) -> Summary:
    """Export everything; raises InstallationBusy, FolderLocked, InvalidInput."""
    folder = plan.folder.rstrip("/")
    with at_rest(job.source, plan.settle_s) as resting, spark_job("export", job) as spark:
        state = resting.state
        source = job.source.with_settings({"topic.partitions": str(state.partition_count)})
        summary: Summary = {
            "job": "export",
            "dryRun": job.dry_run,
            "partitions": state.partition_count,
            "unread": state.unread,
        }
        frames = _frames(spark, source, resting)
        if job.dry_run:
            return {**summary, "tables": {name: _rows(each) for name, each in frames.items()}}
        begin_export(spark, folder)
        tables = {name: _write(spark, folder, name, each) for name, each in frames.items()}
        resting.require()
        manifest = _manifest(source, resting, tables)
        end_export(spark, folder, manifest)
    return {**summary, "tables": tables}


def _frames(spark: SparkSession, source: Options, resting: Resting) -> Mapping[str, DataFrame]:
    state = resting.state
    tables = {table.value: rows_frame(spark, source, table.value) for table in BulkTable}
    return {
        **tables,
        DEFINITIONS: definitions_frame(spark, source, range(state.partition_count)),
        OUTCOMES: outcomes_frame(spark, source),
        OWNERS: owners_frame(spark, state.claims),
        LOG: log_frame(spark, source, state.spans),
    }


def _rows(frame: DataFrame) -> dict[str, Any]:
    return {"rows": frame.count()}


def _write(spark: SparkSession, folder: str, name: str, rows: DataFrame) -> dict[str, Any]:
    """Write a table and compare what was written with what was read."""
    path = f"{folder}/{name}"
    # Read once: what expires between two readings would look like damage.
    rows = rows.persist(StorageLevel.DISK_ONLY)
    try:
        read = counted(rows)
        rows.write.mode("overwrite").parquet(path)
        written = counted(spark.read.schema(rows.schema).parquet(path))
    finally:
        rows.unpersist()
    if written != read:
        raise StoreUnavailable(
            f"{path} holds {written}, but {read} was read: look at the disk, then export again"
        )
    return read


def _manifest(source: Options, resting: Resting, tables: dict[str, dict[str, Any]]) -> Manifest:
    settings, state = source.settings(), resting.state
    return Manifest(
        made=format_instant(wiring.open_clock().now_ms()),
        partitions=state.partition_count,
        source={"log": log_name(settings), "store": store_name(settings)},
        identity=state.identity,
        ends={str(each): span.end for each, span in sorted(state.spans.items())},
        tables=tables,
        pauses=msgspec.to_builtins(state.pauses),
    )
