"""Recurring schedules, timers and waiting messages: what the admin API shows of them and does."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand import Hourhand
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.services.recurring.declared import LEASE_MS
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import Idle
from tests.unit.scheduler.admin.world import Api
from tests.unit.scheduler.services.relay.relay_bench import RelayBench
from tests.unit.scheduler.services.timers.timers_bench import URI, TimersBench


def api_of(scheduler: VirtualScheduler, **admin: object) -> Api:
    """Return the admin API of a virtual scheduler's installation."""
    return Api(scheduler.broker, scheduler.stores, scheduler.clock, **admin)


def pages(api: Api, path: str, what: str, **asked: Any) -> list[list[Any]]:
    """Return all pages of a listing."""
    found: list[list[Any]] = []
    after: dict[str, str] = {}
    while True:
        status, told = api.get(path, **asked, **after)
        assert status == 200, told
        found.append(told[what])
        if told["nextAfter"] is None:
            return found
        after = {"after": told["nextAfter"]}


def test_recurring_schedules_come_in_pages() -> None:
    """Each of them once, whichever partition it lies in."""
    scheduler = VirtualScheduler(Idle)
    names = [f"name/{number}" for number in range(25)]
    for name in names:
        scheduler.client.schedule_recurring(name, every=timedelta(hours=1)).result()
    scheduler.run_due()
    api = api_of(scheduler)

    found = pages(api, "/recurring", "recurring", limit=2)

    assert sorted(each["name"] for page in found for each in page) == sorted(names)
    assert max(map(len, found)) <= 3, "about as many as were asked for"
    assert api.get("/recurring", after="junk")[0] == 400


def test_a_recurring_schedule_is_shown_with_its_next_times_and_last_runs() -> None:
    """What it made is shown with what became of it."""
    scheduler = VirtualScheduler(Idle)
    rule: dict[str, Any] = {"cron": "*/10 * * * *", "time_zone": "Europe/Berlin"}
    scheduler.client.schedule_recurring("n", **rule, data={"a": 1}).result()
    scheduler.advance(minutes=25)
    api = api_of(scheduler)

    shown = api.get("/recurring/schedule", name="n", next=2)[1]["recurring"]

    assert (shown["taken"], shown["rule"]["data"], shown["orderingId"]) == (2, {"a": 1}, "n")
    assert [each["state"] for each in shown["lastRuns"]] == ["success", "success"]
    assert shown["lastRuns"][0]["key"] == shown["last"]["key"]
    assert shown["nextTimes"] == [
        {"time": "2026-01-01T00:30:00.000Z", "local": "2026-01-01T01:30:00+01:00"},
        {"time": "2026-01-01T00:40:00.000Z", "local": "2026-01-01T01:40:00+01:00"},
    ]
    (listed,) = api.get("/recurring")[1]["recurring"]
    (whole,) = api.get("/recurring", data=True)[1]["recurring"]
    assert "data" not in listed["rule"] and whole["rule"]["data"] == {"a": 1}
    assert api.get("/recurring/schedule", name="m")[1]["code"] == "unknown-schedule"
    hidden = api_of(scheduler, show_data=False).get("/recurring/schedule", name="n")[1]
    assert "data" not in hidden["recurring"]["rule"]
    assert all("taskData" not in each for each in hidden["recurring"]["lastRuns"])


def test_a_recurring_schedule_is_shown_with_its_owner_until_it_is_an_orphan() -> None:
    """Once no node of its application has run for a while, and at once if it left the set."""
    app = Hourhand(name="billing")
    app.recurring("report", every=timedelta(hours=1))(lambda: None)
    scheduler = VirtualScheduler(executors=app)
    scheduler.client.schedule_recurring("by-hand", kind="report", every=timedelta(hours=1)).result()
    scheduler.run_due()
    api = api_of(scheduler)

    def shown() -> dict[str, tuple[str | None, bool]]:
        listed = api.get("/recurring")[1]["recurring"]
        return {each["name"]: (each["owner"], each["orphaned"]) for each in listed}

    assert shown() == {"report": ("app:billing", False), "by-hand": (None, False)}
    scheduler.advance(timedelta(milliseconds=LEASE_MS))
    assert shown() == {"report": ("app:billing", True), "by-hand": (None, False)}
    alone = api.get("/recurring/schedule", name="report")[1]["recurring"]
    assert (alone["owner"], alone["orphaned"]) == ("app:billing", True)
    scheduler.restart()
    assert shown()["report"] == ("app:billing", False)


