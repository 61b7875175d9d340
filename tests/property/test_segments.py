"""Completion segments: whatever is written and deleted in whatever order reads as rows alone do."""

import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.model.bucket import HOUR_MS
from actors.model.key import TaskKey
from actors.model.ownership import EPOCH_SHIFT
from actors.model.status import Completion, CompletionResult
from actors.ports.store import Stores
from scheduler.adapters.embedded.bulk import open_bulk
from scheduler.adapters.embedded.connection import open_connection, version_of
from scheduler.adapters.embedded.folder import store_file
from scheduler.adapters.embedded.schema import STORE
from scheduler.adapters.embedded.segments import SEGMENT_ROWS_MIN
from scheduler.adapters.embedded.stores import open_stores
from scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from scheduler.configuration.settings import EmbeddedSettings, Settings
from scheduler.ports.bulk import Bucket, BulkTable

PARTITION = 0
HOUR = 491_834 * HOUR_MS
KEYS = [
    TaskKey(HOUR + hour * HOUR_MS + number // 2 * 1_000, "ab"[number % 2], "u")
    for hour in (0, 1)
    for number in range(SEGMENT_ROWS_MIN + 8)
]
EVER = (KEYS[0]._replace(scheduled_ms=HOUR - 1), KEYS[-1]._replace(uniqueness_key="z"))

writes = st.tuples(
    st.sampled_from([0, 3, SEGMENT_ROWS_MIN + 8]) | st.integers(0, len(KEYS) - 1),
    st.sampled_from([1, 3, SEGMENT_ROWS_MIN, len(KEYS)]),
    st.sampled_from([1, 1, 1, 1, 0]),
)
deletes = st.sampled_from([(0, 1), (1, 2), (0, 2)])
steps = st.lists(st.tuples(st.integers(1, 12), writes | deletes), max_size=8)


def apply(stores: Stores, number: int, step: tuple[int, ...], at: int) -> None:
    """Write from a place on, or delete hours.  ``number`` makes contents of each step its own."""
    if len(step) == 2:
        first_ms, end_ms = (HOUR + each * HOUR_MS for each in step)
        stores.status.delete_statuses(PARTITION, first_ms, end_ms, at).result()
        return
    start, count, result = step
    closed_as = CompletionResult.SUCCESS if result else CompletionResult.REOPENED
    written = [
        Completion(key, closed_as, number, 1, None, number) for key in KEYS[start : start + count]
    ]
    stores.status.insert_completions(PARTITION, written, at).result()


def check_way_back(folder: Path, left: Mapping[TaskKey, Completion]) -> None:
    """Turn segments into rows, as for a version that knows none, and open the folder again."""
    for in_segments in (False, True):
        chosen = EmbeddedSettings(folder=folder, completion_segments=in_segments)
        stores = open_stores(Settings(embedded=chosen))
        assert stores.status.find_completions(PARTITION, KEYS).result() == left
        stores.close()
        with closing(open_connection(store_file(folder))) as connection:
            assert version_of(connection) == STORE.version
            assert not connection.execute("SELECT 1 FROM completion_segment").fetchall()


@settings(max_examples=40, deadline=None)
@given(steps, st.permutations(range(1, 9)))
def test_segments_read_as_rows_do(
    steps: list[tuple[int, tuple[int, ...]]], order: list[int]
) -> None:
    """By range, by key and in bulk, also after single rows were deleted at their write time."""
    with tempfile.TemporaryDirectory() as folder:
        opened = Settings(embedded=EmbeddedSettings(folder=Path(folder)))
        stores, rows_alone = open_stores(opened), open_memory_stores(MemoryStores())
        for number, (epoch, step) in enumerate(steps):
            at = (epoch << EPOCH_SHIFT) | order[number]
            for each in (stores, rows_alone):
                apply(each, number, step, at)

        expected = rows_alone.status.load_completions(PARTITION, *EVER).result()
        assert list(stores.status.load_completions(PARTITION, *EVER).result()) == list(expected)
        found = stores.status.find_completions(PARTITION, KEYS).result()
        assert found == {each.key: each for each in expected}
        for after, up_to in zip(KEYS[:-5:7], KEYS[5::7], strict=False):
            part = rows_alone.status.load_completions(PARTITION, after, up_to).result()
            loaded = stores.status.load_completions(PARTITION, after, up_to).result()
            assert list(loaded) == list(part)

        bulk = open_bulk(opened)
        buckets = bulk.list_buckets(BulkTable.STATUSES, [PARTITION], HOUR, HOUR + 2 * HOUR_MS)
        held = {Bucket(PARTITION, key.scheduled_ms // HOUR_MS * HOUR_MS) for key in found}
        assert buckets == sorted(held)
        pages = list(bulk.scan(BulkTable.STATUSES, buckets, HOUR, HOUR + 2 * HOUR_MS))
        rows = [row for _, page in pages for row in page]
        assert [(row[0:3], row[4]) for row in rows] == [(e.key, e.offset) for e in expected]
        for bucket, page in pages:
            bulk.delete_rows(BulkTable.STATUSES, bucket, page[::2])
        deleted = [row[:3] for _, page in pages for row in page[::2]]
        left = stores.status.find_completions(PARTITION, KEYS).result()
        assert left == {key: each for key, each in found.items() if key not in deleted}
        bulk.close()
        stores.close()
        check_way_back(Path(folder), left)
