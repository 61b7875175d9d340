"""From filters to a selection: never narrower than what the filters let through."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS, from_millis
from hourhand.scheduler.pipeline.reading import Selection, selection_of

HOUR = hour_of(1_770_601_272_959)
START = from_millis(HOUR)
MICRO = timedelta(microseconds=1)
TIME, BUCKET = ("scheduled_time",), ("hour",)
LOWEST, HIGHEST = INSTANT_MIN_MS, INSTANT_MAX_MS + 1


@pytest.mark.parametrize(
    ("wanted", "first_ms", "end_ms"),
    [
        (EqualTo(TIME, START), HOUR, HOUR + 1),
        (GreaterThan(TIME, START), HOUR, HIGHEST),
        (GreaterThanOrEqual(TIME, START + MICRO), HOUR, HIGHEST),
        (LessThan(TIME, START), LOWEST, HOUR),
        (LessThan(TIME, START + MICRO), LOWEST, HOUR + 1),
        (LessThanOrEqual(TIME, START), LOWEST, HOUR + 1),
        (LessThan(TIME, START.replace(tzinfo=None)), LOWEST, HOUR),
        (In(TIME, (START, START + timedelta(hours=3))), HOUR, HOUR + 3 * HOUR_MS + 1),
        (EqualTo(BUCKET, START), HOUR, HOUR + HOUR_MS),
        (LessThan(BUCKET, START), LOWEST, HOUR),
        (LessThan(BUCKET, START + MICRO), LOWEST, HOUR + HOUR_MS),
        (LessThanOrEqual(BUCKET, START), LOWEST, HOUR + HOUR_MS),
        (GreaterThanOrEqual(BUCKET, START), HOUR, HIGHEST),
        (IsNotNull(TIME), LOWEST, HIGHEST),
        (Not(EqualTo(TIME, START)), LOWEST, HIGHEST),
        (EqualTo(TIME, datetime(1, 1, 1, tzinfo=UTC)), LOWEST, LOWEST + 1),
    ],
)
def test_bounds_of_time(wanted: Filter, first_ms: int, end_ms: int) -> None:
    """Exact where the bound is a whole millisecond, wider where it is not."""
    selection = selection_of([wanted])

    assert (selection.first_ms, selection.end_ms) == (first_ms, end_ms)


def test_filters_narrow_together() -> None:
    """All must hold."""
    selection = selection_of(
        [
            In(("partition",), (1, 2, 3)),
            EqualTo(("partition",), 2),
            In(("ordering_id",), ("a", "b")),
            In(("state",), ("pending",)),
            StringStartsWith(("ordering_id",), "a"),
        ]
    )

    assert selection.partitions == frozenset({2})
    assert selection.ordering_ids == frozenset({"a", "b"})
    assert selection.states == frozenset({"pending"})


def test_an_ordering_id_names_its_partition() -> None:
    """The others are not looked into."""
    selection = selection_of([EqualTo(("ordering_id",), "customer-7")])

    assert selection.partitions_of(16) == {partition_of("customer-7", 16)}
    assert Selection().partitions_of(3) == {0, 1, 2}


@pytest.mark.parametrize(
    "filters",
    [
        [EqualTo(("partition",), 1), EqualTo(("partition",), 2)],
        [GreaterThan(TIME, START), LessThan(TIME, START - MICRO)],
    ],
)
def test_what_nothing_can_pass_is_empty(filters: list[Filter]) -> None:
    """Then no store is asked at all."""
    assert selection_of(filters).is_empty()
    assert not Selection().is_empty()