def test_past_times_of_a_recurring_schedule_are_made() -> None:
    """After a look at them; what is there is not made again."""
    scheduler = VirtualScheduler(Idle)
    scheduler.client.schedule_recurring("n", cron="@hourly").result()
    scheduler.advance(minutes=90)
    api = api_of(scheduler)
    span = {"name": "n", "starts": "2025-12-31T22:00:00Z", "ends": "2026-01-01T01:30:00Z"}

    seen = api.post("/recurring/backfill", {**span, "dryRun": True})[1]
    done = api.post("/recurring/backfill", {**span, "reason": "outage"})[1]
    scheduler.run_due()
    again = api.post("/recurring/backfill", span)[1]
    assert (seen["dryRun"], len(seen["made"]), len(seen["there"])) == (True, 3, 1)
    assert done == {**seen, "dryRun": False}
    assert (len(again["made"]), len(again["there"])) == (0, 4)
    late = {**span, "ends": "2026-01-02T00:00:00Z"}
    assert api.post("/recurring/backfill", late)[0] == 400
    assert api.post("/recurring/backfill", {**span, "name": "gone"})[0] == 404


def test_recurring_schedules_are_paused_resumed_triggered_and_ended() -> None:
    """After a look at what is meant; a name that nobody has is told, and nothing is sent for it."""
    scheduler = VirtualScheduler(Idle)
    scheduler.client.schedule_recurring("n", every=timedelta(minutes=1)).result()
    scheduler.run_due()
    api = api_of(scheduler)

    def change(name: str, **more: object) -> Any:
        status, told = api.post(
            f"/recurring/{name}", {"names": ["n", "gone"], "waitS": 0, "reason": "night", **more}
        )
        assert status == 200, told
        scheduler.advance(minutes=2)
        return told

    assert change("pause", dryRun=True)["first"] == ["n"]
    told = change("pause")
    assert (told["outcomes"], told["unknown"]) == ({"undecided": 1}, ["gone"])
    paused = api.get("/recurring/schedule", name="n")[1]["recurring"]
    assert (paused["paused"], paused["next"], paused["nextTimes"]) == (True, None, [])
    change("trigger")
    triggered = api.get("/recurring/schedule", name="n")[1]["recurring"]
    assert triggered["taken"] == paused["taken"] + 1
    change("resume")
    assert api.get("/recurring/schedule", name="n")[1]["recurring"]["paused"] is False
    change("delete")
    assert api.get("/recurring/schedule", name="n")[0] == 404
    assert change("delete") == {
        "asked": 0,
        "said": [],
        "outcomes": {},
        "results": [],
        "unknown": ["n", "gone"],
    }
    entries = api.get("/audit")[1]["entries"]
    assert [(each["action"], each["target"]) for each in reversed(entries)] == [
        (f"recurring {name}", "n") for name in ("pause", "trigger", "resume", "delete")
    ]
    assert entries[0]["detail"]["reason"] == "night"
    assert api.post("/recurring/set", {"names": ["n"]})[0] == 400


def test_a_change_is_told_with_what_its_owner_made_of_it() -> None:
    """Of two that end one schedule, the second finds none."""
    scheduler = VirtualScheduler(Idle)
    scheduler.client.schedule_recurring("n", every=timedelta(minutes=1)).result()
    scheduler.run_due()
    api = api_of(scheduler)
    first = scheduler.client.delete_recurring("n")
    told = api.post("/recurring/pause", {"names": ["n"], "waitS": 0})[1]
    place = told["results"][0]["receipt"]
    scheduler.run_due()
    task = api.get("/task", key=place["key"])[1]["task"]

    assert first.result().partition == place["partition"]
    assert task["completion"]["reason"] == "there is no such schedule"


