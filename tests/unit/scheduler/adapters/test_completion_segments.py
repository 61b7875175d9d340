"""What goes into segments, how they are cut, and which version of a key stands."""

from operator import itemgetter

import pytest

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.adapters.completion_segments import (
    SEGMENT_ROWS_MAX,
    SEGMENT_ROWS_MIN,
    in_key_order,
    merged,
    plain_by_hour,
    segments_of,
    unpacked,
)

OWNED = 3 << EPOCH_SHIFT
key_of = itemgetter(slice(0, 3))


def successes(number: int, first_ms: int = 0) -> list[Completion]:
    """Return plain successes, one a millisecond."""
    keys = [TaskKey(first_ms + each, f"id-{each}", f"u-{each}") for each in range(number)]
    return [Completion(key, CompletionResult.SUCCESS, 7, 1, 1, 2) for key in keys]


def test_few_of_an_hour_and_what_jobs_write_are_rows() -> None:
    """Hours are judged each for itself."""
    few, many = successes(SEGMENT_ROWS_MIN - 1), successes(SEGMENT_ROWS_MIN, HOUR_MS)

    assert plain_by_hour([*few, *many], OWNED) == ({HOUR_MS: many}, few)
    assert plain_by_hour(many, OWNED - (3 << EPOCH_SHIFT)) == ({}, many)


@pytest.mark.parametrize(
    "other",
    [
        Completion(TaskKey(0, "a", "u"), CompletionResult.FAILURE, 7),
        Completion(TaskKey(0, "a", "u"), CompletionResult.SUCCESS, 7, reason=""),
        Completion(TaskKey(0, "a", "u"), CompletionResult.SUCCESS, 7, moved_to_ms=0),
        Completion(TaskKey(0, "a", "u"), CompletionResult.SUCCESS, 7, for_good=True),
        Completion(TaskKey(0, "a" * 100, "u" * 101), CompletionResult.SUCCESS, 7),
    ],
)
def test_what_a_segment_cannot_tell_is_a_row(other: Completion) -> None:
    """Whatever is more than a success, and ids that would make segments long."""
    plain = successes(SEGMENT_ROWS_MIN, 1)

    assert plain_by_hour([other, *plain], OWNED) == ({0: plain}, [other])


def test_segments_are_cut_in_key_order_and_unpack_to_what_was_packed() -> None:
    """Each tells the times of its first and its last entry."""
    plain = successes(SEGMENT_ROWS_MAX + 1)

    first, second = segments_of(reversed(plain))

    assert (first.first_ms, first.last_ms) == (0, SEGMENT_ROWS_MAX - 1)
    assert (second.first_ms, second.last_ms) == (SEGMENT_ROWS_MAX, SEGMENT_ROWS_MAX)
    entries = [*unpacked(first.body), *unpacked(second.body)]
    assert entries == [(each.key, 7, 1, 1, 2) for each in plain]
    assert unpacked(second.body, [TaskKey(0, "a", "absent")]) == []
    assert unpacked(second.body, [plain[-1].key]) == entries[-1:]


def test_of_rows_and_entries_the_later_version_of_each_key_stands() -> None:
    """Overlapping segments come in key order, versions of one key included."""
    segments = [
        (0, [(0, "a", "u", "first", 1), (5, "a", "u", "first", 1)]),
        (0, [(0, "b", "u", "second", 3), (4, "a", "u", "second", 3), (5, "a", "u", "second", 3)]),
        (5, [(5, "b", "u", "third", 4)]),
    ]
    rows = [(0, "a", "u", "row", 2), (5, "a", "u", "row", 2), (6, "a", "u", "row", 2)]

    standing = list(merged(rows, in_key_order(segments, key_of), key_of))

    assert [(*row[:2], row[3]) for row in standing] == [
        (0, "a", "row"),
        (0, "b", "second"),
        (4, "a", "second"),
        (5, "a", "second"),
        (5, "b", "third"),
        (6, "a", "row"),
    ]
