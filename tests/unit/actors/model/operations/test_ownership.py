"""Watermarks and write times by example."""

import threading

import pytest
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import (
    Ownership,
    Straggler,
    Watermark,
    first_advance_ms,
    initial_watermark,
    stragglers_of,
)
from hourhand.actors.model.values.bucket import HOUR_MS
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
        barrier.wait(timeout=60)
        times.extend(ownership.next_write_time() for _ in range(5_000))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

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


MARK = Watermark(
    watermark_ms=10 * HOUR_MS,
    loaded_until_ms=11 * HOUR_MS,
    next_offset=7,
    tasks_swept_until_ms=9 * HOUR_MS,
    statuses_swept_until_ms=5 * HOUR_MS,
    statuses_due_until_ms=8 * HOUR_MS,
    statuses_due_at_ms=20 * HOUR_MS,
)


def test_an_id_that_several_name_is_one_straggler_in_order_of_its_first_time() -> None:
    """The earliest of them counts."""
    found = [Straggler("a", 30), Straggler("b", 20), Straggler("a", 10), Straggler("a", 40)]

    assert stragglers_of(found) == (Straggler("a", 10), Straggler("b", 20))


def test_p8_a_lowered_mark_takes_the_swept_hours_with_it() -> None:
    """What is written there again must not be taken for deleted; what lies lower stays."""
    low = MARK.lowered_to(7 * HOUR_MS + 5)

    assert (low.watermark_ms, low.loaded_until_ms) == (7 * HOUR_MS + 5, MARK.loaded_until_ms)
    assert low.tasks_swept_until_ms == low.statuses_due_until_ms == 7 * HOUR_MS
    assert low.statuses_swept_until_ms == 5 * HOUR_MS


def test_p5_one_range_of_completions_waits_for_its_retention_at_a_time() -> None:
    """It is counted from the deletion of the rows."""
    waits = MARK.with_retention_begun(1_000, 50)
    swept = replace(MARK, statuses_swept_until_ms=8 * HOUR_MS)
    begun = swept.with_retention_begun(1_000, 50)
    done = replace(MARK, statuses_swept_until_ms=9 * HOUR_MS)

    assert waits is MARK and done.with_retention_begun(1_000, 50) is done
    assert (begun.statuses_due_until_ms, begun.statuses_due_at_ms) == (9 * HOUR_MS, 1_050)


def test_a_mark_passes_as_many_ids_as_it_may_list() -> None:
    """And stops before the first that it may not."""
    held = (Straggler("a", 1), Straggler("b", 2), Straggler("c", 3))

    free, full = MARK.advanced_to(3, held, 2), MARK.advanced_to(9, held, 2)

    assert (free.watermark_ms, free.stragglers) == (3, held[:2])
    assert (full.watermark_ms, full.stragglers) == (3, held[:2])


@pytest.mark.parametrize(
    ("now_ms", "loaded_ms", "earliest_ms", "floor_ms"),
    [
        (30, 90, None, 25),
        (12, 90, None, 10),
        (30, 20, None, 20),
        (30, 90, 15, 15),
        (30, 90, 28, 25),
    ],
)
def test_a_mark_follows_the_clock_up_to_what_is_open_or_not_loaded(
    now_ms: int, loaded_ms: int, earliest_ms: int | None, floor_ms: int
) -> None:
    """It does not go back with the clock."""
    mark = replace(MARK, watermark_ms=10)

    assert mark.floor_ms(now_ms, 5, loaded_ms, earliest_ms) == floor_ms


def test_p5_completions_are_swept_when_their_retention_is_over() -> None:
    """Not before, to the millisecond; rows are, up to the hour of the first open task."""
    behind = replace(MARK, stragglers=(Straggler("a", 6 * HOUR_MS + 1),))

    assert MARK.statuses_sweep_end_ms(20 * HOUR_MS - 1) == 5 * HOUR_MS
    assert MARK.statuses_sweep_end_ms(20 * HOUR_MS) == 8 * HOUR_MS
    assert (MARK.tasks_sweep_end_ms(), behind.tasks_sweep_end_ms()) == (10 * HOUR_MS, 6 * HOUR_MS)


def test_a_mark_is_saved_that_moved_by_its_lag_or_back_or_tells_something_else() -> None:
    """An idle partition writes little."""
    moved = [replace(MARK, watermark_ms=MARK.watermark_ms + by) for by in (-1, 0, 49, 50)]
    told = (
        replace(MARK, stragglers=(Straggler("a", 1),)),
        replace(MARK, next_offset=8),
        replace(MARK, statuses_due_at_ms=1),
    )

    assert [each.is_worth_saving(MARK, 50) for each in moved] == [True, False, False, True]
    assert not MARK.is_worth_saving(MARK, 0)
    assert all(each.is_worth_saving(MARK, 50) for each in told)


def test_an_owner_of_another_partition_and_a_mark_lowered_to_itself_are_bugs() -> None:
    """Neither can come of what is stored."""
    with pytest.raises(AssertionError):
        Ownership(2, 5, Ownership(1, 4))
    with pytest.raises(AssertionError):
        MARK.lowered_to(MARK.watermark_ms)
