"""Buckets: every millisecond is in exactly one hour."""

from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.values.bucket import HOUR_MS, hour_of, hours_between
from hourhand.actors.model.values.instant import from_millis
from tests.property.strategies import instants_ms

spans_ms = st.integers(0, 50 * HOUR_MS)


@given(instants_ms)
def test_an_hour_holds_the_time_it_is_of(time_ms: int) -> None:
    """The bucket starts on a full hour, at or before the time, less than an hour before."""
    start = hour_of(time_ms)

    assert start <= time_ms < start + HOUR_MS
    assert (from_millis(start).minute, from_millis(start).second) == (0, 0)


@given(instants_ms, spans_ms)
def test_the_hours_of_a_range_are_those_that_share_a_millisecond_with_it(
    start_ms: int, span_ms: int
) -> None:
    """No hour of the range is missed, and none outside is read."""
    end_ms = start_ms + span_ms

    hours = list(hours_between(start_ms, end_ms))

    if span_ms == 0:
        assert hours == []
    else:
        assert hours == list(range(hour_of(start_ms), hour_of(end_ms - 1) + 1, HOUR_MS))
