"""A client that knows a registry refuses a recurring schedule that nothing in it would run."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hourhand import Hourhand
from hourhand.errors import InvalidExecutor, InvalidTask
from hourhand.testing import Execution, VirtualScheduler
from tests.builders import Idle

NIGHT = "30 2 * * *"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def app() -> Hourhand:
    """A registry with two kinds."""
    made = Hourhand()

    @made.task("report")
    def report() -> None: ...

    @made.task("invoice")
    def invoice() -> None: ...

    return made


@pytest.fixture
def scheduler(app: Hourhand) -> Iterator[VirtualScheduler]:
    """A node and a client that are given the registry alone."""
    with VirtualScheduler(executors=app, now=START) as made:
        yield made


def _nights(scheduler: VirtualScheduler, days: int) -> list[Execution]:
    """Let days pass, and return what ran of the schedule."""
    ran = scheduler.advance(timedelta(days=days))
    return [each for each in ran if each.key.ordering_id == "nightly"]


def test_a_schedule_without_a_kind_is_refused_beside_a_registry(
    scheduler: VirtualScheduler,
) -> None:
    """Its first night would be held for ever, and the others skipped because of it."""
    refused = scheduler.client.schedule_recurring("nightly", cron=NIGHT)

    with pytest.raises(InvalidTask, match=r"'nightly' would never run: it has no kind.*kind="):
        refused.result(timeout=5)
    assert scheduler.client.list_recurring() == []


def test_a_schedule_of_an_unknown_kind_is_refused_with_the_closest(
    scheduler: VirtualScheduler,
) -> None:
    """And how a kind of another program is scheduled."""
    refused = scheduler.client.schedule_recurring("nightly", cron=NIGHT, kind="reprot")

    reason = r"run invoice, report, and no kind 'reprot'.*without executors=.*did you mean report\?"
    with pytest.raises(InvalidTask, match=reason):
        refused.result(timeout=5)


def test_a_schedule_of_a_known_kind_runs(scheduler: VirtualScheduler) -> None:
    """Each night."""
    scheduler.client.schedule_recurring("nightly", cron=NIGHT, kind="report").result(timeout=5)

    assert len(_nights(scheduler, 3)) == 3


def test_a_default_executor_runs_what_has_no_kind(app: Hourhand) -> None:
    """It is not refused where it runs."""
    with VirtualScheduler(Idle, executors=app, now=START) as scheduler:
        scheduler.client.schedule_recurring("nightly", cron=NIGHT).result(timeout=5)

        assert len(_nights(scheduler, 3)) == 3


def test_a_client_without_executors_takes_every_kind() -> None:
    """It knows of no kinds."""
    with VirtualScheduler(Idle, now=START) as scheduler:
        accepted = scheduler.client.schedule_recurring("nightly", cron=NIGHT, kind="others")

        assert accepted.result(timeout=5).key


@pytest.mark.parametrize("zone", [ZoneInfo("Europe/Berlin"), "Europe/Berlin"])
def test_a_time_zone_is_taken_as_a_name_or_a_zone(
    scheduler: VirtualScheduler, zone: ZoneInfo | str
) -> None:
    """Stored as its name."""
    schedule = scheduler.client.schedule_recurring
    schedule("nightly", cron=NIGHT, time_zone=zone, kind="report").result(timeout=5)
    scheduler.run_due()

    [found] = scheduler.client.list_recurring()
    assert found.rule.time_zone == "Europe/Berlin"
    assert _nights(scheduler, 1)[0].at == datetime(2026, 1, 1, 1, 30, tzinfo=UTC)


def test_utc_is_a_time_zone(scheduler: VirtualScheduler) -> None:
    """Also as ``datetime`` has it."""
    zone: Any = UTC
    accepted = scheduler.client.schedule_recurring("n", cron=NIGHT, time_zone=zone, kind="report")

    assert accepted.result(timeout=5).key


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=1)), 7, b"UTC"])
def test_what_is_not_a_time_zone_is_refused_in_plain_words(
    scheduler: VirtualScheduler, zone: Any
) -> None:
    """An offset has no name that a rule could keep."""
    refused = scheduler.client.schedule_recurring("n", cron=NIGHT, time_zone=zone, kind="report")

    with pytest.raises(InvalidTask, match="time_zone: a name such as 'Europe/Berlin', or a Zone"):
        refused.result(timeout=5)


def test_executors_without_kinds_are_refused_by_a_client(app: Hourhand) -> None:
    """A function of the registry is not the registry."""

    @app.task("third")
    def third() -> None: ...

    one: Any = third
    with pytest.raises(
        InvalidExecutor, match=r"executors is <task function 'third'>.*executors=ap"
    ):
        VirtualScheduler(executors=one)
