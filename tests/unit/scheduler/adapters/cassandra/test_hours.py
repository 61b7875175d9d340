"""Which hours a delete goes through: the latest one by one, in steps."""

import pytest

from actors.model.bucket import HOUR_MS
from scheduler.adapters.cassandra.hours import (
    DELETED_HOURS_MAX,
    LISTING_HOURS_MIN,
    delete_steps,
)


@pytest.mark.parametrize("first", [-1_500, 0, 491_834])
@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 10_000, 10_001, 490_000])
def test_each_late_hour_is_deleted_once_a_bounded_number_at_a_time(first: int, count: int) -> None:
    """Whether it holds rows or not, in order, before and after 1970; the others by their rows."""
    hours = [(first + number) * HOUR_MS for number in range(count)]

    old, recent = delete_steps(first * HOUR_MS, (first + count) * HOUR_MS)

    steps = [list(step) for step in recent]
    assert [*old, *(hour for step in steps for hour in step)] == hours
    assert len(old) == max(0, count - LISTING_HOURS_MIN)
    assert all(0 < len(step) <= DELETED_HOURS_MAX for step in steps)


@pytest.mark.parametrize("bounds", [(1, HOUR_MS), (0, HOUR_MS - 1), (-1, 0)])
def test_half_an_hour_is_refused_before_anything_is_deleted(bounds: tuple[int, int]) -> None:
    """At the call, not at the first step."""
    with pytest.raises(ValueError, match="not the start of an hour"):
        delete_steps(*bounds)
