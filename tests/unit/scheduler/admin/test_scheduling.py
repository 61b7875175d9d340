"""Paths that make something: a task, a recurring schedule; previewed, guarded and written down."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant, to_millis
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.tasks.receipt import Receipt
from hourhand.scheduler.tasks.task_state import TaskState
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import NOW_MS, Idle
from tests.unit.scheduler.admin.test_acting import audited, state_of
from tests.unit.scheduler.admin.test_doors import api_of
from tests.unit.scheduler.admin.world import Api, World, due

TASK: dict[str, Any] = {
    "orderingId": "customer-7",
    "scheduledTime": format_instant(NOW_MS + 60_000),
    "uniquenessKey": "invoice-1",
    "data": {"cents": 5},
}
NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "30 2 * * *", "timeZone": "Europe/Berlin"}


@pytest.fixture(scope="module")
def untouched() -> World:
    """Have one installation refuse everything: it stays as it is."""
    return World()


@pytest.fixture(scope="module")
def scheduleless() -> Api:
    """Have one scheduler refuse every recurring schedule: it has none in the end either."""
    return api_of(VirtualScheduler(Idle))


def test_a_task_is_scheduled_and_runs_at_its_time() -> None:
    """After a preview that says what stands under its key."""
    world = World()

    seen = world.post("/tasks", {**TASK, "dryRun": True})[1]
    assert (seen["dryRun"], seen["state"]) == (True, "unknown")
    assert world.post("/tasks", {**TASK, "reason": "by hand"})[1]["receipt"]["key"] == seen["key"]
    world.group.advance(0)
    assert world.post("/tasks", {**TASK, "dryRun": True})[1]["state"] == "pending"
    world.group.advance(70_000)

    assert state_of(world, seen["key"]) == "success"
    assert [each.data for each in world.group.journal.ran] == [{"cents": 5}]
    assert audited(world) == [("loopback", "schedule", "accepted")]
    (entry,) = world.get("/audit")[1]["entries"]
    assert (entry["target"], entry["detail"]) == (seen["key"], {"reason": "by hand"})


def test_a_task_of_a_kind_is_scheduled() -> None:
    """Its executor is named with it, in the audit log too."""
    world = World()
    receipt = world.post("/tasks", {**TASK, "kind": "mail"})[1]["receipt"]
    world.group.advance(0)

    assert world.get("/task", key=receipt["key"])[1]["task"]["kind"] == "mail"
    assert world.get("/audit")[1]["entries"][0]["detail"]["kind"] == "mail"


@pytest.mark.parametrize("priority", [0, -7])
def test_a_priority_is_told_of_a_task_and_of_a_schedule(priority: int) -> None:
    """And written down; 0 is one as any other."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    at = format_instant(to_millis(scheduler.now) + 60_000)

    key = api.post("/tasks", {**TASK, "scheduledTime": at, "priority": priority})[1]["receipt"][
        "key"
    ]
    api.post("/recurring/schedule", {**NIGHTLY, "waitS": 0, "priority": priority})
    scheduler.run_due()

    assert api.get("/task", key=key)[1]["task"]["priority"] == priority
    rule = api.get("/recurring/schedule", name="nightly")[1]["recurring"]["rule"]
    assert rule["priority"] == priority
    schedule, task = api.get("/audit")[1]["entries"]
    assert schedule["detail"]["rule"]["priority"] == str(priority)
    assert task["detail"]["priority"] == priority


