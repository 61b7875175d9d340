"""Tables as Delta tables: what Delta's readers see, and that Parquet's see what they saw before."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.parquet import read_table
from pyspark.sql import SparkSession

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import DependencyMissing, InvalidInput, StoreUnavailable
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler.cli.sql_database import ReadOnlyDatabase
from hourhand.scheduler.cli.sql_tables import show_export
from hourhand.scheduler.pipeline.delta import DELTA, PARQUET, finish_table
from hourhand.scheduler.pipeline.export import ExportPlan, run_export
from hourhand.scheduler.pipeline.report import ReportPlan, run_report
from hourhand.scheduler.pipeline.restore import ImportPlan, run_import
from hourhand.scheduler.pipeline.state_tables import STATE_TABLES
from tests.pipeline.installation import Installation, key_at, settings_of
from tests.pipeline.moving_world import SETTLE_S, job_on

deltalake = pytest.importorskip("deltalake", reason="no deltalake here: make venv-pipeline")
pytestmark = pytest.mark.integration

_KEYS = [key_at(number) for number in range(1, 6)]


def _filled(folder: Path) -> Installation:
    filled = Installation(settings_of(folder))
    filled.add_tasks(_KEYS, data=b'{"n":1}')
    filled.close()
    return filled


def _rows_by_delta(folder: Path) -> list[str]:
    table = deltalake.DeltaTable(str(folder)).to_pyarrow_table()
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def _rows_by_parquet(spark: SparkSession, folder: Path) -> list[str]:
    table = spark.read.parquet(str(folder)).toArrow()
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def test_an_export_is_delta_tables_that_are_imported_and_asked_as_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And times are instants."""
    settings, out = settings_of(tmp_path / "a"), tmp_path / "out"
    _filled(tmp_path / "a")

    run_export(job_on(settings), ExportPlan(str(out), SETTLE_S, DELTA))

    for table in STATE_TABLES:
        assert _rows_by_delta(out / table) == _rows_by_parquet(spark, out / table)
    fields = {each.name: each.type for each in deltalake.DeltaTable(out / "tasks").schema().fields}
    assert fields["scheduled_time"] == deltalake.schema.PrimitiveType("timestamp")

    with ReadOnlyDatabase(1_000_000_000, 1_000_000_000) as database:
        show_export(database, out)
        database.seal(out)
        assert database.ask("SELECT count(*) FROM tasks", 1).rows == [(len(_KEYS),)]
    copy = settings_of(tmp_path / "b")
    imported = run_import(job_on(copy), ImportPlan(str(out)))
    assert imported["copied"]["tasks"]["rows"] == len(_KEYS)


@pytest.mark.parametrize("format_name", [PARQUET, DELTA])
def test_times_of_every_year_are_right_for_plain_readers(
    format_name: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Nanoseconds since 1970 end in 2262; what is read beyond must not be another year."""
    settings, out = settings_of(tmp_path / "a"), tmp_path / "out"
    far = datetime(9998, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    filled = Installation(settings)
    filled.add_tasks([TaskKey(to_millis(far), "far", "away")], data=b'{"n":1}')
    filled.close()

    run_export(job_on(settings), ExportPlan(str(out), SETTLE_S, format_name))

    (file,) = [each for each in (out / "tasks").glob("*.parquet") if read_table(each).num_rows]
    assert read_table(file)["scheduled_time"].to_pylist() == [far]
    assert spark.read.parquet(str(out / "tasks")).count() == 1


def test_a_report_is_delta_tables_and_once_more_parquet(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What was a Delta table is none where it is not asked for; Spark's setting is as it was."""
    settings, out = settings_of(tmp_path / "a"), tmp_path / "out"
    _filled(tmp_path / "a")
    job = job_on(settings)
    first_ms = _KEYS[0].scheduled_ms - 3_600_000
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")

    run_report(job, ReportPlan(first_ms, first_ms + 86_400_000, out, DELTA))
    assert _rows_by_delta(out / "by_hour") == _rows_by_parquet(spark, out / "by_hour")
    run_report(job, ReportPlan(first_ms, first_ms + 86_400_000, out))

    assert not deltalake.DeltaTable.is_deltatable(str(out / "by_hour"))
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before


def test_what_cannot_be_delta_is_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format that is none, a log that tells of other rows, one in the way, and no package."""
    job, folder = job_on(settings_of(tmp_path / "a")), str(tmp_path / "table")
    spark.range(3).write.parquet(folder)

    with pytest.raises(InvalidInput, match="--format 'iceberg' is neither of parquet, delta"):
        run_export(job, ExportPlan(str(tmp_path / "out"), SETTLE_S, "iceberg"))
    with pytest.raises(StoreUnavailable, match="3 rows by its Delta log, but 4 were written"):
        finish_table(DELTA, folder, 4)
    with pytest.raises(StoreUnavailable, match="holds Parquet, but its Delta log"):
        finish_table(DELTA, folder, 3)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DependencyMissing, match="pip install 'deltalake"):
        run_export(job, ExportPlan(str(tmp_path / "out"), SETTLE_S, DELTA))
    assert not (tmp_path / "out").exists()
