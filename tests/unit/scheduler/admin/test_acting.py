"""Paths that act: what they do to tasks, what they refuse, and that all of it is written down."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.values.instant import format_instant
from tests.builders import NOW_MS
from tests.promises.group import QUICK
from tests.unit.scheduler.admin.world import WINDOW, World, due


def fail(_task: object, _attempt: int) -> None:
    """Be user code that never succeeds."""
    raise ValueError("always")


def state_of(world: World, key: object) -> str:
    """Return a task's state as the API tells it."""
    return str(world.get("/task", key=str(key))[1]["task"]["state"])


def audited(world: World) -> list[tuple[str, str, str]]:
    """Return who did what with which result, oldest first."""
    entries = world.get("/audit")[1]["entries"]
    return [(each["who"], each["action"], each["result"]) for each in reversed(entries)]


@pytest.fixture(scope="module")
def untouched() -> World:
    """Have one installation refuse everything: it stays as it is."""
    return World()


@pytest.mark.parametrize(
    ("action", "state"), [("drop", "dropped"), ("cancel", "cancelled"), ("run-now", "moved")]
)
def test_an_action_reaches_its_task_without_a_restart(action: str, state: str) -> None:
    """Through the log, so it is in order with everything else; and it is written down."""
    world = World()
    task = due(600)
    world.schedule(task)

    status, told = world.post(f"/actions/{action}", {"keys": [str(task.key)], "waitS": 0})
    world.group.advance(1_000)

    assert (status, told["outcomes"]) == (200, {"undecided": 1})
    assert state_of(world, task.key) == state
    assert audited(world) == [("loopback", action, "undecided 1")]


def test_a_task_is_moved_to_the_time_named() -> None:
    """And only reschedule takes one."""
    world = World()
    task = due(600)
    world.schedule(task)
    to = format_instant(NOW_MS + 3_600_000)
    body = {"keys": [str(task.key)], "to": to, "waitS": 0}

    extra = world.post("/actions/drop", body)
    assert (extra[0], extra[1]["detail"]) == (400, "`to` is for reschedule alone: leave it out")
    missing = world.post("/actions/reschedule", {**body, "to": None})
    assert (missing[0], missing[1]["detail"]) == (400, "reschedule needs `to`, the new time")
    assert world.post("/actions/reschedule", body)[0] == 200
    world.group.advance(1_000)
    assert state_of(world, task.key._replace(scheduled_ms=NOW_MS + 3_600_000)) == "pending"


def test_a_bulk_action_is_looked_at_before_it_is_done() -> None:
    """The count that was seen must be the count that is meant."""
    world = World()
    world.schedule(*[due(600, f"id-{n}") for n in range(5)])
    body: dict[str, Any] = {"filter": {**WINDOW, "states": ["pending"]}, "waitS": 0}

    status, seen = world.post("/actions/cancel", {**body, "dryRun": True})
    assert (status, seen["count"], len(seen["first"])) == (200, 5, 5)
    assert world.post("/actions/cancel", body)[0] == 409
    assert world.post("/actions/cancel", {**body, "expected": 4})[1]["count"] == 5
    assert audited(world) == []

    elsewhere = {**body, "filter": {**body["filter"], "partition": 1}}
    assert world.post("/actions/cancel", {**elsewhere, "dryRun": True})[1]["count"] == 0
    assert world.post("/actions/cancel", {**body, "expected": 5})[1]["asked"] == 5
    world.group.advance(1_000)
    assert world.post("/actions/cancel", {**body, "dryRun": True})[1]["count"] == 0


