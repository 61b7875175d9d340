"""Instants: what is written is read back, and nothing becomes later than it was written."""

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.values.instant import (
    format_instant,
    from_millis,
    parse_instant,
    to_millis,
)
from tests.property.strategies import any_text, instants_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(instants_ms)
def test_what_is_written_is_read_back(time_ms: int) -> None:
    """Writing and reading an instant loses nothing."""
    assert parse_instant(format_instant(time_ms)) == time_ms


@given(instants_ms | st.integers(0, 9 * 10**12) | st.integers(-2, 2).map((1000 * 2**33).__add__))
def test_a_datetime_is_exact(time_ms: int) -> None:
    """To the microsecond, by whichever way it is made."""
    made = from_millis(time_ms)

    assert made == _EPOCH + timedelta(0, time_ms // 1000, time_ms % 1000 * 1000)
    assert made.tzinfo is UTC


@given(instants_ms)
def test_the_text_always_has_three_digits_and_a_z(time_ms: int) -> None:
    """The text has one length, so texts sort like instants."""
    text = format_instant(time_ms)

    assert len(text) == 24
    assert text[19] == "."
    assert text[23] == "Z"


@given(instants_ms, instants_ms)
def test_texts_sort_like_instants(one: int, other: int) -> None:
    """Comparing two texts is comparing two times."""
    assert (format_instant(one) < format_instant(other)) == (one < other)


@given(st.integers(-62_135_596_800, 253_402_300_799), st.text("0123456789", min_size=1))
def test_an_instant_is_never_later_than_it_was_written(second: int, digits: str) -> None:
    """However many fractional digits a text has, less than a millisecond is cut."""
    text = format_instant(second * 1000)[:19] + f".{digits}Z"
    written_ms = second * 1000 + Fraction(int(digits), 10 ** len(digits)) * 1000

    read_ms = parse_instant(text)

    assert read_ms <= written_ms < read_ms + 1


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-1439, 1439).map(
            lambda minutes: timezone(timedelta(minutes=minutes))
        ),
    )
)
def test_a_datetime_is_cut_to_the_millisecond_before_it(instant: datetime) -> None:
    """A zone moves nothing; microseconds are cut, before 1970 as well."""
    back = from_millis(to_millis(instant))

    assert back.tzinfo is UTC
    assert timedelta(0) <= instant - back < timedelta(milliseconds=1)


@given(any_text)
def test_any_other_text_is_refused_with_value_error(text: str) -> None:
    """No text raises anything but ValueError, and the message shows it."""
    with pytest.raises(ValueError, match="is not an RFC 3339 instant"):
        parse_instant(text)