def test_an_expiry_is_told_of_a_task_and_of_a_schedule() -> None:
    """As the instant that it comes to; what is not one is refused."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    due_ms = to_millis(scheduler.now) + 60_000
    body = {**TASK, "scheduledTime": format_instant(due_ms)}

    key = api.post("/tasks", {**body, "expires": "PT1H"})[1]["receipt"]["key"]
    api.post("/recurring/schedule", {**NIGHTLY, "waitS": 0, "expiresAfterMs": 5_000})
    refused = [api.post("/tasks", {**body, "expires": each}) for each in ("soon", "PT0S")]
    scheduler.run_due()

    assert api.get("/task", key=key)[1]["task"]["expires"] == format_instant(due_ms + 3_600_000)
    rule = api.get("/recurring/schedule", name="nightly")[1]["recurring"]["rule"]
    assert rule["expiresAfterMs"] == 5_000
    assert [status for status, _ in refused] == [400, 400]
    assert all("expires" in told["detail"] for _, told in refused)


@pytest.mark.parametrize(("window", "ran"), [("uniqueForMs", 1), ("debounceMs", 2)])
def test_calls_in_a_window_are_one_task(window: str, ran: int) -> None:
    """The first one's or the last one's; the receipt is that of the request."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    due = format_instant(to_millis(scheduler.now))

    for number in (1, 2):
        body = {**TASK, "scheduledTime": due, "data": {"n": number}, window: 60_000}
        status, told = api.post("/tasks", body)
        assert status == 200, told
        assert told["receipt"]["key"].split(",")[1].startswith("hourhand%3A")
        scheduler.advance(seconds=10)
    scheduler.advance(minutes=2)

    (task,) = scheduler.client.list_tasks()
    assert (task.state, task.data) == (TaskState.SUCCESS, {"n": ran})
    assert api.get("/audit")[1]["entries"][0]["detail"] == {window: 60_000, "reason": ""}


def test_a_task_takes_the_place_of_another() -> None:
    """Whatever its time was; what it came to is asked for by the receipt."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    for number in (1, 2):
        due = format_instant(to_millis(scheduler.now) + number * 60_000)
        body = {**TASK, "scheduledTime": due, "data": {"n": number}, "replace": True}
        status, told = api.post("/tasks", body)
        assert status == 200, told
        scheduler.run_due()

    receipt = told["receipt"]
    place = Receipt(TaskKey.parse(receipt["key"]), receipt["partition"], receipt["offset"])
    outcome = scheduler.client.outcome(place)
    assert outcome is not None and outcome.outcome is CommandOutcome.APPLIED
    scheduler.advance(minutes=3)
    ran = [(task.state, task.data) for task in scheduler.client.list_tasks()]
    assert ran == [(TaskState.MOVED, {"n": 1}), (TaskState.SUCCESS, {"n": 2})]


def test_a_task_brings_another_one_and_both_name_each_other() -> None:
    """In what is sent, shown and written down."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    due = format_instant(to_millis(scheduler.now) + 60_000)
    then = {"orderingId": "mails", "scheduledTime": due, "uniquenessKey": "receipt", "on": "any"}
    status, told = api.post("/tasks", {**TASK, "scheduledTime": due, "then": then})
    assert status == 200, told
    scheduler.run_due()

    first = told["receipt"]["key"]
    follower = f"{due},mails,receipt"
    shown = api.get("/task", key=first)[1]
    assert shown["task"]["then"] == {"key": follower, "on": "any"}
    scheduler.advance(minutes=2)
    shown = api.get("/task", key=follower)[1]
    (end,) = shown["task"]["after"]
    assert (end["key"], end["state"], end["attempts"]) == (first, "success", 1)
    assert scheduler.client.find_task(TaskKey.parse(first)).then == TaskKey.parse(follower)
    assert api.get("/audit")[1]["entries"][0]["detail"]["then"] == follower


