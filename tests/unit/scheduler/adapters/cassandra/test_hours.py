"""Which hours a read and a delete go through, and in which steps."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.model.bucket import HOUR_MS
from scheduler.adapters.cassandra.hours import (
    DELETED_HOURS_MAX,
    LISTING_HOURS_MIN,
    READ_HOURS_MAX,
    HourWalk,
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


class _Hours:
    """Answers the questions of a walk as a table with rows in some hours does."""

    def __init__(self, *filled: int) -> None:
        self.filled = {number * HOUR_MS for number in filled}
        self.probed: list[int] = []

    def prepare(self, cql: str) -> Any:
        """Bind to the values themselves."""
        return SimpleNamespace(bind=lambda values: values)

    def execute(self, bound: tuple[int, list[int]]) -> list[tuple[int]]:
        """Say which of the hours hold a row."""
        self.probed.append(len(bound[1]))
        return [(hour,) for hour in bound[1] if hour in self.filled]


@pytest.mark.parametrize("filled", [(), (0,), (1, 2), (30,), (5, 9, 10, 11, 12, 167), range(168)])
def test_a_walk_finds_every_hour_that_holds_rows_and_asks_seldom(filled: Sequence[int]) -> None:
    """In order and once each; a week without rows costs seven requests, not one an hour."""
    session = _Hours(*filled)
    walk = HourWalk(cast("Any", session), "task_schedule")

    groups = [list(hours) for hours in walk.groups(0, 0, 168 * HOUR_MS)]

    read = [hour for hours in groups for hour in hours]
    assert read == sorted(set(read))
    assert session.filled <= set(read) <= session.filled | {hour * HOUR_MS for hour in range(31)}
    assert session.probed == [64, 73]
    assert max(map(len, groups)) <= READ_HOURS_MAX


def test_a_range_of_a_few_hours_is_read_without_asking_first() -> None:
    """What a node loads, but for what it missed."""
    session = _Hours(0, 1, 2)
    walk = HourWalk(cast("Any", session), "task_schedule")

    assert [len(hours) for hours in walk.groups(0, 0, 31 * HOUR_MS)] == [1, 2, 4, 8, 16]
    assert session.probed == []
