"""Tests of users freeze time with freezegun, which replaces ``datetime`` in every module."""

from datetime import UTC, datetime, timedelta

from freezegun import freeze_time

from hourhand import Hourhand, Task, TaskExecutor
from hourhand.actors.model.operations.events import RecordPoisoned
from hourhand.scheduler.testing import VirtualScheduler

FROZEN = "2030-01-01 00:00:00"
BERLIN = "Europe/Berlin"


class Noted(TaskExecutor):
    """Does nothing."""

    def execute(self, task: Task) -> None: ...


def a_frozen_task(due_in: timedelta = timedelta(0), name: str = "u") -> Task:
    """Return a task whose time is an instance of freezegun's own class."""
    at = datetime.now(UTC) + due_in
    return Task(ordering_id="o", scheduled_time=at, uniqueness_key=name, data={"a": 1})


def test_a_task_that_the_kit_accepted_under_frozen_time_runs() -> None:
    """Its record is read as it was written, and is not put aside."""
    with freeze_time(FROZEN), VirtualScheduler(Noted, now=datetime.now(UTC)) as scheduler:
        scheduler.schedule_task(a_frozen_task(timedelta(hours=1))).result(0)
        ran = scheduler.advance(hours=2)
        poisoned = [each for each in scheduler.events if isinstance(each, RecordPoisoned)]

    assert [each.at.isoformat() for each in ran] == ["2030-01-01T01:00:00+00:00"]
    assert poisoned == []


def test_every_way_to_give_a_time_works_under_frozen_time() -> None:
    """Functions, commands, windows, relays and recurring schedules."""
    app = Hourhand()
    ran: list[str] = []

    @app.task("note")
    def note(what: dict[str, str]) -> None:
        ran.append(what["name"])

    with freeze_time(FROZEN), VirtualScheduler(executors=app, now=datetime.now(UTC)) as scheduler:
        now, client = datetime.now(UTC), scheduler.client
        note.schedule({"name": "after"}, ordering_id="a", after=timedelta(days=1)).result(0)
        note.schedule({"name": "at"}, ordering_id="b", at=now + timedelta(days=1)).result(0)
        moved = note.schedule({"name": "moved"}, ordering_id="c", at=now + timedelta(days=9))
        client.reschedule_task(moved.result(0).key, now + timedelta(days=1)).result(0)
        hour = timedelta(hours=1)
        note.schedule(
            {"name": "unique_for"}, ordering_id="d", uniqueness_key="1", unique_for=hour
        ).result(0)
        note.schedule(
            {"name": "debounce"}, ordering_id="d", uniqueness_key="2", debounce=hour
        ).result(0)
        client.send_later(None, b"later", "elsewhere", now + timedelta(days=1)).result(0)
        client.schedule_recurring(
            "nightly", cron="30 2 * * *", time_zone=BERLIN, kind="note", data={"name": "nightly"},
            starts=now, ends=now + timedelta(days=2),
        ).result(0)  # fmt: skip
        scheduler.advance(days=2)
        sent = [each.value for each in scheduler.messages.messages]

    assert sorted(ran) == ["after", "at", "debounce", "moved", "nightly", "nightly", "unique_for"]
    assert sent == [b"later"]


def test_a_clock_that_is_set_back_shows_an_hour_twice_under_frozen_time_too() -> None:
    """The class of freezegun forgets which of the two an instant is in; a rule does not use it."""
    app = Hourhand()

    @app.task("note")
    def note(what: dict[str, str]) -> None: ...

    with (
        freeze_time("2026-10-24 23:59:00"),
        VirtualScheduler(executors=app, now=datetime.now(UTC)) as scheduler,
    ):
        scheduler.client.schedule_recurring(
            "often", cron="*/30 2 * * *", time_zone=BERLIN, kind="note"
        ).result(0)
        ran = scheduler.advance(hours=3)
        at = [each.at.strftime("%H:%M") for each in ran if each.key.ordering_id == "often"]

    assert at == ["00:00", "00:30", "01:00", "01:30"]
