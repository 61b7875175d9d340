"""``hourhand pipeline export``: the whole state into Parquet, for backup and for moving.

The cluster is stopped meanwhile, and the installation is only read. Each table is written, read
again and compared; the manifest is written last, so a run that was stopped is not an export and is
simply run again. The manifest has format, counts and checksums: it decides which folders are
exports that this version can read. Everything goes through Spark, so the folder may be anywhere
that Spark can write.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from hourhand.actors.model.values.errors import InvalidInput, StoreUnavailable
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.delta import (
    PARQUET,
    check_format,
    finish_table,
    written_as_instants,
)
from hourhand.scheduler.pipeline.job import JobOptions, Summary, only_row, spark_job
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.quiescence import (
    SETTLE_S,
    Quiescence,
    at_rest,
    log_name,
    store_name,
)
from hourhand.scheduler.pipeline.state_frames import (
    definitions_frame,
    log_frame,
    outcomes_frame,
    owners_frame,
    rows_frame,
)
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITIONS,
    LOG,
    OUTCOMES,
    OWNERS,
    STATE_TABLES,
)
from hourhand.scheduler.pipeline.transform_archive import fingerprint
from hourhand.scheduler.ports.bulk import BulkTable

FORMAT_NAME = "hourhand-export"
FORMAT_VERSION = 1
_MANIFEST, _BEGUN = "manifest", "begun"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The source and the content of an export."""

    made: str
    partitions: int
    source: dict[str, str]
    """Log and store, as their settings name them."""
    identity: str
    """Identifies the exported state among earlier and later ones."""
    ends: dict[str, int]
    """End of the log, by partition."""
    tables: dict[str, dict[str, Any]]
    """Rows and checksum of each table."""
    pauses: list[dict[str, Any]] = field(default_factory=list)
    limits: list[dict[str, Any]] = field(default_factory=list)
    """Limits that operators changed."""
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION

    @property
    def digest(self) -> str:
        """Return a digest that identifies this export."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]

    @property
    def text(self) -> str:
        """Return the written form; without limits it is that of versions that know none."""
        fields = asdict(self)
        if not self.limits:
            del fields["limits"]
        return json.dumps(fields)


def begin_export(spark: SparkSession, folder: str) -> None:
    """Mark a folder as an export that is being written; InvalidInput if it is in use."""
    if _text(spark, f"{folder}/{_MANIFEST}") is not None:
        raise InvalidInput(f"{folder} already holds an export: choose another folder")
    if _text(spark, f"{folder}/{_BEGUN}") is None:
        for table in STATE_TABLES:
            if _exists(spark, f"{folder}/{table}"):
                raise InvalidInput(
                    f"{folder} has a folder {table} that is not of an export: choose an empty one"
                )
        _write_text(spark, f"{folder}/{_BEGUN}", "An export is being written here, or was stopped.")


def end_export(spark: SparkSession, folder: str, manifest: Manifest) -> None:
    """Write the manifest, which completes the export."""
    _write_text(spark, f"{folder}/{_MANIFEST}", manifest.text)


def read_manifest(spark: SparkSession, folder: str) -> Manifest:
    """Return an export's manifest; InvalidInput if it is missing or unreadable."""
    text = _text(spark, f"{folder}/{_MANIFEST}")
    if text is None:
        raise InvalidInput(
            f"{folder} holds no complete export: there is no {_MANIFEST} in it; run"
            " `hourhand pipeline export` to its end"
        )
    try:
        value = json.loads(text)
        found = value.get("format"), value.get("version")
    except (ValueError, AttributeError):
        raise InvalidInput(f"{folder}/{_MANIFEST} is not the manifest of an export") from None
    if found != (FORMAT_NAME, FORMAT_VERSION):
        raise InvalidInput(
            f"{folder} is of format {found[0]!r}, version {found[1]!r}; this version of Hourhand"
            f" reads {FORMAT_NAME!r}, version {FORMAT_VERSION}: import it with the one that"
            " wrote it"
        )
    return Manifest(**value)


def read_exported(
    spark: SparkSession, folder: str, manifest: Manifest, say: Any
) -> Mapping[str, DataFrame]:
    """Return an export's tables; InvalidInput if one differs from the manifest."""
    tables = {}
    for table in STATE_TABLES:
        rows = spark.read.parquet(f"{folder}/{table}")
        found = counted(rows)
        if found != manifest.tables[table]:
            raise InvalidInput(
                f"{folder}/{table} holds {found}, but {manifest.tables[table]} was exported: the"
                " folder is damaged or was changed"
            )
        say(f"import: {table}: {found['rows']} rows, as exported")
        tables[table] = rows
    return tables


def counted(rows: DataFrame) -> dict[str, Any]:
    """Return the number of rows, and their checksum over all columns."""
    return only_row(fingerprint(rows, rows.columns))


def _write_text(spark: SparkSession, path: str, text: str) -> None:
    spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(path)


def _text(spark: SparkSession, path: str) -> str | None:
    try:
        row = spark.read.text(path, wholetext=True).first()
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
            return None
        raise
    return None if row is None else str(row.value)


def _exists(spark: SparkSession, path: str) -> bool:
    try:
        spark.read.text(path)
    except AnalysisException as error:
        return not (error.getCondition() or "").startswith("PATH_NOT_FOUND")
    return True


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The folder and the format."""

    folder: str
    settle_s: float = SETTLE_S
    format: str = PARQUET


def run_export(job: JobOptions, plan: ExportPlan) -> Summary:
    """Export everything; raises InstallationBusy, FolderLocked, InvalidInput."""
    check_format(plan.format)
    folder = plan.folder.rstrip("/")
    with at_rest(job.source, plan.settle_s) as quiescence, spark_job("export", job) as spark:
        state = quiescence.state
        source = job.source.with_settings({"topic.partitions": str(state.partition_count)})
        summary: Summary = {
            "job": "export",
            "dryRun": job.dry_run,
            "partitions": state.partition_count,
            "unread": state.unread,
        }
        frames = _frames(spark, source, quiescence)
        if job.dry_run:
            return {**summary, "tables": {name: _rows(each) for name, each in frames.items()}}
        begin_export(spark, folder)
        with written_as_instants(spark):
            tables = {name: _write(spark, folder, name, each) for name, each in frames.items()}
        for name, counts in tables.items():
            finish_table(plan.format, f"{folder}/{name}", counts["rows"])
        quiescence.require()
        manifest = _manifest(source, quiescence, tables)
        end_export(spark, folder, manifest)
    return {**summary, "tables": tables}


def _frames(
    spark: SparkSession, source: Options, quiescence: Quiescence
) -> Mapping[str, DataFrame]:
    state = quiescence.state
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
    """Write a table and compare the written rows with the read ones."""
    path = f"{folder}/{name}"
    # Read once: a row that expires between two readings would look like damage.
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


def _manifest(
    source: Options, quiescence: Quiescence, tables: dict[str, dict[str, Any]]
) -> Manifest:
    settings, state = source.settings(), quiescence.state
    return Manifest(
        made=format_instant(wiring.open_clock().now_ms()),
        partitions=state.partition_count,
        source={"log": log_name(settings), "store": store_name(settings)},
        identity=state.identity,
        ends={str(each): end for each, end in sorted(state.ends.items())},
        tables=tables,
        pauses=msgspec.to_builtins(state.pauses),
        limits=msgspec.to_builtins(state.limits),
    )