def test_a_group_brings_its_follower() -> None:
    """After a preview; in what is sent, shown and written down."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)
    due = format_instant(to_millis(scheduler.now) + 60_000)
    task = {"scheduledTime": due, "uniquenessKey": "may"}
    pages = [{**task, "orderingId": f"page-{number}", "data": {"n": number}} for number in (1, 2)]
    body = {"tasks": pages, "then": {**task, "orderingId": "report", "on": "any"}}
    keys = [f"{due},page-{number},may" for number in (1, 2)]

    assert api.post("/groups", {**body, "dryRun": True})[1]["first"] == keys
    assert api.get("/audit")[1]["entries"] == []
    status, told = api.post("/groups", {**body, "reason": "by hand"})
    assert status == 200, told
    scheduler.advance(minutes=2)

    assert [each["key"] for each in told["receipts"]] == keys
    assert told["then"] == f"{due},report,may"
    shown = api.get("/task", key=told["then"])[1]
    assert shown["task"]["state"] == "success"
    assert [(end["key"], end["state"]) for end in shown["task"]["after"]] == [
        (key, "success") for key in keys
    ]
    (entry,) = api.get("/audit")[1]["entries"]
    assert (entry["action"], entry["target"]) == ("schedule group", "2 tasks")
    assert entry["detail"] == {
        "count": 2,
        "keys": keys,
        "then": told["then"],
        "reason": "by hand",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": []},
        {"tasks": [TASK] * 501},
        {"tasks": [TASK, TASK]},
        {"tasks": [{**TASK, "orderingId": "hourhand:group:1"}]},
        {"tasks": [{**TASK, "then": TASK}]},
        {"then": TASK},
        {"then": {**TASK, "uniquenessKey": "2", "on": "never"}},
        {"then": None},
    ],
)
def test_a_group_that_cannot_be_is_refused(untouched: World, wrong: dict[str, object]) -> None:
    """With 400 and what is wrong; nothing is scheduled."""
    body = {"tasks": [TASK], "then": {**TASK, "uniquenessKey": "2"}, **wrong}
    status, told = untouched.post("/groups", body)

    assert status == 400, told
    assert told["detail"]
    assert not any(each.end_offset for each in untouched.broker.partitions)


@pytest.mark.parametrize(
    "wrong",
    [
        {"uniqueForMs": 60_000, "debounceMs": 60_000},
        {"uniqueForMs": 60_000, "replace": True},
        {"then": {**TASK}},
        {"then": {**TASK, "uniquenessKey": "2"}, "debounceMs": 60_000},
        {"then": {"orderingId": "x"}},
        {"uniqueForMs": 0},
        {"debounceMs": "1m"},
        {"orderingId": ""},
        {"orderingId": "hourhand:timer:1"},
        {"scheduledTime": "tomorrow"},
        {"scheduledTime": format_instant(NOW_MS - 10**9)},
        {"data": [1]},
        {"kinds": "mail"},
        {"kind": "no spaces"},
    ],
)
def test_a_task_that_cannot_be_is_refused(untouched: World, wrong: dict[str, object]) -> None:
    """With 400 and what is wrong; nothing is scheduled."""
    status, told = untouched.post("/tasks", {**TASK, **wrong})

    assert status == 400
    assert told["detail"]
    assert not any(each.end_offset for each in untouched.broker.partitions)


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/tasks", "replace", "yes"),
        ("/tasks", "replace", 1),
        ("/tasks", "debounceMs", True),
        ("/tasks", "uniqueForMs", "60000"),
        ("/tasks", "priority", True),
        ("/tasks", "dryRun", "false"),
        ("/recurring/schedule", "jitterMs", "5"),
        ("/recurring/schedule", "waitS", "0"),
        ("/groups", "dryRun", 0),
        ("/actions/cancel", "waitS", True),
        ("/limits", "concurrency", True),
        ("/limits", "rate", "5"),
    ],
)
def test_a_value_of_another_type_is_refused(
    untouched: World, path: str, field: str, value: object
) -> None:
    """It might mean something else; the answer names the field."""
    bodies: dict[str, dict[str, object]] = {
        "/tasks": TASK,
        "/recurring/schedule": NIGHTLY,
        "/groups": {"tasks": [TASK], "then": {**TASK, "uniquenessKey": "2"}},
        "/actions/cancel": {"keys": ["a,b"]},
        "/limits": {"limit": "mail"},
    }
    status, told = untouched.post(path, {**bodies[path], field: value})

    assert (status, told["code"]) == (400, "invalid-request")
    assert f"body.{field}: " in told["detail"] and "is needed" in told["detail"]
    assert not any(each.end_offset for each in untouched.broker.partitions)


def test_a_whole_number_may_be_written_with_a_point(untouched: World) -> None:
    """As JSON has one kind of numbers; half of one is refused."""
    status, told = untouched.post("/tasks", {**TASK, "priority": 5.0, "dryRun": True})
    half, refusal = untouched.post("/tasks", {**TASK, "priority": 5.5, "dryRun": True})

    assert (status, told["dryRun"], half) == (200, True, 400)
    assert "body.priority: a whole number is needed" in refusal["detail"]


def test_sealed_data_of_a_schedule_stays_with_its_kind() -> None:
    """It could not be opened for another; without data and with the same kind it is kept."""
    heard: list[object] = []

    class Hear(TaskExecutor):
        def execute(self, task: Task) -> None:
            heard.append(task.data)

    payloads = PayloadCodecs(AesGcm({"k1": bytes(32)}))
    scheduler = VirtualScheduler(Hear, payloads=payloads)
    every = timedelta(hours=1)
    scheduler.client.schedule_recurring("nightly", every=every, data={"card": 1}).result()
    scheduler.run_due()
    api = api_of(scheduler)

    shown = api.get("/recurring/schedule", name="nightly")[1]["recurring"]["rule"]
    refused = api.post("/recurring/schedule", {**NIGHTLY, "kind": "mail", "waitS": 0})
    kept = api.post("/recurring/schedule", {**NIGHTLY, "waitS": 0})
    scheduler.advance(days=1)

    assert shown["sealed"] == "sealed with aes-gcm (key id 'k1')" and "data" not in shown
    assert (refused[0], refused[1]["code"]) == (409, "payload-sealed")
    assert kept[0] == 200 and heard == [{"card": 1}]


def test_a_recurring_schedule_is_made_and_replaced() -> None:
    """After a preview of its next times; without data that of the one before stays."""
    scheduler = VirtualScheduler(Idle)
    api = api_of(scheduler)

    def post(**body: object) -> Any:
        status, told = api.post("/recurring/schedule", {**NIGHTLY, "waitS": 0, **body})
        assert status == 200, told
        scheduler.run_due()
        return told

    def rule() -> Any:
        return api.get("/recurring/schedule", name="nightly")[1]["recurring"]["rule"]

    seen = post(dryRun=True)
    assert (seen["replaces"], len(seen["nextTimes"])) == (False, 5)
    assert seen["nextTimes"][0]["local"] == "2026-01-01T02:30:00+01:00"
    assert api.get("/recurring/schedule", name="nightly")[0] == 404

    assert post(data={"a": 1}, reason="new")["outcomes"] == {"undecided": 1}
    assert post(dryRun=True)["replaces"] is True
    post(cron=None, everyMs=90_000, overlap="allow", jitterMs=5, countMax=9, kind="mail")
    replaced = rule()
    assert (replaced["cron"], replaced["everyMs"], replaced["data"]) == (None, 90_000, {"a": 1})
    assert (replaced["overlap"], replaced["jitterMs"], replaced["countMax"]) == ("allow", 5, 9)
    assert replaced["kind"] == "mail"
    post(data={})
    assert rule()["data"] == {}

    entries = api.get("/audit")[1]["entries"]
    assert [(each["action"], each["target"]) for each in entries] == [
        ("recurring set", "nightly")
    ] * 3
    assert entries[-1]["detail"] == {
        "rule": {"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "overlap": "skip"}
        | {"catch_up": str(timedelta(hours=1))},
        "reason": "new",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": None},
        {"everyMs": 1_000},
        {"cron": "61 * * * *"},
        {"timeZone": "Mars/Olympus"},
        {"ends": "2020-01-01T00:00:00Z"},
        {"orderingId": "hourhand:timer:1"},
        {"name": ""},
        {"overlap": "never"},
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_schedule_that_cannot_be_is_refused(
    scheduleless: Api, wrong: dict[str, object], *, dry_run: bool
) -> None:
    """Before it is written down, and by its preview already."""
    status, told = scheduleless.post("/recurring/schedule", {**NIGHTLY, **wrong, "dryRun": dry_run})

    assert status == 400, told
    assert scheduleless.get("/audit")[1]["entries"] == []


@pytest.mark.parametrize(("path", "body"), [("/tasks", TASK), ("/recurring/schedule", NIGHTLY)])
def test_a_token_that_may_only_look_makes_nothing(path: str, body: dict[str, object]) -> None:
    """Not even a preview."""
    world = World(read_tokens={"wall": "r" * 16})
    world.tokens = {"Authorization": f"Bearer {'r' * 16}"}

    assert world.post(path, body)[0] == 403
    assert world.get("/task", key=str(due(60).key))[0] == 404
