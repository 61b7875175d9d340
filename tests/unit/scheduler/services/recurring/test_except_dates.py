"""Dates on which a recurring schedule is not due, by the calendar of its time zone."""

from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, from_millis, to_millis
from hourhand.scheduler.services.recurring.requests import rule_of
from hourhand.scheduler.services.recurring.rule import EXCEPT_DATES_MAX, checked_rule
from tests.unit.scheduler.services.recurring.test_recurring import Bench

CLOCKS = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    # The clock skips midnight.
    ("America/Sao_Paulo", "2018-11-04"),
    # It shows midnight twice, and with it a minute of the next date before the rest of this one.
    ("America/St_Johns", "2010-11-06"),
    ("America/Havana", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-05"),
    # The date after this one was left out altogether.
    ("Pacific/Apia", "2011-12-29"),
]


@pytest.mark.parametrize(("zone", "day"), CLOCKS)
@pytest.mark.parametrize(
    "times", [{"every_ms": 5_400_000}, {"cron": "0,45 */6 * * *"}, {"cron": "30 0,2,23 * * *"}]
)
def test_an_excepted_date_has_no_times_and_every_other_has_all(
    zone: str, day: str, times: dict[str, Any]
) -> None:
    """Also where the clock changes on that date, or beside it."""
    local, first = ZoneInfo(zone), date.fromisoformat(day)
    begin = to_millis(datetime.fromisoformat(f"{day}T00:00:00Z") - timedelta(days=1))
    end = begin + 4 * 86_400_000

    def due(**more: Any) -> list[str]:
        rule = checked_rule(ordering_id="o", time_zone=zone, **times, **more)
        within = takewhile(lambda each: each < end, rule.times_after(begin, begin))
        return [from_millis(each).astimezone(local).isoformat() for each in within]

    for count in (1, 2):
        excepted = [(first + timedelta(days=each)).isoformat() for each in range(count)]
        wanted = [each for each in due() if each[:10] not in excepted]
        assert due(except_dates=excepted) == wanted
        assert 0 < len(wanted) < len(due())


def test_an_interval_of_a_tenth_of_a_second_passes_years_of_dates_at_once() -> None:
    """A thousand dates one after the other are a thousand steps, and not a billion."""
    first = date(2026, 1, 1)
    dates = [(first + timedelta(days=each)).isoformat() for each in range(EXCEPT_DATES_MAX)]
    rule = checked_rule(ordering_id="o", every_ms=100, except_dates=dates)
    begin_ms = to_millis(datetime(2026, 1, 1, tzinfo=UTC))

    expected = to_millis(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=EXCEPT_DATES_MAX))
    assert rule.next_after(begin_ms - 1, begin_ms) == expected


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "America/New_York"])
def test_the_last_date_of_the_calendar_can_be_excepted(zone: str) -> None:
    """Nothing is due after it."""
    rule = checked_rule(
        ordering_id="o", every_ms=3_600_000, time_zone=zone, except_dates=["9999-12-31"]
    )
    from_ms = INSTANT_MAX_MS - 3 * 86_400_000

    found = list(rule.times_after(from_ms, from_ms))
    assert found
    assert found[-1] <= INSTANT_MAX_MS


def test_the_order_and_repetition_of_dates_make_no_other_rule() -> None:
    """A calendar that is written in another order changes nothing."""
    rule = rule_of("n", cron="@daily", except_dates=(date(2026, 12, 26), "2026-12-25"))
    other = rule_of("n", cron="0 0 * * *", except_dates=["20261225", "2026-12-26", "2026-12-25"])

    assert rule == other
    assert rule.except_dates == ["2026-12-25", "2026-12-26"]


@pytest.mark.parametrize(
    ("dates", "told"),
    [
        (["2026-02-30"], "date of the calendar, as 2026-12-25"),
        ([1], "except_dates"),
        ("2026-12-25", "a list of dates is needed"),
        (7, "a list of dates is needed"),
        ([datetime(2026, 12, 25, tzinfo=UTC)], "is a time: a date is needed"),
        ([date(2026, 1, 1)] * (EXCEPT_DATES_MAX + 1), "except_dates"),
    ],
    ids=str,
)
def test_what_is_not_a_list_of_dates_is_refused(dates: Any, told: str) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidTask, match=told):
        rule_of("n", cron="@daily", except_dates=dates)


def test_a_trigger_runs_on_an_excepted_date() -> None:
    """It is a time of its own; what the rule is due at on this date is not made later either."""
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(hours=12), except_dates=[date(2026, 3, 1)]
    ).result()
    bench.advance(hours=13)
    bench.client.trigger_recurring("n").result()
    bench.advance(hours=12)

    assert bench.ran == [
        *(f"{each}!" for each in bench.expected(13 * 3_600)),
        *bench.expected(86_400),
    ]
