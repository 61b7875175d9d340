"""Repartitioning: everything arrives, the source is left alone, and nothing is half done."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hourhand import Scheduler, Settings
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import (
    FolderLocked,
    HourhandError,
    InstallationBusy,
    InvalidInput,
    PartitionCountChanged,
    SettingsInvalid,
)
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.quiescence import at_rest
from hourhand.scheduler.pipeline.repartition import (
    RepartitionPlan,
    contents_of,
    run_repartition,
    target_of,
)
from hourhand.scheduler.pipeline.restore import Restore, opened_target
from hourhand.scheduler.ports.bulk import BulkTable
from tests.pipeline.installation import PARTITIONS, Installation, key_at, settings_of
from tests.pipeline.moving_world import (
    IDS,
    SETTLE_S,
    WAIT_S,
    Noting,
    a_task,
    append_to,
    check_by_running,
    fill,
    job_on,
    leave_unread,
)

pytestmark = pytest.mark.integration

TO = 6


def plan_into(folder: Path, to: int = TO) -> RepartitionPlan:
    """Return a plan for a folder."""
    return RepartitionPlan(to, {"embedded.folder": str(folder)}, settle_s=SETTLE_S)


def settings_in(folder: Path, to: int = TO) -> Settings:
    """Return the settings of the new installation."""
    return Settings(embedded={"folder": folder}, topic={"partitions": to})


def contents(settings: Settings) -> list[object]:
    """Return all that is stored of tasks, to see that nobody touched it."""
    bulk = wiring.open_bulk(settings)
    try:
        return [
            (table, bucket, rows)
            for table in BulkTable
            for bucket, rows in bulk.scan(
                table,
                bulk.list_buckets(table, range(PARTITIONS), 0, INSTANT_MAX_MS),
                0,
                INSTANT_MAX_MS,
            )
        ]
    finally:
        bulk.close()


def test_everything_arrives_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped before its end, the job is finished by a second run; nodes wait for that."""
    source, folder = settings_of(tmp_path / "data"), tmp_path / "new"
    left = fill(source)
    leave_unread(source)
    before = contents(source)
    plan, job = plan_into(folder), job_on(source)
    target = target_of(job.source, plan)

    dry = run_repartition(job_on(source, dry_run=True), plan)
    assert dry["copied"]["tasks"]["rows"] >= len(IDS)
    assert not folder.exists()

    with at_rest(job.source, SETTLE_S) as quiescence, opened_target(target, TO) as store:
        stopped = replace(contents_of(spark, job.source, quiescence), confirm=_stop)
        with pytest.raises(InstallationBusy, match="stopped"):
            Restore(spark, target, TO, job.say).run(store, stopped)
    with pytest.raises(PartitionCountChanged, match="still being filled"):
        Scheduler(settings_in(folder), executor=Noting)
    summary = run_repartition(job, plan)

    assert summary["copied"]["tasks"]["rows"] == dry["copied"]["tasks"]["rows"]
    assert summary["log"] == {"records": len(IDS) + 1, "poison": 0, "elsewhere": 0}
    assert contents(source) == before
    check_by_running(settings_in(folder), left)


def _stop() -> None:
    raise InstallationBusy("stopped by the test")


def test_rows_lie_in_their_new_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Many ids, from more partitions to fewer, records in a wrong partition among them."""
    source, folder = settings_of(tmp_path / "data"), tmp_path / "new"
    keys = [key_at(number / 50, f"id-{number % 40}", str(number)) for number in range(200)]
    filled = Installation(source)
    filled.add_tasks(keys)
    filled.close()
    strays = [a_task("stray", timedelta(hours=1), each) for each in IDS]
    for task in strays:
        append_to(source, (partition_of(task.ordering_id, PARTITIONS) + 1) % PARTITIONS, task)

    summary = run_repartition(job_on(source), plan_into(folder, 3))

    assert spark.version
    assert summary["copied"]["tasks"]["rows"] == len(keys)
    assert summary["log"]["elsewhere"] == len(IDS)
    moved = Installation(settings_in(folder, 3))
    try:
        for key in (*keys, *(task.key for task in strays)):
            found = moved.stores.schedule.find_tasks(moved.partition(key), [key]).result(WAIT_S)
            assert list(found) == [key]
            assert found[key].offset < 0
    finally:
        moved.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An installation with a task, which no test changes."""
    settings = settings_of(tmp_path_factory.mktemp("small") / "data")
    filled = Installation(settings)
    filled.add_tasks([key_at(1)])
    filled.close()
    return settings


