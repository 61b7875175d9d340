"""When a rule is due: cron, intervals, bounds, and both switches of daylight saving time."""

from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import format_instant, parse_instant
from hourhand.scheduler.services.recurring.rule import checked_name, checked_rule, next_times

BERLIN = "Europe/Berlin"


def times(after: str, count: int, **values: object) -> list[str]:
    """Return the next times of a rule, in UTC."""
    rule = checked_rule(ordering_id="o", **values)
    after_ms = parse_instant(after)
    return [
        format_instant(each).removesuffix(".000Z")
        for each in islice(rule.times_after(after_ms, after_ms), count)
    ]


def test_a_cron_expression_is_due_by_the_wall_clock_of_its_zone() -> None:
    """Nine in Berlin is eight in winter and seven in summer, by UTC."""
    assert times("2026-03-27T00:00:00Z", 4, cron="0 9 * * *", time_zone=BERLIN) == [
        "2026-03-27T08:00:00",
        "2026-03-28T08:00:00",
        "2026-03-29T07:00:00",
        "2026-03-30T07:00:00",
    ]


def test_a_time_that_the_clock_skips_is_due_right_after_the_gap() -> None:
    """In the night of 29 March 2026 it is 3:00 after 1:59."""
    assert times("2026-03-28T00:00:00Z", 3, cron="30 2 * * *", time_zone=BERLIN) == [
        "2026-03-28T01:30:00",
        "2026-03-29T01:00:00",
        "2026-03-30T00:30:00",
    ]


def test_a_time_that_the_clock_shows_twice_is_due_once() -> None:
    """In the night of 25 October 2026 it is 2:00 after 2:59, once."""
    assert times("2026-10-24T00:00:00Z", 3, cron="30 2 * * *", time_zone=BERLIN) == [
        "2026-10-24T00:30:00",
        "2026-10-25T00:30:00",
        "2026-10-26T01:30:00",
    ]


@pytest.mark.parametrize("after", ["2026-10-25T00:30:00Z", "2026-10-25T01:15:00Z"])
def test_whoever_asks_within_the_repeated_hour_gets_the_next_day(after: str) -> None:
    """Never the time that was passed already."""
    assert times(after, 1, cron="30 2 * * *", time_zone=BERLIN) == ["2026-10-26T01:30:00"]


def test_expressions_with_a_star_go_by_elapsed_time() -> None:
    """Every half hour stays every half hour through both switches."""
    assert times("2026-03-29T00:00:00Z", 4, cron="*/30 * * * *", time_zone=BERLIN) == [
        "2026-03-29T00:30:00",
        "2026-03-29T01:00:00",
        "2026-03-29T01:30:00",
        "2026-03-29T02:00:00",
    ]
    assert times("2026-10-25T00:00:00Z", 4, cron="*/30 * * * *", time_zone=BERLIN) == [
        "2026-10-25T00:30:00",
        "2026-10-25T01:00:00",
        "2026-10-25T01:30:00",
        "2026-10-25T02:00:00",
    ]


def test_calendar_expressions() -> None:
    """The last day of a month, its last Friday, the second Monday; seconds."""
    begin = "2026-01-31T12:00:00Z"
    assert times(begin, 2, cron="0 0 L * *") == ["2026-02-28T00:00:00", "2026-03-31T00:00:00"]
    assert times(begin, 2, cron="0 0 * * FRIL".replace("FRI", "5")) == [
        "2026-02-27T00:00:00",
        "2026-03-27T00:00:00",
    ]
    assert times(begin, 1, cron="0 0 * * 1#2") == ["2026-02-09T00:00:00"]
    assert times(begin, 2, cron="*/20 * * * * *") == ["2026-01-31T12:00:20", "2026-01-31T12:00:40"]
    assert times("2026-03-01T00:00:00Z", 1, cron="0 0 29 2 *") == ["2028-02-29T00:00:00"]


def test_an_interval_counts_from_its_start_without_drift() -> None:
    """Whenever somebody asks."""
    rule = checked_rule(ordering_id="o", every_ms=7_000)

    assert rule.next_after(1_000, 1_000) == 8_000
    assert rule.next_after(8_000, 1_000) == 15_000
    assert rule.next_after(14_999, 1_000) == 15_000
    assert rule.next_after(7_000_000_003, 1_000) == 7_000_001_000