def test_a_filter_is_bounded_as_a_listing_is() -> None:
    """By ``limit`` and ``after``; what was counted is what is done, and where it ended is told."""
    world = World(bulk_keys_max=3)
    tasks = [due(600, f"id-{n}") for n in range(5)]
    world.schedule(*tasks)
    keys = [str(each.key) for each in tasks]
    bounded = {**WINDOW, "states": ["pending"], "limit": 2, "after": keys[0]}
    body: dict[str, Any] = {"filter": bounded, "waitS": 0}

    seen = world.post("/actions/cancel", {**body, "dryRun": True})[1]
    assert (seen["count"], seen["first"], seen["nextAfter"]) == (2, keys[1:3], keys[2])
    assert world.post("/actions/cancel", {**body, "expected": 2})[1]["nextAfter"] == keys[2]
    world.group.advance(1_000)

    assert [state_of(world, each) for each in keys] == [
        "pending",
        "cancelled",
        "cancelled",
        "pending",
        "pending",
    ]
    rest = {**body, "filter": {**bounded, "after": keys[2]}, "dryRun": True}
    assert world.post("/actions/cancel", rest)[1]["nextAfter"] is None
    wide = {**body, "filter": {**bounded, "limit": 4, "after": None}}
    assert world.post("/actions/cancel", {**wide, "dryRun": True})[0] == 200
    world.schedule(*[due(601, f"id-{n}") for n in range(2)])
    assert world.post("/actions/cancel", {**wide, "dryRun": True})[1]["code"] == "too-many-tasks"
    for wrong in ({"limit": 0}, {"after": "junk"}):
        assert world.post("/actions/cancel", {"filter": {**bounded, **wrong}})[0] == 400


@pytest.mark.parametrize(
    "path",
    ["/actions/cancel", "/actions/unblock", "/pauses", "/timers/delete", "/dead-letters/replay"],
)
def test_a_bound_beside_the_body_of_an_act_is_refused(untouched: World, path: str) -> None:
    """A query that nothing reads would let an act pass for a bounded one."""
    task = due(600)
    untouched.schedule(task)

    status, told = untouched.post(f"{path}?limit=3", {"keys": [str(task.key)]})

    assert (status, "limit" in told["detail"]) == (400, True)
    assert state_of(untouched, task.key) == "pending"


def test_more_than_may_be_acted_on_is_refused() -> None:
    """By keys and by filter."""
    world = World(bulk_keys_max=2)
    tasks = [due(600, f"id-{n}") for n in range(3)]
    world.schedule(*tasks)
    found = {"filter": {**WINDOW, "states": ["pending"]}, "dryRun": True}

    assert world.post("/actions/drop", {"keys": [str(each.key) for each in tasks]})[0] == 400
    assert world.post("/actions/drop", found)[1]["code"] == "too-many-tasks"


@pytest.mark.parametrize("how", ["retry", "drop"])
def test_a_blocked_ordering_id_is_unblocked(how: str) -> None:
    """By retrying or dropping the task that blocks it; another id is named as not blocked."""
    world = World()
    world.group.journal.retry = replace(QUICK, on_exhausted="block")
    world.group.journal.says = fail
    task = due(0, "stuck")
    world.schedule(task, due(1, "stuck", "behind"))
    world.group.advance(60_000)
    assert state_of(world, task.key) == "blocked"
    world.group.journal.says = lambda _task, _attempt: None

    body = {"orderingIds": ["stuck", "free"], "how": how, "waitS": 0}
    assert world.post("/actions/unblock", {**body, "dryRun": True})[1]["count"] == 1
    assert world.post("/actions/unblock", body)[1]["notBlocked"] == ["free"]
    world.group.advance(5_000)

    assert state_of(world, task.key) == ("success" if how == "retry" else "dropped")
    assert state_of(world, due(1, "stuck", "behind").key) == "success"


