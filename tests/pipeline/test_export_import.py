"""Export and import: the round trip is exact, and what is damaged or half done is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from hourhand import Scheduler, Settings
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.values.errors import (
    FolderLocked,
    HourhandError,
    InvalidInput,
    SettingsInvalid,
)
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.export import ExportPlan, run_export
from hourhand.scheduler.pipeline.restore import ImportPlan, run_import
from hourhand.scheduler.pipeline.state_tables import (
    OWNERS,
    STATE_TABLES,
    claims_of,
    compared_columns,
)
from hourhand.scheduler.pipeline.transform_move import MOVED_BY, moved
from hourhand.scheduler.ports.transfer import UNFINISHED
from tests.pipeline.installation import PARTITIONS, Installation, key_at, settings_of
from tests.pipeline.moving_world import (
    SETTLE_S,
    Noting,
    check_by_running,
    fill,
    job_on,
    leave_unread,
    pauses_of,
)

pytestmark = pytest.mark.integration


KINDED = (
    b'{"hourhand.sealed":{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AAEC"},"n":1,'
    b'"hourhand.priority":7,"hourhand.kind":"send-mail"}'
)
"""Sealed, with a member in the clear."""


def rows_of(frame: DataFrame, table: str) -> list[str]:
    """Return a table's rows, as text, without what is each installation's own."""
    return sorted(map(str, frame.select(*compared_columns(table)).collect()))


def owners_of(spark: SparkSession, folder: Path) -> list[tuple[int, object]]:
    """Return how far each partition is, except for offsets."""
    claims = claims_of(spark.read.parquet(str(folder / OWNERS)), PARTITIONS)

    def known(claim: Claim | None) -> object:
        assert claim is not None, "each partition had its node"
        mark = claim.watermark
        return (mark.watermark_ms, mark.loaded_until_ms, mark.stragglers, mark.tasks_swept_until_ms)

    return [(each, known(claim)) for each, claim in sorted(claims.items())]


def test_the_round_trip_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    """Each row of each table, renumbered; a second one into a second installation."""
    source, first, second = settings_of(tmp_path / "a"), tmp_path / "one", tmp_path / "two"
    left = fill(source)

    exported = run_export(job_on(source), ExportPlan(str(first), SETTLE_S))
    copy = settings_of(tmp_path / "b")
    run_import(job_on(copy), ImportPlan(str(first)))
    again = run_export(job_on(copy), ExportPlan(str(second), SETTLE_S))

    assert exported["tables"]["tasks"]["rows"] > 0
    assert exported["tables"]["definitions"]["rows"] > 0
    assert exported["tables"]["outcomes"]["rows"] > 0
    for table in STATE_TABLES:
        assert exported["tables"][table]["rows"] == again["tables"][table]["rows"]
        if table != OWNERS:
            was = spark.read.parquet(str(first / table))
            expected = was if table == "log" else moved(was, table, PARTITIONS)
            assert rows_of(spark.read.parquet(str(second / table)), table) == rows_of(
                expected, table
            )
    assert owners_of(spark, first) == owners_of(spark, second)
    assert pauses_of(copy) == pauses_of(source)
    offsets = [
        {row.log_offset for row in spark.read.parquet(str(each / "statuses")).collect()}
        for each in (first, second)
    ]
    assert {each + MOVED_BY for each in offsets[1]} == offsets[0]

    # What no node has read goes along, the last time.
    leave_unread(copy)
    third = tmp_path / "three"
    run_export(job_on(copy), ExportPlan(str(third), SETTLE_S))
    last = settings_of(tmp_path / "c")
    run_import(job_on(last), ImportPlan(str(third)))
    check_by_running(last, left)


@pytest.fixture(scope="module")
def export(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with a task of a kind, which no test changes."""
    assert spark.version
    folder = tmp_path_factory.mktemp("export")
    settings = settings_of(folder / "data")
    filled = Installation(settings)
    filled.add_tasks([key_at(1)], data=KINDED)
    filled.close()
    run_export(job_on(settings), ExportPlan(str(folder / "out"), SETTLE_S))
    return folder / "out"


def test_a_kind_a_priority_and_sealed_data_arrive_with_their_task(
    spark: SparkSession, options: dict[str, str], export: Path, tmp_path: Path
) -> None:
    """Byte for byte, as no key is there; the folder holds all of it in one column."""
    run_import(job_on(settings_of(tmp_path / "data")), ImportPlan(str(export)))

    (task,) = spark.read.format("hourhand").options(**options).load().collect()

    assert (task.kind, task.priority, task.data) == ("send-mail", 7, '{"n":1}')
    assert task.seal == '{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AAEC"}'
    (stored,) = spark.read.format("hourhand").options(**options, stored="true").load().collect()
    assert stored.data == KINDED.decode()
    assert not {"kind", "priority", "seal"} & {*spark.read.parquet(str(export / "tasks")).columns}


def _unfinished(export: Path, target: Settings) -> None:
    del target
    shutil.rmtree(export / "manifest")


def _newer(export: Path, target: Settings) -> None:
    del target
    _change_manifest(export, version=2)


def _strange(export: Path, target: Settings) -> None:
    del target
    for file in (export / "manifest").glob("part-*"):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text("[]")


