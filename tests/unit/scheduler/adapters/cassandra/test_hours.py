"""Which hours a read and a delete go through, and in which steps."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourhand.actors.model.values.bucket import HOUR_MS, SURELY_DELETED_HOURS
from hourhand.scheduler.adapters.cassandra.hours import (
    DELETED_HOURS_MAX,
    LISTING_HOURS_MIN,
    PROBED_HOURS_MAX,
    READ_HOURS_MAX,
    HourWalk,
    whole_hours,
)


@pytest.mark.parametrize("bounds", [(1, HOUR_MS), (0, HOUR_MS - 1), (-1, 0)])
def test_half_an_hour_is_refused_before_anything_is_deleted(bounds: tuple[int, int]) -> None:
    """At the call, before anything is sent."""
    with pytest.raises(ValueError, match="not the start of an hour"):
        whole_hours(*bounds)


class _Hours:
    """Answers the questions of a walk as a table with rows in some hours does."""

    def __init__(self, *filled: int) -> None:
        self.filled = {number * HOUR_MS for number in filled}
        self.probed: list[int] = []
        self.listed = 0

    def prepare(self, cql: str) -> Any:
        """Bind to the values themselves."""
        return SimpleNamespace(bind=lambda values: values)

    def execute(self, bound: tuple[int, list[int]]) -> list[tuple[int]]:
        """Say which of the hours hold a row."""
        self.probed.append(len(bound[1]))
        return [(hour,) for hour in bound[1] if hour in self.filled]

    def scan(self, _bound: object, wanted: Callable[[tuple[int, int]], bool]) -> list[Any]:
        """List the hours of the table."""
        self.listed += 1
        return [row for hour in self.filled if wanted(row := (0, hour))]


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
    """What a node loads, except for what it missed."""
    session = _Hours(0, 1, 2)
    walk = HourWalk(cast("Any", session), "task_schedule")

    assert [len(hours) for hours in walk.groups(0, 0, 31 * HOUR_MS)] == [1, 2, 4, 8, 16]
    assert session.probed == []


@pytest.mark.parametrize("first", [-1_500, 0, 491_834])
@pytest.mark.parametrize("count", [0, 1, 47, 48, 49, 999, 10_048, 10_049, 490_000])
def test_a_delete_goes_to_the_last_hours_and_to_those_with_rows(first: int, count: int) -> None:
    """A hole of half a million hours costs one look at the table, a smaller one a few probes."""
    filled = sorted({first - 1, first, first + count // 2, first + count})
    session = _Hours(*filled)
    walk = HourWalk(cast("Any", session), "task_schedule")
    first_ms, end_ms = first * HOUR_MS, (first + count) * HOUR_MS

    hours, done_ms = walk.to_delete(0, first_ms, end_ms)

    surely = range(max(first, first + count - SURELY_DELETED_HOURS), first + count)
    held = [each for each in filled if first <= each < first + count]
    assert list(hours) == [each * HOUR_MS for each in sorted({*surely, *held})]
    assert done_ms == end_ms
    asked = max(0, count - SURELY_DELETED_HOURS)
    assert session.listed == (asked > LISTING_HOURS_MIN)
    assert len(session.probed) == (0 if session.listed else -(-asked // PROBED_HOURS_MAX))


@pytest.mark.parametrize("count", [3_000, 20_000])
def test_one_delete_goes_to_a_bounded_number_of_hours(count: int) -> None:
    """It says how far it came, and the next call goes on there."""
    session = _Hours(*range(count))
    walk = HourWalk(cast("Any", session), "task_schedule")

    hours, done_ms = walk.to_delete(0, 0, count * HOUR_MS)

    assert list(hours) == list(range(0, DELETED_HOURS_MAX * HOUR_MS, HOUR_MS))
    assert done_ms == hours[-1] + HOUR_MS