def test_pauses_are_listed_lifted_and_written_down() -> None:
    """Several at once; what is paused already keeps who paused it."""
    world = World(write_tokens={"ann": "a" * 16, "bob": "b" * 16})
    targets = [{"scope": "ordering", "orderingId": "x"}, {"scope": "partition", "partition": 0}]
    world.tokens = {"Authorization": f"Bearer {'a' * 16}"}
    assert world.post("/pauses", {"targets": targets, "reason": "deploy"})[0] == 200
    world.tokens = {"Authorization": f"Bearer {'b' * 16}"}
    world.post("/pauses", {"targets": [*targets, {"scope": "all"}]})

    told = world.get("/pauses")[1]["pauses"]
    assert [(each["scope"], each["who"]) for each in told] == [
        ("ordering", "ann"),
        ("partition", "ann"),
        ("all", "bob"),
    ]
    left = world.post("/pauses/resume", {"targets": [*targets, {"scope": "all"}]})[1]["pauses"]
    assert left == []
    assert audited(world) == [
        ("ann", "pause", "paused"),
        ("bob", "pause", "paused"),
        ("bob", "resume", "resumed"),
    ]
    targets_told = [each["target"] for each in world.get("/audit")[1]["entries"]]
    assert targets_told == [*["x, partition 0, everything"] * 2, "x, partition 0"]


def test_of_many_targets_the_first_are_named() -> None:
    """And the rest is a number, so that an entry stays a line."""
    world = World()
    targets = [{"scope": "ordering", "orderingId": name} for name in "abcde"]
    world.post("/pauses", {"targets": targets})

    (entry,) = world.get("/audit")[1]["entries"]
    assert entry["target"] == "a, b, c and 2 more"


@pytest.mark.parametrize(
    "target",
    [
        {"scope": "all", "partition": 1},
        {"scope": "partition"},
        {"scope": "partition", "partition": 10_000},
        {"scope": "ordering"},
        {"scope": "ordering", "orderingId": "\ud800"},
        {"scope": "universe"},
    ],
)
def test_a_pause_of_nothing_is_refused(untouched: World, target: dict[str, object]) -> None:
    """And nothing of a request is done where one target is wrong."""
    body = {"targets": [{"scope": "ordering", "orderingId": "fine"}, target]}

    answer = untouched.http.post(
        "/pauses",
        content=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400
    assert untouched.group.data.config == OperatorConfig()


def test_a_dead_letter_is_replayed_where_it_can_be_read() -> None:
    """In the partition of its ordering id, without what was noted on it."""
    world = World()
    world.broker.partitions[0].append(NOW_MS, b"k", b"junk", ())
    world.group.advance(1_000)

    (letter,) = world.get("/dead-letters")[1]["letters"]
    assert (letter["readable"], letter["recordValue"]) == (False, {"text": "junk"})
    body = {"places": [letter["place"], "0:99"]}
    told = world.post("/dead-letters/replay", body)[1]["results"]
    assert [each["outcome"] for each in told] == ["unreadable", "unknown"]
    assert world.post("/dead-letters/replay", {"places": ["x"]})[0] == 400


def test_nothing_is_done_that_cannot_be_written_down() -> None:
    """The entry comes first."""
    world = World()
    task = due(600)
    world.schedule(task)
    world.service.stores.close()

    assert world.post("/actions/drop", {"keys": [str(task.key)]})[0] == 503
    world.group.advance(1_000)
    assert sum(each.end_offset for each in world.broker.partitions) == 1


@pytest.mark.parametrize("action", ["cancel", "retry", "drop", "run-now"])
def test_one_pair_that_names_no_single_task_is_a_404_or_a_409(action: str) -> None:
    """Of several names the report says so for each: they have one status."""
    world = World()
    several = [due(600, "o", "k"), due(700, "o", "k")]
    world.schedule(*several)
    world.work_while_waited_for()

    none = world.post(f"/actions/{action}", {"keys": ["nobody,nothing"]})
    both = world.post(f"/actions/{action}", {"keys": ["o,k"]})
    two = world.post(f"/actions/{action}", {"keys": ["o,k", "nobody,nothing"]})

    assert (none[0], none[1]["code"]) == (404, "task-not-found")
    assert (both[0], both[1]["code"]) == (409, "several-tasks")
    assert all(str(task.key) in both[1]["detail"] for task in several)
    assert (two[0], two[1]["outcomes"]) == (200, {"several_tasks": 1, "unknown_pair": 1})
    assert [result for _, _, result in audited(world)][:2] == [
        "failed: task-not-found",
        "failed: several-tasks",
    ]
