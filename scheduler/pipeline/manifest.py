"""What an exported folder says of itself: format, counts, checksums.

Decides which folders are exports that this version can read.  Everything goes through Spark,
so that a folder may lie wherever Spark can write.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from actors.model.errors import InvalidInput
from scheduler.pipeline.state_tables import STATE_TABLES
from scheduler.pipeline.transform_archive import fingerprint

FORMAT_NAME = "hourhand-export"
FORMAT_VERSION = 1
_MANIFEST, _BEGUN = "manifest", "begun"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was exported, from what."""

    made: str
    partitions: int
    source: dict[str, str]
    """Log and store, as their settings name them."""
    identity: str
    """Tells the state that was exported from any later one."""
    ends: dict[str, int]
    """Where the log ended, by partition."""
    tables: dict[str, dict[str, Any]]
    """Rows and checksum of each table."""
    pauses: list[dict[str, Any]] = field(default_factory=list)
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION

    @property
    def digest(self) -> str:
        """Return what tells this export from any other."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:32]


def begin_export(spark: SparkSession, folder: str) -> None:
    """Mark a folder as an export that is being written; InvalidInput where it is in use."""
    if _text(spark, f"{folder}/{_MANIFEST}") is not None:
        raise InvalidInput(f"{folder} holds an export already: name another folder")
    if _text(spark, f"{folder}/{_BEGUN}") is None:
        for table in STATE_TABLES:
            if _exists(spark, f"{folder}/{table}"):
                raise InvalidInput(
                    f"{folder} has a folder {table} that is of no export: name an empty one"
                )
        _write(spark, f"{folder}/{_BEGUN}", "An export is being written here, or was stopped.")


def end_export(spark: SparkSession, folder: str, manifest: Manifest) -> None:
    """Write the manifest: from now on the export is complete."""
    _write(spark, f"{folder}/{_MANIFEST}", json.dumps(asdict(manifest)))


def read_manifest(spark: SparkSession, folder: str) -> Manifest:
    """Return an export's manifest; InvalidInput where there is none that can be read."""
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
        raise InvalidInput(f"{folder}/{_MANIFEST} is not what an export writes") from None
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
    """Return an export's tables; InvalidInput where one is not what the manifest says."""
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
    """Return how many rows there are, and their checksum over all columns."""
    found = fingerprint(rows, rows.columns).first()
    assert found is not None, "an aggregate without groups has one row"
    return dict(found.asDict())


def _write(spark: SparkSession, path: str, text: str) -> None:
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