def test_timers_come_in_pages_and_by_tag() -> None:
    """The tag of few is found among many, and each timer once."""
    bench = TimersBench()
    tagged = {"statistics": {"tag-info": [{"type": "CALL", "count": 2}]}}
    made = [bench.made(10, 60) for _ in range(8)] + [bench.made(10, 60, **tagged)]
    bench.advance(0)
    api = api_of(bench.scheduler)

    found = pages(api, "/timers", "timers", limit=3)
    (only,) = [each for page in pages(api, "/timers", "timers", tag="CALL") for each in page]

    assert sorted(f"/timers/{each['id']}" for page in found for each in page) == sorted(made)
    assert (f"/timers/{only['id']}", only["tags"]) == (made[-1], [{"type": "CALL", "count": 2}])
    assert api.get("/timers", after="x~1")[0] == 400
    assert api.get("/timers", limit=0)[0] == 400


def test_a_timer_is_shown_with_the_pop_that_is_tried_again() -> None:
    """Attempts and error included."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 2
    timer_id = bench.made(10, 20).rpartition("/")[2]
    bench.advance(11)
    api = api_of(bench.scheduler)

    shown = api.get("/timers/timer", id=timer_id)[1]["timer"]

    assert (shown["intervalMs"], shown["repeatForMs"], shown["uri"]) == (10_000, 20_000, URI)
    (pop,) = shown["open"]
    assert (pop["state"], pop["attempts"][0]["result"]) == ("retrying", "retry")
    assert shown["opaque"] == "o"
    assert "opaque" not in api.get("/timers")[1]["timers"][0]
    assert api.get("/timers", data=True)[1]["timers"][0]["opaque"] == "o"
    hidden = api_of(bench.scheduler, show_data=False)
    assert "opaque" not in hidden.get("/timers", data=True)[1]["timers"][0]
    assert api.get("/timers/timer", id="junk")[1]["code"] == "unknown-timer"


def test_timers_are_ended() -> None:
    """They pop no more, whether their owner has applied it or not."""
    bench = TimersBench()
    ids = [bench.made(10, 60).rpartition("/")[2] for _ in range(3)]
    bench.advance(11)
    assert len(bench.pops) == 3
    api = api_of(bench.scheduler)

    body = {"ids": [*ids[:2], ids[0].partition("-")[0] + "-7", "0" * 16 + "-1", "junk"]}
    assert api.post("/timers/delete", {**body, "dryRun": True})[1]["count"] == 3
    told = api.post("/timers/delete", body)[1]
    bench.advance(60)

    assert (told["outcomes"], told["unknown"]) == ({"deleted": 2}, ["0" * 16 + "-1", "junk"])
    assert len(bench.pops) == 3 + 5
    assert api.get("/timers/timer", id=ids[0])[0] == 404
    assert [each["action"] for each in api.get("/audit")[1]["entries"]] == ["timer delete"]


def test_waiting_messages_come_in_pages_earliest_first() -> None:
    """Those of the relay and of send_later, and no user's task; what is passed on is gone."""
    bench = RelayBench()
    for number in range(12):
        bench.put(b"v", id=f"id-{number}", due_in_s=100 - number, key=b"%d" % number)
    bench.scheduler.client.send_later(b"k", b"v", "topic", timedelta(seconds=10)).result()
    bench.scheduler.client.send_later(b"k", b"x" * 500_000, "big", timedelta(days=40)).result()
    bench.put(b"now", id="now", due_in_s=0)
    bench.advance(1)
    api = api_of(bench.scheduler)

    found = [each for page in pages(api, "/relay/pending", "messages", limit=5) for each in page]

    ids = [each["id"] for each in found]
    assert ids == [None, *(f"id-{number}" for number in range(11, -1, -1))]
    assert found[0]["topic"] == "topic"
    far = format_instant(bench.clock.now_ms() + 50 * 86_400_000)
    (last,) = api.get("/relay/pending", to=far, after=found[-1]["key"])[1]["messages"]
    assert (last["parked"], last["topic"]) == (True, None)
    assert api.get("/relay/pending", to="9999-01-01T00:00:00Z")[0] == 400


