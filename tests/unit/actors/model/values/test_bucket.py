"""Hours by example."""

from hourhand.actors.model.values.bucket import HOUR_MS, hour_of, hours_between
from hourhand.actors.model.values.instant import format_instant
from tests.builders import NOW_MS


def test_the_hour_of_a_time_is_where_it_began() -> None:
    """Before 1970 as well."""
    assert format_instant(hour_of(NOW_MS)) == "2026-02-09T01:00:00.000Z"
    assert hour_of(HOUR_MS) == HOUR_MS
    assert hour_of(-1) == -HOUR_MS


def test_the_end_of_a_range_is_open() -> None:
    """A range that ends on a full hour does not touch that hour."""
    assert list(hours_between(0, 2 * HOUR_MS)) == [0, HOUR_MS]
    assert list(hours_between(HOUR_MS - 1, HOUR_MS + 1)) == [0, HOUR_MS]


def test_an_empty_range_touches_no_hour() -> None:
    """Nor does one that ends before it begins."""
    assert list(hours_between(5, 5)) == []
    assert list(hours_between(HOUR_MS + 5, HOUR_MS + 4)) == []
