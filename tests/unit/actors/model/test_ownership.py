"""Watermarks and write times by example."""

import threading

import pytest

from actors.model.bucket import HOUR_MS
from actors.model.ownership import (
    Ownership,
    Watermark,
    first_advance_ms,
    initial_watermark,
)
from tests.builders import NOW_MS


def test_a_write_time_is_the_epoch_and_a_counter() -> None:
    """No clock has a part in it."""
    ownership = Ownership(partition=3, epoch=2)

    assert [ownership.next_write_time() for _ in range(2)] == [2 * 2**40 + 1, 2 * 2**40 + 2]


def test_write_times_asked_for_by_several_threads_are_all_different() -> None:
    """Two writes with one time would be decided by the store, at random."""
    ownership = Ownership(partition=3, epoch=1)
    times: list[int] = []
    barrier = threading.Barrier(4)

    def write() -> None:
        barrier.wait(timeout=10)
        times.extend(ownership.next_write_time() for _ in range(5_000))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert len(set(times)) == 20_000


def test_completions_may_not_be_swept_before_their_schedule_rows() -> None:
    """A schedule row without its completion would run again (P5)."""
    with pytest.raises(ValueError, match="before their schedule rows"):
        Watermark(
            watermark_ms=NOW_MS,
            loaded_until_ms=NOW_MS,
            tasks_swept_until_ms=0,
            statuses_swept_until_ms=HOUR_MS,
        )


def test_a_partition_without_an_owner_begins_at_the_time_given() -> None:
    """Sweeping begins with the hour of that time, so no row before it is looked for."""
    watermark = initial_watermark(5 * HOUR_MS + 7)

    assert watermark == Watermark(
        watermark_ms=5 * HOUR_MS + 7,
        loaded_until_ms=5 * HOUR_MS + 7,
        next_offset=None,
        stragglers=(),
        tasks_swept_until_ms=5 * HOUR_MS,
        statuses_swept_until_ms=5 * HOUR_MS,
    )


def test_partitions_advance_one_after_the_other() -> None:
    """Within their first interval, and none at once."""
    first = [first_advance_ms(partition, 5_000) for partition in range(16)]
    assert len(set(first)) == 16
    assert min(first) > 0
    assert max(first) == 5_000
    assert first_advance_ms(16, 5_000) == first[0]


def test_p16_an_ownership_continues_what_the_same_process_held_just_before() -> None:
    """Claims raise the epoch by one: one that is left out was another owner's."""
    first = Ownership(3, 4)
    second = Ownership(3, 5, first)
    third = Ownership(3, 6, second)
    later = Ownership(3, 8, third)

    assert [third.continues(epoch) for epoch in (3, 4, 5, 6, 7)] == [False, True, True, True, False]
    assert [later.continues(epoch) for epoch in (6, 7, 8)] == [False, False, True]