def test_a_page_of_messages_looks_at_so_many_tasks_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be empty, and says where to go on."""
    monkeypatch.setattr("hourhand.scheduler.admin.relayed.LOOKED_MAX", 3)
    scheduler = VirtualScheduler(Idle)
    for number in range(5):
        task = Task(
            ordering_id=f"user-{number}",
            scheduled_time=scheduler.now + timedelta(seconds=10),
            uniqueness_key="u",
            data={},
        )
        scheduler.schedule_task(task).result()
    scheduler.client.send_later(b"k", b"v", "topic", timedelta(seconds=20)).result()
    scheduler.run_due()

    found = pages(api_of(scheduler), "/relay/pending", "messages")

    assert [len(page) for page in found] == [0, 1, 0]


def test_a_message_is_found_by_its_id_wherever_it_was_moved() -> None:
    """By its own records and by an operator; its bytes are shown where that is allowed."""
    bench = RelayBench()
    bench.put(b"\xff", key=b"k", id="id-1", due_in_s=100, headers=[("h", None)])
    bench.advance(1)
    api = api_of(bench.scheduler)
    to = format_instant(bench.clock.now_ms() + 500_000)

    assert api.post("/relay/reschedule", {"ids": ["id-1"], "waitS": 0})[0] == 400
    told = api.post("/relay/reschedule", {"ids": ["id-1", "id-2"], "to": to, "waitS": 0})[1]
    bench.advance(1)
    assert (told["asked"], told["unknown"]) == (1, ["id-2"])
    shown = api.get("/relay/message", id="id-1")[1]["message"]
    assert (shown["due"], shown["messageKey"]) == (to, {"text": "k"})
    assert (shown["messageValue"], shown["headers"]) == ({"base64": "/w=="}, [["h", None]])
    hidden = api_of(bench.scheduler, show_data=False).get("/relay/message", id="id-1")[1]["message"]
    assert "messageValue" not in hidden

    assert api.post("/relay/run-now", {"ids": ["id-1"], "waitS": 0})[1]["asked"] == 1
    bench.advance(1)
    assert bench.values == [b"\xff"]
    assert api.get("/relay/message", id="id-1")[1]["code"] == "unknown-message"


def test_messages_are_cancelled_by_key_and_nothing_else_is() -> None:
    """The relay's paths act on deliveries alone."""
    bench = RelayBench()
    bench.put(id="id-1", due_in_s=100)
    bench.advance(1)
    api = api_of(bench.scheduler)
    (waiting,) = api.get("/relay/pending")[1]["messages"]

    assert api.post("/relay/cancel", {"keys": ["2026-01-01T00:00:00.000Z,a,b"]})[0] == 400
    assert api.post("/relay/drop", {"keys": [waiting["key"]]})[0] == 404
    assert api.post("/relay/cancel", {})[0] == 400
    body = {"keys": [waiting["key"]], "waitS": 0}
    assert api.post("/relay/cancel", {**body, "dryRun": True})[1]["first"] == [waiting["key"]]
    assert api.post("/relay/cancel", body)[0] == 200
    bench.advance(200)

    assert bench.values == []
    assert api.get("/relay/pending")[1]["messages"] == []


def test_the_installation_that_is_looked_at_has_a_name() -> None:
    """A door of other settings keeps its own elsewhere, and an operator can tell."""
    told = api_of(VirtualScheduler(Idle)).get("/doors")[1]

    assert told["installation"]["topic"] == "hourhand"
    assert told["installation"]["folder"] == "hourhand-data"
    assert told["relay"]["inTopic"] == "hourhand-relay-in"
    assert (told["relay"]["inUse"], told["timers"]["inUse"]) == (False, False)


def test_services_that_keep_something_are_in_use() -> None:
    """So that a screen offers only what there is."""
    relay = RelayBench()
    relay.put(id="id-1", due_in_s=100)
    relay.advance(1)
    timers = TimersBench()
    timers.made(10, 60)
    timers.advance(0)

    told_relay, told_timers = (api_of(each.scheduler).get("/doors")[1] for each in (relay, timers))

    assert (told_relay["relay"]["inUse"], told_relay["timers"]["inUse"]) == (True, False)
    assert (told_timers["relay"]["inUse"], told_timers["timers"]["inUse"]) == (False, True)


@pytest.mark.parametrize("path", ["/recurring/pause", "/timers/delete", "/relay/cancel"])
def test_a_token_that_may_only_read_changes_nothing(path: str) -> None:
    """As on every other path that acts."""
    api = api_of(VirtualScheduler(Idle), read_tokens={"wall": "r" * 16})
    api.tokens = {"Authorization": f"Bearer {'r' * 16}"}

    assert api.get("/recurring")[0] == 200
    assert api.post(path, {"names": ["n"], "ids": ["x"]})[0] == 403