def _damaged(export: Path, target: Settings) -> None:
    del target
    found = json.loads(_manifest(export).read_text())
    tasks = {**found["tables"]["tasks"], "rows": 2}
    _change_manifest(export, tables={**found["tables"], "tasks": tasks})


def _occupied(export: Path, target: Settings) -> None:
    del export
    filled = Installation(target)
    filled.add_tasks([key_at(1)])
    filled.close()


def _begun_by_another(export: Path, target: Settings) -> None:
    other = export.parent / "other"
    shutil.copytree(export, other)
    _change_manifest(other, made="2026-01-01T00:00:00.000Z")
    broken = json.loads(_manifest(other).read_text())["tables"]
    assert broken
    wiring.open_writer(target).close()
    store = wiring.open_transfer(target)
    assert store.write_note('{"source": "another", "partitions": 4}')
    store.close()


def _manifest(export: Path) -> Path:
    (file,) = (export / "manifest").glob("part-*")
    return file


def _change_manifest(export: Path, **changed: object) -> None:
    file = _manifest(export)
    value = {**json.loads(file.read_text()), **changed}
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (_unfinished, r"holds no complete export"),
        (_newer, r"version 2; this version of Hourhand reads .* version 1"),
        (_strange, r"is not the manifest of an export"),
        (_damaged, r"tasks holds .*'rows': 1.*but .*'rows': 2.* damaged"),
        (_occupied, r"embedded\.folder '.*' holds tasks"),
        (_begun_by_another, r"was begun from another source"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    export: Path, tmp_path: Path, harm: Callable[[Path, Settings], None], says: str
) -> None:
    """Saying which folder or setting is wrong."""
    copied, target = tmp_path / "out", settings_of(tmp_path / "data")
    shutil.copytree(export, copied)
    harm(copied, target)

    with pytest.raises(InvalidInput, match=says):
        run_import(job_on(target), ImportPlan(str(copied)))


def _agreed(target: Settings) -> int:
    """Return what a node that starts now is told."""
    stores = wiring.open_stores(target)
    try:
        return stores.ownership.agree_partition_count(PARTITIONS).result(30)
    finally:
        stores.close()


def test_nodes_are_kept_out_while_the_export_is_still_looked_through(
    export: Path, tmp_path: Path
) -> None:
    """From the first step on; where it is damaged, they may begin again, and so may a job."""
    told: list[tuple[str, int]] = []
    copied, target = tmp_path / "out", settings_of(tmp_path / "data")
    shutil.copytree(export, copied)
    whole = _manifest(copied).read_text()
    _damaged(copied, target)
    job = replace(job_on(target), say=lambda line: told.append((line, _agreed(target))))

    with pytest.raises(InvalidInput, match="damaged"):
        run_import(job, ImportPlan(str(copied)))
    _manifest(copied).write_text(whole)
    run_import(job, ImportPlan(str(copied)))

    looked = [count for line, count in told if "as exported" in line]
    assert len(looked) > 1
    assert set(looked) == {UNFINISHED}
    assert _agreed(target) == PARTITIONS


def test_another_number_of_partitions_is_refused(export: Path, tmp_path: Path) -> None:
    """Before anything is made."""
    target = Settings(embedded={"folder": tmp_path / "data"}, topic={"partitions": 16})

    with pytest.raises(SettingsInvalid, match=r"topic\.partitions is 16, but .* from 4"):
        run_import(job_on(target), ImportPlan(str(export)))

    assert not (tmp_path / "data").exists()


def test_a_dry_run_writes_nothing(export: Path, tmp_path: Path) -> None:
    """And says what would be written."""
    source, target = settings_of(export.parent / "data"), settings_of(tmp_path / "data")

    wanted = run_export(job_on(source, dry_run=True), ExportPlan(str(tmp_path / "x"), SETTLE_S))
    found = run_import(job_on(target, dry_run=True), ImportPlan(str(export)))

    assert wanted["tables"]["tasks"]["rows"] == found["tables"]["tasks"]["rows"] == 1
    assert list(tmp_path.iterdir()) == []


def _refused_export(folder: Path, settings: Settings) -> type[HourhandError]:
    with pytest.raises(HourhandError) as refused:
        run_export(job_on(settings), ExportPlan(str(folder), SETTLE_S))
    return refused.type


def test_an_export_overwrites_nothing_of_others(export: Path, tmp_path: Path) -> None:
    """A complete one, a folder of another's, a node at work; a stopped one is done again."""
    settings = settings_of(export.parent / "data")
    strange, stopped = tmp_path / "strange", tmp_path / "stopped"
    (strange / "tasks").mkdir(parents=True)
    (strange / "tasks" / "mine.txt").write_text("keep me")
    shutil.copytree(export, stopped)
    shutil.rmtree(stopped / "manifest")

    assert _refused_export(export, settings) is InvalidInput
    assert _refused_export(strange, settings) is InvalidInput
    busy = settings_of(tmp_path / "busy")
    with Scheduler(busy, executor=Noting):
        assert _refused_export(tmp_path / "out", busy) is FolderLocked
    run_export(job_on(settings), ExportPlan(str(stopped), SETTLE_S))

    assert (strange / "tasks" / "mine.txt").read_text() == "keep me"
    assert _manifest(stopped).exists()
