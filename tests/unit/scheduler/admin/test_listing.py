"""Listings of tasks: the newest first, what is open, what failed how, and no system task."""

from dataclasses import replace
from typing import Any

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant
from tests.builders import NOW_MS
from tests.promises.group import QUICK
from tests.unit.scheduler.admin.test_acting import audited, state_of
from tests.unit.scheduler.admin.world import WINDOW, World, due

SYSTEM = "hourhand:recurring:nightly"


def fail_by_name(task: Task, _attempt: int) -> None:
    """Be user code that fails as the task is called."""
    if task.uniqueness_key == "key":
        raise KeyError("amount")
    if task.uniqueness_key == "value":
        raise ValueError("x" * 1_000)


def with_blocked(**admin: Any) -> World:
    """Return a world where two ids are blocked by KeyError, one by ValueError, and one is free."""
    world = World(**admin)
    world.group.journal.retry = replace(QUICK, on_exhausted="block")
    world.group.journal.says = fail_by_name
    blocking = [due(0, "a", "key"), due(1, "b", "key"), due(2, "c", "value")]
    world.schedule(*blocking, due(3, "a", "behind"), due(0, "d", "done"))
    world.group.advance(60_000)
    return world


def names(told: Any) -> list[str]:
    """Return the ordering ids of a page."""
    return [each["orderingId"] for each in told["tasks"]]


@pytest.mark.parametrize("limit", [2, 100])
def test_the_newest_come_first_page_by_page(limit: int) -> None:
    """Each task once; within a millisecond in key order."""
    world = World()
    tasks = [due(seconds, f"id-{seconds}") for seconds in (600, 60, 60, 3_600, 7_200)]
    world.schedule(*tasks)

    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        told = world.get("/tasks", **WINDOW, order="newest", limit=limit, **after)[1]
        found += [each["key"] for each in told["tasks"]]
        if told["nextAfter"] is None:
            break
        after = {"after": told["nextAfter"]}

    keys = sorted({task.key for task in tasks}, key=lambda key: (-key.scheduled_ms, key))
    assert found == list(map(str, keys))


def test_tasks_of_hourhand_itself_are_left_out_unless_they_are_asked_for() -> None:
    """By a parameter, or by their ordering id; a bulk act concerns what its listing shows."""
    world = World()
    world.schedule(due(60, "customer-7"), due(60, SYSTEM))

    assert names(world.get("/tasks", **WINDOW)[1]) == ["customer-7"]
    assert names(world.get("/tasks/open")[1]) == ["customer-7"]
    assert names(world.get("/tasks", **WINDOW, system=True)[1]) == ["customer-7", SYSTEM]
    assert names(world.get("/tasks/open", system=True)[1]) == ["customer-7", SYSTEM]
    assert names(world.get("/tasks", **WINDOW, orderingId=SYSTEM)[1]) == [SYSTEM]

    def count(**chosen: object) -> int:
        asked = {**WINDOW, "states": ["pending"], **chosen}
        told = world.post("/actions/drop", {"filter": asked, "dryRun": True})[1]
        return int(told["count"])

    assert (count(), count(system=True), count(orderingId=SYSTEM)) == (1, 2, 1)


def test_open_tasks_are_listed_with_the_error_of_their_last_attempt() -> None:
    """From the first on, whatever the window; what waits for its time stands behind."""
    world = with_blocked()
    world.schedule(due(7_200, "later"))

    told = world.get("/tasks/open")[1]

    shown = [(each["orderingId"], each["state"]) for each in told["tasks"]]
    assert shown == [
        ("a", "blocked"),
        ("b", "blocked"),
        ("c", "blocked"),
        ("a", "pending"),
        ("later", "pending"),
    ]
    first, third = told["tasks"][0], told["tasks"][2]
    assert first["lastError"] == {"errorClass": "KeyError", "errorMessage": "'amount'"}
    assert (first["attemptCount"], len(third["lastError"]["errorMessage"])) == (3, 300)
    assert "lastError" not in told["tasks"][3]
    assert names(world.get("/tasks/open", limit=2)[1]) == ["a", "b"]
    soon = format_instant(NOW_MS + 100_000)
    assert "later" not in names(world.get("/tasks/open", to=soon)[1])
    assert names(world.get("/tasks/open", state=["blocked"], orderingId="a")[1]) == ["a"]
    assert world.get("/tasks/open", partition=9_999)[0] == 404


def test_tasks_are_chosen_by_the_error_of_their_last_attempt() -> None:
    """In listings and in bulk acts alike."""
    world = with_blocked()

    assert names(world.get("/tasks", **WINDOW, errorClass="KeyError")[1]) == ["a", "b"]
    assert names(world.get("/tasks/open", errorClass="ValueError")[1]) == ["c"]
    chosen = {**WINDOW, "states": ["blocked"], "errorClass": "KeyError"}
    assert world.post("/actions/retry", {"filter": chosen, "dryRun": True})[1]["count"] == 2


