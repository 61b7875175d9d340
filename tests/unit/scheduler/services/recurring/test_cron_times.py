"""The times of cron expressions, beside those that the wall clock shows."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import from_millis, to_millis
from hourhand.scheduler.services.recurring.rule import checked_rule, read_rule

CHANGES = {
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "America/St_Johns": ("2026-03-08", "2026-11-01"),
    "Antarctica/Troll": ("2026-03-29", "2026-10-25"),
    "Asia/Kathmandu": ("2026-03-29",),
    "America/Havana": ("2026-03-08", "2026-11-01"),
}
NIGHTS = [(zone, day) for zone, days in CHANGES.items() for day in days]
EVERY = range(60)
HOURS = range(24)
ELAPSED: dict[str, tuple[Collection[int], Collection[int]]] = {
    "* * * * *": (HOURS, EVERY),
    "30 * * * *": (HOURS, {30}),
    "*/20 9-10 * * *": ({9, 10}, {0, 20, 40}),
    "*/15 1-3 * * *": ({1, 2, 3}, {0, 15, 30, 45}),
    "0 */2 * * *": (range(0, 24, 2), {0}),
    "0 */6 * * *": (range(0, 24, 6), {0}),
    "45 */3 * * *": (range(0, 24, 3), {45}),
    "0 0 3 * * *": ({3}, {0}),
    "0 30 1 * * *": ({1}, {30}),
    "0 10,50 2,3 * * *": ({2, 3}, {10, 50}),
}
"""Expressions that go by elapsed time, with the hours and minutes that they name."""


def due(cron: str, zone: str, begin: datetime, end: datetime) -> list[str]:
    """Return the times of an expression within a time, as the wall clock of the zone shows them."""
    rule = read_rule(ordering_id="o", cron=cron, time_zone=zone)
    times = map(from_millis, rule.times_after(to_millis(begin) - 1, 0))
    local = ZoneInfo(zone)
    return [each.astimezone(local).isoformat() for each in takewhile(lambda at: at < end, times)]


def minutes(begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yield each minute of a time."""
    while begin < end:
        yield begin
        begin += timedelta(minutes=1)


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
def test_by_elapsed_time_it_is_due_whenever_the_wall_clock_shows_what_it_names(
    zone: str, day: str
) -> None:
    """Through both changes of a clock, by two hours, one or half of one."""
    begin = datetime.fromisoformat(f"{day}T00:00:00+00:00") - timedelta(days=1)
    end, local = begin + timedelta(days=3), ZoneInfo(zone)
    shown = [each.astimezone(local) for each in minutes(begin, end)]

    for cron, (hours, wanted) in ELAPSED.items():
        expected = [at.isoformat() for at in shown if at.hour in hours and at.minute in wanted]
        assert due(cron, zone, begin, end) == expected, cron


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
@pytest.mark.parametrize("clock", ["0:00", "0:30", "1:30", "1:45", "2:00", "2:15", "3:00", "9:00"])
def test_a_time_of_day_is_due_once_a_day(zone: str, day: str, clock: str) -> None:
    """At its first moment, and right after the gap where the clock skips it."""
    hour, _, minute = clock.partition(":")
    local, step = ZoneInfo(zone), timedelta(minutes=1)
    noon = datetime.fromisoformat(f"{day}T12:00:00+00:00").astimezone(local)
    begin, end = (noon + timedelta(days=each) for each in (-2, 2))
    expected = []
    for each in range(-3, 4):
        date = noon.date() + timedelta(days=each)
        at = datetime(date.year, date.month, date.day, int(hour), int(minute), tzinfo=local)
        while at != at.astimezone(UTC).astimezone(local):
            at += step
        expected.append(at.isoformat())

    within = [each for each in expected if begin <= datetime.fromisoformat(each) < end]
    assert due(f"{int(minute)} {hour} * * *", zone, begin, end) == within


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        (" @MIDNIGHT ", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_macro_means_the_expression_that_is_stored(given: str, written: str) -> None:
    """So nodes that do not read macros run it, and the two are one rule."""
    assert checked_rule(ordering_id="o", cron=given).cron == written


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("@every 1h30m", "give the interval instead"),
        ("@reboot", "the macros are @yearly, .*, @hourly: write one of them"),
        ("TZ=Europe/Berlin 0 3 * * *", "write '0 3 \\* \\* \\*' and give time_zone"),
        ("CRON_TZ=UTC 0 3 * * *", "write '0 3 \\* \\* \\*' and give time_zone"),
        ("0 0 L-2 * *", "L-2 .* is not read: write L for the last day"),
        ("0 0 1,l-10 * *", "l-10 .* is not read"),
        ("0 0 15W * *", "15W .* is not read: write the day itself, LW"),
        ("0 0 12 ? * MON-FRI", "there is no \\? here: write '0 0 12 \\* \\* MON-FRI'"),
    ],
)
def test_what_others_take_is_refused_with_what_to_write(given: str, advice: str) -> None:
    """The expression that means the same is named."""
    with pytest.raises(InvalidTask, match=advice):
        checked_rule(ordering_id="o", cron=given)


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "Factory"])
def test_a_zone_that_depends_on_the_machine_is_refused(zone: str) -> None:
    """A schedule that was accepted with one is read anyway."""
    with pytest.raises(InvalidTask, match="time zone"):
        checked_rule(ordering_id="o", cron="0 3 * * *", time_zone=zone)


@pytest.mark.parametrize(
    ("rule", "gap_ms"),
    [
        ({"every_ms": 60_000}, 60_000),
        ({"cron": "* * * * *"}, 60_000),
        ({"cron": "*/5 * * * * *"}, 5_000),
        ({"cron": "0,20 * * * *"}, 1_200_000),
        ({"cron": "50 23,0 * * *"}, 3_600_000),
    ],
    ids=str,
)
def test_jitter_above_the_interval_is_refused(rule: dict[str, object], gap_ms: int) -> None:
    """The next time would come before this one ran; what was accepted before is read."""
    checked_rule(ordering_id="o", jitter_ms=gap_ms, **rule)
    with pytest.raises(InvalidTask, match=f"make it {gap_ms} at most"):
        checked_rule(ordering_id="o", jitter_ms=gap_ms + 1, **rule)
    assert read_rule(ordering_id="o", jitter_ms=gap_ms + 1, **rule).jitter_ms == gap_ms + 1


@pytest.mark.parametrize("cron", ["0 3 * * *", "0 0 1 * *", "0 0 29 2 *", "0 0 L * *"])
def test_jitter_of_a_day_goes_with_what_is_due_once_a_day_or_less(cron: str) -> None:
    """It is the longest jitter that there is."""
    rule = checked_rule(ordering_id="o", cron=cron, jitter_ms=86_400_000)

    assert rule.jitter_ms == 86_400_000
