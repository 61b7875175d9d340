"""Which version of Hourhand may open a folder: segments keep out one that does not know them."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import SchemaMissing
from hourhand.scheduler.adapters.completion_segments import SEGMENT_ROWS_MIN
from hourhand.scheduler.adapters.embedded.bulk import open_bulk
from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from hourhand.scheduler.ports.bulk import BulkTable
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, settings_of

WRITE_TIME = 5 << EPOCH_SHIFT
BEFORE_SEGMENTS = replace(STORE, unversioned=())


def as_rows(folder: Path) -> Settings:
    """Name a folder that is to hold no segments."""
    return Settings(embedded=EmbeddedSettings(folder=folder, completion_segments=False))


def successes(number: int, first_ms: int = 0) -> list[Completion]:
    """Return plain successes of one hour."""
    keys = [TaskKey(first_ms + each, f"id-{each}", "u") for each in range(number)]
    return [Completion(key, CompletionResult.SUCCESS, 7, 1, 1, 2) for key in keys]


def write(settings: Settings, *groups: Sequence[Completion]) -> None:
    """Open the stores, write each group with a write time of its own, and close them."""
    stores = open_stores(settings)
    for number, group in enumerate(groups):
        stores.status.insert_completions(0, group, WRITE_TIME + number).result(WAIT_S)
    stores.close()


def found(settings: Settings) -> list[Completion]:
    """Return all that is stored of the first hour."""
    stores = open_stores(settings)
    before, end = TaskKey(-1, "", ""), TaskKey(HOUR_MS, "", "")
    completions = list(stores.status.load_completions(0, before, end).result(WAIT_S))
    stores.close()
    return completions


def open_before_segments(folder: Path) -> None:
    """Open the store file as a version does that does not know segments."""
    file = replace(store_file(folder), schema=BEFORE_SEGMENTS)
    open_connection(file).close()


def segments_in(folder: Path) -> int:
    """Count them."""
    with closing(open_connection(store_file(folder))) as connection:
        count: int = connection.execute("SELECT count(*) FROM completion_segment").fetchone()[0]
    return count


def test_a_version_before_opens_a_folder_until_the_first_segment(tmp_path: Path) -> None:
    """Few successes at a time stay rows."""
    write(settings_of(tmp_path), successes(SEGMENT_ROWS_MIN - 1))
    assert segments_in(tmp_path) == 0
    open_before_segments(tmp_path)

    write(settings_of(tmp_path), successes(SEGMENT_ROWS_MIN))
    assert segments_in(tmp_path) == 1
    with pytest.raises(SchemaMissing, match="upgrade Hourhand"):
        open_before_segments(tmp_path)


def test_a_version_before_opens_it_again_once_segments_are_rows(tmp_path: Path) -> None:
    """More segments than are turned in one transaction, and nothing that they held is lost."""
    groups = [successes(SEGMENT_ROWS_MIN, 100 * number) for number in range(45)]
    write(settings_of(tmp_path), *groups)
    written = found(settings_of(tmp_path))
    assert len(written) == 45 * SEGMENT_ROWS_MIN
    assert segments_in(tmp_path) == 45

    assert found(as_rows(tmp_path)) == written
    assert segments_in(tmp_path) == 0
    open_before_segments(tmp_path)


def test_without_segments_successes_are_rows(tmp_path: Path) -> None:
    """However many there are."""
    write(as_rows(tmp_path), successes(10 * SEGMENT_ROWS_MIN))

    assert len(found(settings_of(tmp_path))) == 10 * SEGMENT_ROWS_MIN
    assert segments_in(tmp_path) == 0


def test_what_is_turned_into_a_row_loses_against_a_later_row(tmp_path: Path) -> None:
    """Its write time is the segment's."""
    group = successes(SEGMENT_ROWS_MIN)
    reopened = Completion(group[3].key, CompletionResult.REOPENED, 9, 1, None, 3)
    write(settings_of(tmp_path), group, [reopened])

    assert found(as_rows(tmp_path))[3] == reopened


def test_p5_hours_are_swept_of_the_segments_that_were_there_and_of_no_later_one(
    tmp_path: Path,
) -> None:
    """Another owner may have written since; a sweep of an owner that is none any more is late."""
    opened = settings_of(tmp_path)
    before, after = successes(SEGMENT_ROWS_MIN), successes(SEGMENT_ROWS_MIN, 1_000)
    write(opened, before, after)

    for write_time, left in ((WRITE_TIME - 1, before + after), (WRITE_TIME, after)):
        stores = open_stores(opened)
        stores.status.delete_statuses(0, 0, HOUR_MS, write_time).result(WAIT_S)
        stores.close()
        assert found(opened) == left


def test_p5_a_job_deletes_entries_as_it_read_them_and_none_that_was_written_since(
    tmp_path: Path,
) -> None:
    """A key may have run again."""
    opened, group = settings_of(tmp_path), successes(SEGMENT_ROWS_MIN)
    write(opened, group)
    with closing(open_bulk(opened)) as bulk:
        buckets = bulk.list_buckets(BulkTable.STATUSES, [0], 0, HOUR_MS)
        read = list(bulk.scan(BulkTable.STATUSES, buckets, 0, HOUR_MS))
    again = [msgspec.structs.replace(each, offset=8) for each in group]
    stores = open_stores(opened)
    stores.status.insert_completions(0, again, WRITE_TIME + 1).result(WAIT_S)
    stores.close()

    with closing(open_bulk(opened)) as bulk:
        for bucket, page in read:
            bulk.delete_rows(BulkTable.STATUSES, bucket, page)

    assert found(opened) == again and segments_in(tmp_path) == 1


def test_of_a_row_and_a_segment_the_later_one_stands(tmp_path: Path) -> None:
    """By range, whichever was written first, and so does an entry of the later of two segments."""
    group = successes(SEGMENT_ROWS_MIN)
    reopened = Completion(group[3].key, CompletionResult.REOPENED, 9, 1, None, 3)
    again = [msgspec.structs.replace(each, offset=8) for each in group]

    write(settings_of(tmp_path / "row"), group, [reopened])
    assert found(settings_of(tmp_path / "row"))[3] == reopened
    write(settings_of(tmp_path / "segment"), [reopened], group)
    assert found(settings_of(tmp_path / "segment")) == group
    write(settings_of(tmp_path / "two"), group, again)
    assert found(settings_of(tmp_path / "two")) == again
