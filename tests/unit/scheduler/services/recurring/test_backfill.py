"""Backfill: the tasks of past times of a recurring schedule, each once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourhand.actors.model.values.errors import InvalidTask, NoSuchSchedule
from hourhand.payloads import AesGcm, PayloadCodecs
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.recurring.backfill import TIMES_MAX
from tests.unit.scheduler.services.recurring.test_recurring import MIDNIGHT, Bench

DAY = timedelta(days=1)


def days(*numbers: int) -> list[str]:
    """Return the uniqueness keys of the midnights so many days after the first one."""
    return [f"n@{(MIDNIGHT + each * DAY).date().isoformat()}T00:00:00.000Z" for each in numbers]


def unique(found: Any) -> list[str]:
    """Return the uniqueness keys of keys."""
    return [each.uniqueness_key for each in found]


def test_a_backfill_makes_each_past_time_once_however_often_it_is_asked_for() -> None:
    """Also what the schedule made itself is not made again, and no excepted date is."""
    bench = Bench()
    client = bench.client
    client.schedule_recurring("n", cron="@daily", except_dates=["2026-02-27"]).result()
    bench.advance(days=2)
    span = MIDNIGHT - 4 * DAY, MIDNIGHT + 2 * DAY
    planned = client.backfill_recurring("n", *span, dry_run=True)
    before = list(bench.ran)
    first = client.backfill_recurring("n", *span)
    at_once = client.backfill_recurring("n", *span)
    bench.advance(hours=1)
    again = client.backfill_recurring("n", *span)
    bench.advance(hours=1)

    assert planned == first
    assert before == days(1, 2)
    assert unique(first.made) == days(-4, -3, -1, 0)
    assert unique(first.there) == days(1)
    assert len(at_once.made) + len(at_once.there) == 5
    assert (unique(again.made), unique(again.there)) == ([], days(-4, -3, -1, 0, 1))
    assert sorted(bench.ran) == sorted([*days(-4, -3, -1, 0), *days(1, 2)])


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "allow"])
def test_no_policy_leaves_a_time_of_a_backfill_out(overlap: Any) -> None:
    """The tasks of one ordering id run one after the other, in the order of the times."""
    bench = Bench()
    bench.client.schedule_recurring("n", cron="@daily", overlap=overlap).result()
    bench.advance(minutes=1)
    bench.client.backfill_recurring("n", MIDNIGHT - 5 * DAY, MIDNIGHT)
    bench.advance(minutes=1)

    ran = bench.ran if overlap != "allow" else sorted(bench.ran)
    assert ran == days(-5, -4, -3, -2, -1)


@pytest.mark.parametrize(
    ("day", "times"),
    [
        ("2026-03-29", ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),
        ("2026-10-25", ["10-24T00:30", "10-25T00:30", "10-26T01:30"]),
    ],
)
def test_a_backfill_over_a_change_of_the_clock_has_the_times_of_the_schedule(
    day: str, times: list[str]
) -> None:
    """A time that the clock skips is made right after the gap, one that it shows twice once."""
    noon = datetime.fromisoformat(f"{day}T12:00:00Z")
    bench = Bench(now=noon + 10 * DAY)
    bench.client.schedule_recurring("n", cron="30 2 * * *", time_zone="Europe/Berlin").result()
    bench.advance(minutes=1)
    found = bench.client.backfill_recurring("n", noon - 1.5 * DAY, noon + DAY)

    assert unique(found.made) == [f"n@2026-{each}:00.000Z" for each in times]


def test_the_expiry_of_a_backfilled_task_counts_from_now() -> None:
    """By its own time it would be over before it starts."""
    bench = Bench()
    rule: dict[str, Any] = {"cron": "@daily", "expires_after": timedelta(hours=1)}
    bench.client.schedule_recurring("n", **rule).result()
    bench.advance(minutes=1)
    bench.client.backfill_recurring("n", MIDNIGHT - DAY, MIDNIGHT)
    bench.scheduler.run_due()

    assert bench.ran == days(-1)


def test_sealed_data_stays_sealed() -> None:
    """The caller of a backfill needs no key."""
    bench = Bench()
    sealing = PayloadCodecs(AesGcm({"k": b"k" * 32}))
    client = SchedulerClient(Settings(), ports=bench.ports(), payloads=sealing)
    client.schedule_recurring("n", cron="@daily", data={"a": 1}).result()
    bench.advance(minutes=1)
    (key,) = bench.client.backfill_recurring("n", MIDNIGHT - DAY, MIDNIGHT).made
    bench.scheduler.run_due()

    assert client.find_task(key).data == {"a": 1}
    assert bench.client.find_task(key).data is None


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        (-1, 0.5, "lies in the future"),
        (0, -1, "ends before it begins"),
        (-TIMES_MAX, 0, f"more than 1,000 times: .* up to {MIDNIGHT.date()}"),
    ],
)
def test_a_span_that_is_not_past_or_too_long_is_refused(
    begin: float, end: float, told: str
) -> None:
    """The error says what to do, and nothing is made."""
    bench = Bench(now=MIDNIGHT + timedelta(minutes=1))
    bench.client.schedule_recurring("n", cron="@daily").result()
    bench.scheduler.run_due()
    first = MIDNIGHT + begin * DAY

    with pytest.raises(InvalidTask, match=told):
        bench.client.backfill_recurring("n", first, MIDNIGHT + end * DAY + timedelta(minutes=1))
    with pytest.raises(NoSuchSchedule):
        bench.client.backfill_recurring("m", first, MIDNIGHT)
    with pytest.raises(InvalidTask, match="zone"):
        bench.client.backfill_recurring("n", datetime(2026, 1, 1), MIDNIGHT)  # noqa: DTZ001
    assert bench.ran == []


def test_the_longest_span_is_made() -> None:
    """Exactly the bound is accepted."""
    bench = Bench(now=datetime(2026, 3, 1, tzinfo=UTC))
    bench.client.schedule_recurring("n", cron="@daily").result()
    bench.scheduler.run_due()

    found = bench.client.backfill_recurring("n", MIDNIGHT - TIMES_MAX * DAY, MIDNIGHT)
    assert len(found.made) == TIMES_MAX