def test_tasks_are_shown_with_their_kind_and_chosen_by_it() -> None:
    """The data is what the producer wrote, without the member that carries the kind."""
    world = World()
    mail = due(60, "a").model_copy(update={"kind": "mail"})
    world.schedule(mail, due(60, "b"))

    plain, shown = sorted(
        world.get("/tasks", **WINDOW, data=True)[1]["tasks"], key=lambda each: "kind" in each
    )
    assert (shown["kind"], shown["taskData"]) == ("mail", mail.data)
    assert "kind" not in plain
    assert names(world.get("/tasks", **WINDOW, kind="mail")[1]) == ["a"]
    assert names(world.get("/tasks/open", kind="mail")[1]) == ["a"]
    chosen = {**WINDOW, "states": ["pending"], "kind": "mail"}
    assert world.post("/actions/drop", {"filter": chosen, "dryRun": True})[1]["count"] == 1


def test_what_runs_is_listed_as_its_owner_says() -> None:
    """Of a first attempt nothing is in the store, and the listing of what runs still has it."""
    world = World()
    tasks = [due(60, "a"), due(120, "b"), due(180, "c")]
    world.schedule(*tasks)
    running = [{"key": str(each.key), "partition": 0, "attempt": 1} for each in tasks[:2]]
    world.report(running=running, runningCount=2)
    asked = {**WINDOW, "state": ["running"]}

    told = world.get("/tasks", **asked)[1]["tasks"]
    newest = world.get("/tasks", **asked, order="newest", limit=1)[1]
    rest = world.get("/tasks", **asked, order="newest", after=newest["nextAfter"])[1]

    assert [(each["orderingId"], each["attemptCount"]) for each in told] == [("a", 1), ("b", 1)]
    assert (names(newest), names(rest), rest["nextAfter"]) == (["b"], ["a"], None)
    assert names(world.get("/tasks", **asked, orderingId="b")[1]) == ["b"]
    assert names(world.get("/tasks/open", state=["running"])[1]) == ["a", "b"]
    assert names(world.get("/tasks/open", state=["pending"])[1]) == ["c"]


@pytest.mark.parametrize("how", ["retry", "drop"])
def test_all_that_one_error_blocks_is_retried_or_dropped(how: str) -> None:
    """With the number that was seen, and nothing else; it is written down with the error."""
    world = with_blocked()
    body: dict[str, Any] = {"errorClass": "KeyError", "how": how, "waitS": 0}

    seen = world.post("/actions/unblock", {**body, "dryRun": True})[1]
    assert [TaskKey.parse(each).ordering_id for each in seen["first"]] == ["a", "b"]
    for wrong in ({}, {"expected": 3}):
        status, told = world.post("/actions/unblock", {**body, **wrong})
        assert (status, told["code"], told["count"]) == (409, "other-count", 2)
    assert audited(world) == []

    world.group.journal.says = lambda _task, _attempt: None
    assert world.post("/actions/unblock", {**body, "expected": 2})[1]["asked"] == 2
    world.group.advance(5_000)

    ended = "success" if how == "retry" else "dropped"
    assert [state_of(world, each) for each in seen["first"]] == [ended, ended]
    assert state_of(world, due(3, "a", "behind").key) == "success"
    assert state_of(world, due(2, "c", "value").key) == "blocked"
    (entry,) = world.get("/audit")[1]["entries"]
    assert (entry["target"], entry["detail"]["errorClass"]) == ("2 tasks", "KeyError")


def test_an_unblock_names_ids_or_an_error() -> None:
    """One of both; more than may be acted on is refused."""
    world = with_blocked(bulk_keys_max=1)

    for wrong in ({}, {"orderingIds": ["a"], "errorClass": "KeyError"}, {"errorClass": ""}):
        assert world.post("/actions/unblock", {"how": "retry", **wrong})[0] == 400
    told = world.post("/actions/unblock", {"how": "retry", "errorClass": "KeyError"})[1]
    assert told["code"] == "too-many-tasks"


def test_a_page_of_tasks_has_their_data_only_where_it_is_asked_for() -> None:
    """Data may be most of a megabyte a task, and a page a thousand tasks."""
    world = World()
    world.schedule(due(60, "a").model_copy(update={"data": {"x": "y" * 100_000}}))

    for path, window in (("/tasks", WINDOW), ("/tasks/open", {})):
        plain = world.get(path, **window)[1]["tasks"]
        whole = world.get(path, **window, data=True)[1]["tasks"]
        assert "taskData" not in plain[0] and len(str(plain)) < 1_000
        assert whole[0] == {**plain[0], "taskData": {"x": "y" * 100_000}}