def _to(to: int, **into: str) -> Callable[[Settings, Path], RepartitionPlan]:
    def plan(_small: Settings, folder: Path) -> RepartitionPlan:
        named = {
            "embedded.folder": str(folder),
            **{n.replace("__", "."): v for n, v in into.items()},
        }
        return RepartitionPlan(to, named, settle_s=SETTLE_S)

    return plan


def _same_folder(small: Settings, _folder: Path) -> RepartitionPlan:
    return plan_into(small.embedded.folder)


def _occupied(_small: Settings, folder: Path) -> RepartitionPlan:
    other = Installation(settings_in(folder))
    other.add_tasks([key_at(1)])
    other.close()
    return plan_into(folder)


def _written(_small: Settings, folder: Path) -> RepartitionPlan:
    append_to(settings_in(folder), 0, a_task("early", timedelta(0), "a"))
    return plan_into(folder)


def _other_count(_small: Settings, folder: Path) -> RepartitionPlan:
    Installation(settings_in(folder, 5)).close()
    return plan_into(folder)


@pytest.mark.parametrize(
    ("plan", "error", "says"),
    [
        (_to(PARTITIONS), InvalidInput, r"--to 4 is the number of partitions"),
        (_to(0), SettingsInvalid, r"--to 0 is not a number"),
        (_to(6, topic__partitions="6"), SettingsInvalid, r"--into topic\.partitions"),
        (_to(6, nonsense="6"), SettingsInvalid, r"nonsense: no such setting"),
        (_same_folder, SettingsInvalid, r"same log.*--into embedded\.folder="),
        (_occupied, InvalidInput, r"embedded\.folder '.*' holds tasks"),
        (_written, InvalidInput, r"embedded\.folder '.*' holds records already"),
        (_other_count, InvalidInput, r"embedded\.folder '.*' has 5 partitions, 6 are needed"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession,
    small: Settings,
    tmp_path: Path,
    plan: Callable[[Settings, Path], RepartitionPlan],
    error: type[HourhandError],
    says: str,
) -> None:
    """Naming the setting."""
    assert spark.version
    with pytest.raises(error, match=says):
        run_repartition(job_on(small), plan(small, tmp_path / "new"))


def test_a_cluster_at_work_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A node, a record that arrives meanwhile, and one that came before a second run."""
    source, folder = settings_of(tmp_path / "data"), tmp_path / "new"
    with Scheduler(source, executor=Noting), pytest.raises(FolderLocked):
        run_repartition(job_on(source), plan_into(folder))
    job, plan = job_on(source), plan_into(folder)
    target = target_of(job.source, plan)

    with at_rest(job.source, SETTLE_S) as quiescence, opened_target(target, TO) as store:
        held = contents_of(spark, job.source, quiescence)
        append_to(source, 1, a_task("late", timedelta(hours=1), "a"))
        with pytest.raises(InstallationBusy, match=r"still arrive in .*data'.*, partition 1"):
            Restore(spark, target, TO, job.say).run(store, held)

    with pytest.raises(InvalidInput, match="was begun from another source, or from this one"):
        run_repartition(job, plan)


def test_a_folder_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """And not made."""
    source = settings_of(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match=r"embedded\.folder .*nothing holds no installation"):
        run_repartition(job_on(source), plan_into(tmp_path / "new"))
    assert spark.version
    assert not source.embedded.folder.exists()
