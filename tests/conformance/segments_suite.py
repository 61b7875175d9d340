"""Completion segments: whatever is written and deleted in whatever order reads as rows alone do.

Bound to every store that writes segments.  The memory store, which knows none, says what is right.
"""

from collections.abc import Mapping
from typing import cast

from hypothesis import strategies as st

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.completion_segments import SEGMENT_ROWS_MIN
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.ports.bulk import Bucket, BulkStore, BulkTable

HOUR = 491_834 * HOUR_MS
KEYS = [
    TaskKey(HOUR + hour * HOUR_MS + number // 2 * 1_000, "ab"[number % 2], "u")
    for hour in (0, 1)
    for number in range(SEGMENT_ROWS_MIN + 8)
]
EVER = (KEYS[0]._replace(scheduled_ms=HOUR - 1), KEYS[-1]._replace(uniqueness_key="z"))
END_MS = HOUR + 2 * HOUR_MS

_writes = st.tuples(
    st.sampled_from([0, 3, SEGMENT_ROWS_MIN + 8]) | st.integers(0, len(KEYS) - 1),
    st.sampled_from([1, 3, SEGMENT_ROWS_MIN, len(KEYS)]),
    st.sampled_from([1, 1, 1, 1, 0]),
)
_deletes = st.sampled_from([(0, 1), (1, 2), (0, 2)])

Step = tuple[int, tuple[int, ...]]
"""The epoch that writes, and first place, number and kind of what it writes, or the hours that
it deletes."""
STEPS = st.lists(st.tuples(st.integers(1, 12), _writes | _deletes), max_size=8)
ORDERS = st.permutations(range(1, 9))
"""Number of each step among the writes of its epoch."""


def check_segments(
    stores: Stores, bulk: BulkStore, partition: int, steps: list[Step], order: list[int]
) -> Mapping[TaskKey, Completion]:
    """Take the steps, and read by range, by key and in bulk, also after single rows were deleted
    before their write time and at it; return what is left.
    """
    rows_alone = open_memory_stores(MemoryStores())
    for number, (epoch, step) in enumerate(steps):
        at = (epoch << EPOCH_SHIFT) | order[number]
        for each in (stores, rows_alone):
            _apply(each, partition, number, step, at)

    _check_ranges(stores, rows_alone, partition)
    expected = rows_alone.status.find_completions(partition, KEYS).result()
    assert stores.status.find_completions(partition, KEYS).result() == expected
    buckets = bulk.list_buckets(BulkTable.STATUSES, [partition], HOUR, END_MS)
    assert buckets == sorted(
        {Bucket(partition, key.scheduled_ms // HOUR_MS * HOUR_MS) for key in expected}
    )
    rows = [row for _, page in bulk.scan(BulkTable.STATUSES, buckets, HOUR, END_MS) for row in page]
    assert [row[:11] for row in rows] == [_values(expected[key]) for key in sorted(expected)]
    _check_parts(bulk, partition, rows)
    _check_half_an_hour(bulk, partition, rows)

    for bucket, page in list(bulk.scan(BulkTable.STATUSES, buckets, HOUR, END_MS)):
        # As of a job that read what was there before.
        earlier = [(*row[:-1], cast("int", row[-1]) - 1) for row in page]
        bulk.delete_rows(BulkTable.STATUSES, bucket, earlier)
    assert stores.status.find_completions(partition, KEYS).result() == expected

    deleted = set()
    for bucket, page in list(bulk.scan(BulkTable.STATUSES, buckets, HOUR, END_MS)):
        # Twice, as a job does that begins again.
        for _ in range(2):
            bulk.delete_rows(BulkTable.STATUSES, bucket, page[::2])
        deleted |= {row[:3] for row in page[::2]}
    left = {key: each for key, each in expected.items() if key not in deleted}
    assert stores.status.find_completions(partition, KEYS).result() == left
    assert [
        each.key for each in stores.status.load_completions(partition, *EVER).result()
    ] == sorted(left)
    return left


def _apply(stores: Stores, partition: int, number: int, step: tuple[int, ...], at: int) -> None:
    """Write from a place on, or delete hours.  ``number`` makes contents of each step its own."""
    if len(step) == 2:
        first_ms, end_ms = (HOUR + each * HOUR_MS for each in step)
        stores.status.delete_statuses(partition, first_ms, end_ms, at).result()
        return
    start, count, result = step
    closed_as = CompletionResult.SUCCESS if result else CompletionResult.REOPENED
    written = [
        Completion(key, closed_as, number, 1, None, number) for key in KEYS[start : start + count]
    ]
    stores.status.insert_completions(partition, written, at).result()


def _check_ranges(stores: Stores, rows_alone: Stores, partition: int) -> None:
    for after, up_to in [EVER, *zip(KEYS[:-5:7], KEYS[5::7], strict=False)]:
        expected = rows_alone.status.load_completions(partition, after, up_to).result()
        loaded = stores.status.load_completions(partition, after, up_to).result()
        assert list(loaded) == list(expected)


def _check_parts(bulk: BulkStore, partition: int, rows: list[tuple[object, ...]]) -> None:
    """A reader of the whole table in parts, with few columns, finds the same keys once."""
    names = ["partition", "uniqueness_key", "scheduled_ms", "ordering_id", "write_time"]
    found = [
        values[1:]
        for part in range(3)
        for page in bulk.scan_part(BulkTable.STATUSES, part, 3, names)
        for values in zip(*(page[name] for name in names), strict=True)
        if values[0] == partition
    ]
    assert sorted(found) == sorted((row[2], row[0], row[1], row[-1]) for row in rows)


def _check_half_an_hour(bulk: BulkStore, partition: int, rows: list[tuple[object, ...]]) -> None:
    first_ms, end_ms = KEYS[5].scheduled_ms, KEYS[-5].scheduled_ms
    buckets = [Bucket(partition, HOUR), Bucket(partition, HOUR + HOUR_MS)]
    pages = bulk.scan(BulkTable.STATUSES, buckets, first_ms, end_ms)
    found = [row for _, page in pages for row in page]
    assert found == [row for row in rows if first_ms <= row[0] < end_ms]  # type: ignore[operator]


def _values(each: Completion) -> tuple[object, ...]:
    return (
        *each.key,
        each.result.value,
        each.offset,
        each.attempts,
        each.started_ms,
        each.finished_ms,
        each.moved_to_ms,
        each.for_good,
        each.reason,
    )
