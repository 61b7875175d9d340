"""Recurring schedules that are declared again, as an application does whenever it starts."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand import SchedulerClient, Settings
from hourhand.actors.model.values.instant import to_millis
from hourhand.payloads import AesGcm, PayloadCodecs
from tests.unit.scheduler.services.recurring.test_recurring import MIDNIGHT, Bench

EVERY_HOUR: dict[str, Any] = {"every": timedelta(hours=1)}


@pytest.mark.parametrize("between", ["nothing", "restart", "crash"])
def test_an_equal_rule_that_is_set_again_keeps_the_rhythm(between: str) -> None:
    """As an application does that declares its schedules whenever it starts."""
    bench = Bench()
    for _ in range(24):
        bench.client.schedule_recurring("n", **EVERY_HOUR, data={"a": 1, "b": [2]}).result()
        bench.advance(minutes=50)
        if between != "nothing":
            getattr(bench.scheduler, between)()

    assert bench.ran == bench.expected(*range(3_600, 20 * 3_600 + 1, 3_600))


def test_an_equal_rule_that_is_set_again_leaves_a_paused_schedule_paused() -> None:
    """Only a resume ends the pause."""
    bench = Bench()
    bench.client.schedule_recurring("n", cron="0 * * * *").result()
    bench.advance(hours=1)
    bench.client.pause_recurring("n").result()
    bench.scheduler.restart()
    bench.client.schedule_recurring("n", cron="0 * * * *").result()
    bench.advance(hours=5)
    paused = list(bench.ran)
    bench.client.resume_recurring("n").result()
    bench.advance(hours=1)

    assert paused == bench.expected(3_600)
    assert bench.ran == bench.expected(3_600, 7 * 3_600)


@pytest.mark.parametrize("ends", [{"count_max": 3}, {"ends": MIDNIGHT + timedelta(seconds=35)}])
def test_an_equal_rule_that_is_set_again_counts_on_and_stays_at_its_end(
    ends: dict[str, Any],
) -> None:
    """Also after its last task, until the end is forgotten."""
    bench = Bench()
    rule: dict[str, Any] = {"every": timedelta(seconds=10), **ends}
    for _ in range(3):
        bench.client.schedule_recurring("n", **rule).result()
        bench.advance(seconds=11)
    if "count_max" in ends:
        for _ in range(5):
            bench.client.schedule_recurring("n", **rule).result()
            bench.advance(days=3)

    assert bench.ran == bench.expected(10, 20, 30)


def test_an_ended_schedule_that_was_deleted_begins_anew() -> None:
    """A deletion that was asked for while it still ran is known once it has ended."""
    bench = Bench()
    rule: dict[str, Any] = {"every": timedelta(seconds=10), "count_max": 1}
    bench.client.schedule_recurring("n", **rule).result()
    bench.advance(seconds=14)
    bench.client.delete_recurring("n").result()
    bench.client.schedule_recurring("n", **rule).result()
    bench.advance(minutes=5)

    assert bench.ran == bench.expected(10, 24)


def test_a_deleted_schedule_that_is_set_again_begins_anew() -> None:
    """Somebody wants it once more, with its whole count."""
    bench = Bench()
    rule: dict[str, Any] = {"every": timedelta(seconds=10), "count_max": 2}
    bench.client.schedule_recurring("n", **rule).result()
    bench.advance(seconds=14)
    bench.client.delete_recurring("n").result()
    bench.client.schedule_recurring("n", **rule).result()
    bench.advance(minutes=5)

    assert bench.ran == bench.expected(10, 24, 34)


@pytest.mark.parametrize(
    "other",
    [{"data": {"a": True}}, {"data": {"a": 1.0}}, {"data": {}}, {"catch_up": timedelta(hours=2)}],
    ids=str,
)
def test_a_rule_that_differs_in_anything_begins_anew(other: dict[str, Any]) -> None:
    """Its interval too, also where Python calls both values equal."""
    bench = Bench()
    bench.client.schedule_recurring("n", **EVERY_HOUR, data={"a": 1}).result()
    bench.advance(minutes=30)
    bench.client.schedule_recurring("n", **{**EVERY_HOUR, "data": {"a": 1}, **other}).result()
    bench.advance(hours=1)

    assert bench.ran == bench.expected(5_400)


@pytest.mark.parametrize("data", [{"a": 1}, {"a": 2}], ids=["equal", "changed"])
def test_what_is_due_in_the_millisecond_of_a_declaration_is_made_once(
    data: dict[str, Any],
) -> None:
    """By the rule of before; the new one is due after that moment."""
    bench = Bench()
    bench.client.schedule_recurring("n", cron="0 * * * *", data={"a": 1}).result()
    bench.advance(minutes=59, seconds=59)
    bench.scheduler.stop()
    bench.scheduler.clock.advance(1_000)
    bench.client.schedule_recurring("n", cron="0 * * * *", data=data).result()
    bench.scheduler.restart()
    bench.advance(hours=1)

    assert bench.ran == bench.expected(3_600, 7_200)


def test_an_equal_rule_is_known_through_its_seal() -> None:
    """Each envelope has a nonce of its own, so the client compares what is in it."""
    keys = {"new": b"n" * 32, "old": b"o" * 32}

    def client(*order: str) -> SchedulerClient:
        sealing = PayloadCodecs(AesGcm({each: keys[each] for each in order}))
        return SchedulerClient(Settings(), ports=bench.ports(), payloads=sealing)

    bench = Bench()
    old, new = client("old"), client("new", "old")
    for each in (old, old, new, new):
        each.schedule_recurring("n", **EVERY_HOUR, data={"a": 1}).result()
        bench.advance(minutes=50)
    found = bench.scheduler.client.find_recurring("n")

    # The third one is sealed with another key, and so its rule is another one.
    assert found is not None
    assert found.state.anchor_ms == to_millis(MIDNIGHT) + 100 * 60_000
    assert "new" in str(found.rule.envelope)