@given(
    every_ms=st.integers(100, 10**12),
    anchor_ms=st.integers(0, 10**13),
    after_ms=st.integers(0, 10**13),
)
def test_an_interval_is_next_due_after_and_within_one_interval(
    every_ms: int, anchor_ms: int, after_ms: int
) -> None:
    """And never before its first time."""
    rule = checked_rule(ordering_id="o", every_ms=every_ms)

    due_ms = rule.next_after(after_ms, anchor_ms)

    assert due_ms is not None
    assert due_ms > after_ms
    assert (due_ms - anchor_ms) % every_ms == 0
    assert due_ms - every_ms <= max(after_ms, anchor_ms)


def test_bounds_in_time() -> None:
    """From the start, the start included, to the end, the end left out."""
    begin, end = parse_instant("2026-01-02T00:00:00Z"), parse_instant("2026-01-04T00:00:00Z")
    assert times("2025-01-01T00:00:00Z", 5, cron="0 0 * * *", starts_ms=begin, ends_ms=end) == [
        "2026-01-02T00:00:00",
        "2026-01-03T00:00:00",
    ]
    assert times("2025-01-01T00:00:00Z", 2, every_ms=3_600_000, starts_ms=begin) == [
        "2026-01-02T00:00:00",
        "2026-01-02T01:00:00",
    ]


def test_jitter_is_the_same_whoever_asks_and_stays_in_its_window() -> None:
    """Otherwise a repetition would make another task."""
    rule = checked_rule(ordering_id="o", every_ms=1_000, jitter_ms=500)
    found = [rule.jittered_ms("n", due) - due for due in range(0, 1_000_000, 1_000)]

    assert found == [rule.jittered_ms("n", due) - due for due in range(0, 1_000_000, 1_000)]
    assert min(found) >= 0
    assert max(found) <= 500
    assert len(set(found)) > 300


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "schedule: it says no time: give cron or every$"),
        (
            {"cron": "* * * * *", "every_ms": 1_000},
            "cron and every are both given: give one of them$",
        ),
        ({"cron": "61 * * * *"}, "cron: this is not a cron expression: Bad minute"),
        ({"cron": "* * *"}, "Wrong number of fields"),
        ({"cron": ""}, "not a cron expression"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "\x00"}, "cron"),
        ({"every_ms": 99}, "every_ms: at least 100 is needed, got 99"),
        ({"every_ms": True}, "every_ms"),
        ({"every_ms": 1_000, "time_zone": "Mars/Olympus"}, "no time zone"),
        ({"every_ms": 1_000, "time_zone": "../../etc/passwd"}, "no time zone"),
        ({"every_ms": 1_000, "overlap": "explode"}, "overlap"),
        ({"every_ms": 1_000, "count_max": 0}, "count_max"),
        ({"every_ms": 1_000, "unknown": 1}, "unknown"),
    ],
)
def test_what_can_be_no_rule_is_refused_with_the_reason(
    values: dict[str, object], complaint: str
) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidTask, match=complaint):
        checked_rule(ordering_id="o", **values)


@pytest.mark.parametrize("name", ["", "x" * 1_001, "\ud800", 7, None])
def test_what_can_be_no_name_is_refused(name: object) -> None:
    """It is part of an ordering id."""
    with pytest.raises(InvalidTask):
        checked_name(name)


def test_the_last_year_is_the_end() -> None:
    """Nothing is due after it, and nothing fails."""
    last = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    rule = checked_rule(ordering_id="o", cron="0 0 1 1 *")
    assert rule.next_after(parse_instant(last.isoformat()), 0) is None


def test_next_times_are_told_in_utc_and_in_the_zone() -> None:
    """For the eyes of an operator."""
    rule = checked_rule(ordering_id="o", cron="0 9 * * *", time_zone=BERLIN)

    assert next_times(rule, parse_instant("2026-03-28T12:00:00Z"), 0, 1) == [
        "2026-03-29T07:00:00.000Z 2026-03-29T09:00:00+02:00"
    ]
