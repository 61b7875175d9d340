"""Instants by example: what RFC 3339 allows, and what it does not."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from freezegun import freeze_time

from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    cut_to_millis,
    format_instant,
    from_millis,
    parse_instant,
    to_millis,
)
from tests.builders import NOW, NOW_MS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-02-09T01:41:12.959Z", NOW_MS),
        ("2026-02-09t01:41:12.959z", NOW_MS),
        ("2026-02-09 01:41:12.959Z", NOW_MS),
        ("2026-02-09T03:11:12.959+01:30", NOW_MS),
        ("2026-02-08T20:41:12.959-05:00", NOW_MS),
        ("2026-02-09T01:41:12.959-00:00", NOW_MS),
        ("2026-02-09T01:41:12.95999999999999Z", NOW_MS),
        ("2026-02-09T01:41:12.9999999Z", NOW_MS + 40),
        ("2026-02-09T01:41:12.9Z", NOW_MS - 59),
        ("2026-02-09T01:41:12Z", NOW_MS - 959),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00.000Z", INSTANT_MIN_MS),
        ("9999-12-31T23:59:59.9999999Z", INSTANT_MAX_MS),
    ],
)
def test_every_rfc_3339_instant_is_read(text: str, expected: int) -> None:
    """Case, separator, zone and number of digits are the producer's choice."""
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.000Z", "2017-01-01T00:59:60+01:00"],
)
def test_a_leap_second_is_the_number_unix_time_gives_it(text: str) -> None:
    """It shares its number with the second after it, so a task of it is not early."""
    assert parse_instant(text) == to_millis(datetime(2017, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "1770601272959",
        "2026-02-09",
        "2026-02-09T01:41Z",
        "2026-02-09T01:41:12.959",
        "2026-02-09T01:41:12.Z",
        "2026-02-09T01:41:12,959Z",
        "2026-02-30T01:41:12.959Z",
        "2026-02-09T24:00:00.000Z",
        "2026-02-09T01:41:60.000Z",
        "2026-02-09T01:41:12+24:00",
        "0000-12-31T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.999-12:00",
        "9999-12-31T23:59:60Z",
        "2026-02-09T01:41:12.\u0669\u0665\u0669Z",  # Arabic digits
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """The error shows the text."""
    with pytest.raises(ValueError, match="is not an RFC 3339 instant with a time zone") as caught:
        parse_instant(text)

    assert repr(text) in str(caught.value)


def test_an_error_does_not_repeat_a_text_without_end() -> None:
    """It travels in a header of the dead-letter topic."""
    with pytest.raises(ValueError, match="is not an RFC 3339") as caught:
        parse_instant("9" * 1_000_000)

    assert len(str(caught.value)) < 200


def test_an_instant_is_written_with_three_digits() -> None:
    """Zeros are written too."""
    assert format_instant(NOW_MS) == "2026-02-09T01:41:12.959Z"
    assert format_instant(0) == "1970-01-01T00:00:00.000Z"
    assert format_instant(-1) == "1969-12-31T23:59:59.999Z"
    assert format_instant(INSTANT_MIN_MS) == "0001-01-01T00:00:00.000Z"


def test_datetimes_and_millis_are_the_same_moment() -> None:
    """Both ways, and only with a zone."""
    assert to_millis(NOW) == NOW_MS
    assert from_millis(NOW_MS) == NOW
    for year in (1, 1600, 1969, 2600, 9999):
        far = NOW.replace(year=year)
        assert from_millis(to_millis(far)) == far
    with pytest.raises(ValueError, match="has no time zone"):
        to_millis(NOW.replace(tzinfo=None))


@pytest.mark.parametrize("microsecond", [0, 1, 999, 1_000, 959_000, 959_999])
def test_cutting_keeps_whole_milliseconds_and_is_told_in_utc(microsecond: int) -> None:
    """Whatever the zone; an instant that is whole already is the same one."""
    instant = datetime(2026, 2, 9, 1, 41, 12, microsecond, tzinfo=UTC)
    local = instant.astimezone(timezone(timedelta(hours=5, minutes=45)))
    whole = instant.replace(microsecond=microsecond // 1000 * 1000)

    for cut in (cut_to_millis(instant), cut_to_millis(local)):
        assert cut == whole
        assert cut.tzinfo is UTC
    assert cut_to_millis(whole) is whole


def test_text_is_read_under_frozen_time() -> None:
    """Freezegun puts a subclass of ``datetime`` into every module, which msgspec does not read."""
    with freeze_time("2030-01-01"):
        for text in ("2029-02-09T01:41:12.959Z", "2029-02-09T01:41:12.9591+00:00"):
            assert format_instant(parse_instant(text)) == "2029-02-09T01:41:12.959Z"
        with pytest.raises(ValueError, match="not an RFC 3339 instant"):
            parse_instant("2029-02-09T01:41:12.959")
        assert type(from_millis(NOW_MS)) is type(NOW)
