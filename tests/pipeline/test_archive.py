"""Archiving: once, verified, and nothing that is not finished."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from hourhand import Scheduler
from hourhand.actors.model.operations.ownership import Straggler, initial_watermark
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import FolderLocked
from hourhand.scheduler.pipeline.archive import ArchivePlan, run_archive
from hourhand.scheduler.pipeline.job import JobOptions
from hourhand.scheduler.pipeline.options import Options
from tests.builders import Idle, a_completion
from tests.pipeline.installation import PARTITIONS, Installation, key_at, settings_of

pytestmark = pytest.mark.integration

KEYS = [key_at(hour) for hour in range(6)]
"""One task an hour, of one ordering id; hours 0 to 2 are finished, 3 is a straggler's."""


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """Six hours of one ordering id, the first four of them done, three without hindrance."""
    opened = Installation(settings_of(tmp_path / "data"))
    opened.add_tasks(KEYS, data=b'{"hourhand.priority":0,"hourhand.kind":"send-mail"}')
    opened.add_completions(a_completion(key=key, offset=9) for key in KEYS[:3])
    opened.add_attempts(
        AttemptRecord(key, number, AttemptResult.FAILURE, key.scheduled_ms, key.scheduled_ms)
        for key in KEYS[:2]
        for number in (1, 2)
    )
    owner = opened.partition(KEYS[0])
    claim = opened.stores.ownership.claim(owner, 0).result(30)
    mark = msgspec.structs.replace(
        initial_watermark(KEYS[5].scheduled_ms),
        stragglers=(Straggler(KEYS[3].ordering_id, KEYS[3].scheduled_ms),),
    )
    opened.stores.ownership.save_watermark(owner, claim.epoch, mark).result(30)
    yield opened
    opened.close()


def job_on(installation: Installation, *, dry_run: bool = False) -> JobOptions:
    """Return the options of a job over the installation."""
    folder = str(installation.settings.embedded.folder)
    overrides = (("embedded.folder", folder), ("topic.partitions", str(PARTITIONS)))
    return JobOptions(Options(overrides=overrides), dry_run=dry_run)


def left(installation: Installation) -> tuple[list[int], int, int]:
    """Return the hours whose tasks are stored, and how many completions and attempts are."""
    owner = installation.partition(KEYS[0])
    first, last = key_at(-1), key_at(10)
    page = installation.stores.schedule.load_tasks(owner, first, last.scheduled_ms, 100).result(30)
    completions = installation.stores.status.load_completions(owner, first, last).result(30)
    attempts = installation.stores.status.load_attempts(owner, first, last).result(30)
    hours = [(task.key.scheduled_ms - KEYS[0].scheduled_ms) // HOUR_MS for task in page.tasks]
    return hours, len(completions), len(attempts)


def test_finished_hours_are_moved_once(
    spark: SparkSession, installation: Installation, tmp_path: Path
) -> None:
    """What stands before the watermark and before any straggler; a second run finds nothing."""
    folder = tmp_path / "archive"
    plan = ArchivePlan(str(folder), older_than_ms=0)

    dry = run_archive(job_on(installation, dry_run=True), plan)
    assert dry["copied"]["tasks"]["rows"] == 3
    assert not folder.exists()
    assert left(installation) == ([0, 1, 2, 3, 4, 5], 3, 4)

    first = run_archive(job_on(installation), plan)
    second = run_archive(job_on(installation), plan)

    assert {name: table["rows"] for name, table in first["copied"].items()} == {
        "tasks": 3,
        "statuses": 3,
        "attempts": 4,
    }
    assert first["removed"] == {"tasks": 3, "attempts": 4}
    assert (second["copied"], second["removed"]) == ({}, {"tasks": 0, "attempts": 0})
    assert left(installation) == ([3, 4, 5], 3, 0)
    archived = spark.read.parquet(str(folder / "tasks"))
    assert [(row.kind, row.priority) for row in archived.collect()] == [("send-mail", 0)] * 3
    assert {"date", "run"} <= set(archived.columns)


def test_a_run_that_was_stopped_is_finished_by_the_next(
    spark: SparkSession, installation: Installation, tmp_path: Path
) -> None:
    """Copied and not removed: nothing is copied twice, what was copied is removed."""
    folder = tmp_path / "archive"
    plan = ArchivePlan(str(folder), older_than_ms=0)
    run_archive(job_on(installation), plan)
    # As if it had been stopped before the first row was removed.
    installation.add_tasks(KEYS[:3])
    for note in folder.glob("runs/*-removed"):
        shutil.rmtree(note)

    again = run_archive(job_on(installation), plan)

    assert again["removed"]["tasks"] == 3
    assert again["copied"] == {}
    # These were written again after they were copied, and have the higher write time.
    assert left(installation)[0] == [0, 1, 2, 3, 4, 5]
    assert spark.read.parquet(str(folder / "tasks")).count() == 3


def test_an_embedded_node_must_be_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """Its folder has one writer at a time."""
    settings = settings_of(tmp_path / "data")
    with Scheduler(settings, executor=Idle):
        opened = Installation(settings)
        with pytest.raises(FolderLocked):
            run_archive(job_on(opened), ArchivePlan(str(tmp_path / "archive"), 0))
        opened.close()
    assert spark.version
