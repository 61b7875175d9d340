"""Paths that look: what they answer, page by page, and what they say of what is not there."""

import pytest

from hourhand.actors.model.operations.events import TasksStored
from hourhand.actors.model.operations.oversight import LATENESS_MS
from hourhand.actors.model.operations.tally import MINUTE_MS, HourTally
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.observe.hourly_counts import HourlyCounts
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.builders import NOW_MS
from tests.unit.scheduler.admin.world import HOUR_MS, PARTITION, WINDOW, World, due


@pytest.fixture(scope="module")
def untouched() -> World:
    """Have one installation refuse everything: it stays as it is."""
    return World()


def test_an_unknown_key_is_not_found() -> None:
    """PagerDuty's answered 200 with a task that never was."""
    status, told = World().get("/task", key="2030-01-01T00:00:00Z,a,b")

    assert (status, told["code"]) == (404, "unknown-key")


def test_a_task_is_shown_with_its_data_and_attempts() -> None:
    """By its key, in either text form."""
    world = World()
    task = due(60)
    world.schedule(task)
    legacy = f"TaskKey({str(task.key).partition(',')[0]},customer-7,u)"

    for key in (str(task.key), legacy):
        status, told = world.get("/task", key=key)
        assert status == 200
        assert told["task"]["state"] == "pending"
        assert told["task"]["taskData"] == task.data


def test_of_sealed_data_the_key_is_shown_and_nothing_else() -> None:
    """Operators see which key reads it; the envelope is of no use to them."""
    world = World()
    task = PayloadCodecs(AesGcm({"k1": bytes(32)})).sealed(due(60))
    world.schedule(task)

    told = world.get("/task", key=str(task.key))[1]["task"]
    listed = world.get("/tasks", **WINDOW)[1]["tasks"][0]

    for shown in (told, listed):
        assert shown["sealed"] == "sealed with aes-gcm (key id 'k1')"
        assert "taskData" not in shown


def test_data_is_left_out_where_operators_may_not_see_it() -> None:
    """By a setting."""
    world = World(show_data=False)
    task = due(60)
    world.schedule(task)

    assert "taskData" not in world.get("/task", key=str(task.key))[1]["task"]
    assert "taskData" not in world.get("/tasks", **WINDOW)[1]["tasks"][0]


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_a_window_of_any_length_is_paged(limit: int) -> None:
    """Keyset paging, in key order, each task once; PagerDuty's ended at eight hours."""
    world = World()
    tasks = [due(60 * n, f"id-{n % 3}", f"{n:03}") for n in range(25)]
    world.schedule(*tasks)
    window = {"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T00:00:00Z"}

    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        status, told = world.get("/tasks", **window, limit=limit, **after)
        assert status == 200
        found += [each["key"] for each in told["tasks"]]
        if told["nextAfter"] is None:
            break
        after = {"after": told["nextAfter"]}
    assert found == sorted((str(task.key) for task in tasks), key=TaskKey.parse)


def test_tasks_are_chosen_by_state_and_ordering_id() -> None:
    """Both at once."""
    world = World()
    world.schedule(due(0, "a", "1"), due(60, "a", "2"), due(60, "b", "3"))
    world.group.advance(1_000)

    found = world.get("/tasks", **WINDOW, state=["pending"], orderingId="a")[1]["tasks"]
    assert [each["uniquenessKey"] for each in found] == ["2"]
    done = world.get("/tasks", **WINDOW, state=["success"])[1]["tasks"]
    assert [each["uniquenessKey"] for each in done] == ["1"]


def test_tasks_are_chosen_by_partition() -> None:
    """Those of a cell of the bucket map; a partition that there is not is said to be none."""
    world = World()
    world.schedule(*[due(60 * n, f"id-{n}") for n in range(12)])
    partitions = range(world.service.partition_count)

    found = {each: world.get("/tasks", **WINDOW, partition=each)[1]["tasks"] for each in partitions}
    assert sum(map(len, found.values())) == 12
    assert all(task["partition"] == each for each, tasks in found.items() for task in tasks)
    one = next(task for tasks in found.values() for task in tasks)
    for each in partitions:
        chosen = {"orderingId": one["orderingId"], "partition": each}
        told = world.get("/tasks", **WINDOW, **chosen)[1]["tasks"]
        assert len(told) == (each == one["partition"])
    assert world.get("/tasks", **WINDOW, partition=len(partitions))[0] == 404


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_attempts_are_paged_in_the_order_asked_for(order: str) -> None:
    """The newest first, unless told otherwise."""
    world = World()

    def fail(_task: object, _attempt: int) -> None:
        raise ValueError("always")

    world.group.journal.says = fail
    task = due(0)
    world.schedule(task)
    world.group.advance(60_000)

    numbers: list[int] = []
    after: dict[str, object] = {}
    while True:
        _, told = world.get("/attempts", key=str(task.key), order=order, limit=2, **after)
        numbers += [each["attempt"] for each in told["attempts"]]
        if told["nextAfter"] is None:
            break
        after = {"after": told["nextAfter"]}
    assert numbers == ([3, 2, 1] if order == "newest" else [1, 2, 3])


def test_what_nobody_answers_for_is_unknown() -> None:
    """Null, never zero; a node that fell silent takes its figures along."""
    world = World()
    world.service.cluster.read()
    assert {each["owner"] for each in world.get("/partitions")[1]["partitions"]} == {None}
    assert world.get("/status")[1]["inFlight"] is None

    pool = {"places": 2, "alive": 2, "busy": 1, "residentBytes": 7_000, "deaths": 0}
    world.report(blockedCount=2, runningCount=3, processes=pool)
    assert world.get("/nodes")[1]["nodes"][0]["processes"] == pool
    status = world.get("/status")[1]
    assert (status["inFlight"], status["blocked"]) == (3, 2)
    assert world.get("/partitions")[1]["partitions"][0]["owner"] == "node-1"

    world.clock.advance(10_000)
    world.service.cluster.read()
    status = world.get("/status")[1]
    assert (status["inFlight"], status["nodes"]) == (None, {"alive": 0, "silent": 1})
    (node,) = world.get("/nodes")[1]["nodes"]
    assert (node["state"], node["processes"]) == ("silent", None)


def test_a_store_that_is_not_read_makes_the_picture_stale() -> None:
    """So that nobody takes old figures for new ones."""
    world = World()
    world.report()
    assert world.get("/status")[1]["stale"] is False

    world.clock.advance(10_000)
    assert world.get("/status")[1]["stale"] is True


def test_a_first_attempt_that_runs_is_shown_as_running() -> None:
    """Only its owner knows: nothing of it is in the store."""
    world = World()
    task = due(60)
    world.schedule(task)
    running = {"key": str(task.key), "partition": 0, "attempt": 1, "kind": "mail"}
    world.report(running=[{**running, "startedMs": NOW_MS}], runningCount=1)

    told = world.get("/task", key=str(task.key))[1]["task"]
    assert (told["state"], told["running"]["node"]) == ("running", "node-1")
    (listed,) = world.get("/running")[1]["running"]
    assert (listed["kind"], listed["started"]) == ("mail", format_instant(NOW_MS))


def test_a_cancelled_task_that_runs_on_is_shown_as_cancelling() -> None:
    """In the listing of everything, of its state, and alone."""
    world = World()
    task = due(60)
    world.schedule(task)
    world.post("/actions/cancel", {"keys": [str(task.key)], "waitS": 0})
    world.group.advance(0)
    assert world.get("/task", key=str(task.key))[1]["task"]["state"] == "cancelled"

    world.report(running=[{"key": str(task.key), "partition": 0, "attempt": 1}], runningCount=1)

    told = world.get("/task", key=str(task.key))[1]["task"]
    assert (told["state"], told["running"]["attempt"]) == ("cancelling", 1)
    for chosen in ({}, {"state": ["cancelling"]}):
        (listed,) = world.get("/tasks", **WINDOW, **chosen)[1]["tasks"]
        assert listed["state"] == "cancelling"


def test_what_waits_because_of_a_limit_is_shown_with_its_reason() -> None:
    """Where one looks for it, in a list, and by limit and value over all nodes."""
    world = World()
    task, other = due(60), due(61, "other")
    world.schedule(task, other)
    limited = {
        "key": str(task.key),
        "partition": 0,
        "limit": "mail#1",
        "value": "acme",
        "sinceMs": NOW_MS - 5_000,
    }
    flow = {"limit": "mail#1", "value": "acme", "waiting": 2, "sinceMs": NOW_MS - 5_000}
    world.report(limited=[limited], limitedCount=2, limitedFlows=[flow])
    later = {**flow, "waiting": 3, "sinceMs": NOW_MS}
    world.report("node-2", limitedCount=3, limitedFlows=[later])

    told = world.get("/task", key=str(task.key))[1]["task"]
    assert told["state"] == "limited"
    assert (told["limited"]["limit"], told["limited"]["value"]) == ("mail#1", "acme")
    assert (told["limited"]["since"], told["limited"]["node"]) == (since(5), "node-1")
    listed = world.get("/tasks", **WINDOW, state=["limited"])[1]["tasks"]
    assert [each["key"] for each in listed] == [str(task.key)]
    shown = {"limit": "mail#1", "value": "acme", "waiting": 5, "since": since(5)}
    assert world.get("/limited") == (200, {"count": 5, "flows": [shown]})


def since(ago_s: int) -> str:
    """Return a time before now as answers write it."""
    return format_instant(NOW_MS - 1_000 * ago_s)


def test_blocked_keys_are_listed_with_what_waits_behind_them() -> None:
    """Since when, why, how many."""
    world = World()
    world.schedule(*[due(n, "stuck", str(n)) for n in range(4)])
    world.clock.advance(0)
    key = str(due(0, "stuck", "0").key)
    trouble = {"key": key, "partition": 0, "sinceMs": NOW_MS, "attempts": 3, "error": "ValueError"}
    world.report(blocked=[trouble], blockedCount=1)

    (found,) = world.get("/blocked")[1]["blocked"]
    assert (found["orderingId"], found["error"], found["attempts"]) == ("stuck", "ValueError", 3)
    assert world.get("/waiting", key=key)[0] == 200


def test_a_partition_says_what_runs_fails_and_is_blocked() -> None:
    """Each apart; of a node that does not say so yet it is unknown, and not zero."""
    world = World()
    counts = {"running": 2, "failing": 1, "blocked_hours": {str(hour_of(NOW_MS)): 3}}

    world.report()
    (old,) = world.get("/partitions")[1]["partitions"]
    world.clock.advance(1_000)
    world.report(partitions=[{**PARTITION, **counts, "executing": 9}])
    (new,) = world.get("/partitions")[1]["partitions"]

    assert (old["running"], old["failing"], old["blocked"]) == (None, None, None)
    assert (new["executing"], new["running"]) == (9, 2)
    assert (new["failing"], new["blocked"]) == (1, 3)


def test_what_is_blocked_stands_in_the_hour_it_is_of() -> None:
    """Apart from what is pending, before its hour was counted too; unknown without an owner."""
    world = World()
    before_ms = hour_of(NOW_MS) - HOUR_MS
    tally = HourTally(open={0: 5}, closed={"success": 7})
    world.service.stores.tallies.save(0, {before_ms: tally}, 9, 1).result(5)
    hours = {before_ms - HOUR_MS: 1, before_ms: 4, before_ms - 999 * HOUR_MS: 1}
    told = {str(each): count for each, count in hours.items()}

    (unknown,) = world.get("/buckets", **WINDOW)[1]["buckets"]
    world.report(partitions=[{**PARTITION, "blocked_hours": told}])
    early, late = world.get("/buckets", **WINDOW)[1]["buckets"]

    assert (unknown["blocked"], unknown["pending"]) == (None, 5)
    assert (early["blocked"], early["pending"], early["done"]) == (1, 1, 0)
    assert (late["blocked"], late["pending"], late["done"]) == (4, 5, 7)


def test_the_figures_name_their_window() -> None:
    """So that nobody compares those of seconds with those of an hour."""
    assert World().get("/status")[1]["windowMs"] == 10_000


def test_the_future_is_counted_by_minute_hour_and_day() -> None:
    """From counts that are kept, whatever the number of tasks."""
    world = World()
    counted = {90: 2, 7_200: 3, 100_000: 1}
    tallies = world.service.stores.tallies
    counts = HourlyCounts()

    for seconds, count in counted.items():
        times = tuple([NOW_MS + seconds * 1_000] * count)
        counts.count_stored(TasksStored(0, times, 5))
    counts.flush(tallies, {0: 1}, NOW_MS)

    for unit, bars, total in (("minute", 60, 2), ("hour", 24, 5), ("day", 3, 6)):
        status, told = world.get("/ahead", unit=unit, bars=bars)
        assert (status, told["total"], len(told["bars"])) == (200, total, bars)
    seconds = world.get("/ahead", unit="day", bars=3)[1]["secondsOfMinute"]
    assert (len(seconds), sum(seconds)) == (60, 6)
    far = {"from": WINDOW["from"], "to": WINDOW["to"]}
    assert sum(each["pending"] for each in world.get("/buckets", **far)[1]["buckets"]) == 5


def test_a_minute_that_was_counted_below_zero_hides_no_task_of_another() -> None:
    """By minute and by hour alike: a crash may have lost a count of what was stored."""
    world = World()
    hour_ms = hour_of(NOW_MS) + HOUR_MS
    tally = HourTally(open={3: 5, 7: -2}, seconds={0: 4, 30: -1})
    world.service.stores.tallies.save(0, {hour_ms: tally}, 9, 1).result(5)
    after = format_instant(hour_ms + 4 * MINUTE_MS)

    for unit, bars in (("minute", 300), ("hour", 5), ("day", 3)):
        assert world.get("/ahead", unit=unit, bars=bars)[1]["total"] == 5
    cut = world.get("/ahead", **{"unit": "hour", "bars": 2, "from": after})[1]
    assert cut["total"] == 0
    seconds = world.get("/ahead", unit="day", bars=3)[1]["secondsOfMinute"]
    assert (seconds[0], seconds[30], sum(seconds)) == (4, 0, 4)


def test_seconds_of_the_minute_are_those_of_three_days() -> None:
    """However far ahead one looks."""
    world = World()
    for hours, second in ((71, 10), (73, 20)):
        tally = HourTally(open={0: 1}, seconds={second: 1})
        hour_ms = hour_of(NOW_MS) + hours * HOUR_MS
        world.service.stores.tallies.save(0, {hour_ms: tally}, 9, 1).result(5)

    told = world.get("/ahead", unit="day", bars=10)[1]

    assert (told["total"], told["secondsOfMinute"][10], told["secondsOfMinute"][20]) == (2, 1, 0)


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/tasks", {}),
        ("/tasks", {"from": "yesterday", "to": "now"}),
        ("/tasks", {"from": WINDOW["to"], "to": WINDOW["from"]}),
        ("/tasks", {**WINDOW, "limit": "many"}),
        ("/tasks", {**WINDOW, "limit": 0}),
        ("/tasks", {**WINDOW, "state": "gone"}),
        ("/tasks", {**WINDOW, "after": "junk"}),
        ("/task", {"key": "junk"}),
        ("/task", {}),
        ("/ahead", {"unit": "year"}),
        ("/ahead", {"unit": "day", "bars": 1_000}),
        ("/buckets", {"from": "2020-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
        ("/audit", {"before": "junk"}),
        ("/dead-letters", {"before": "junk"}),
    ],
)
def test_a_bad_question_is_refused_in_one_form(
    untouched: World, path: str, parameters: dict[str, object]
) -> None:
    """problem+json, with 400 and a text that says what is wrong."""
    answer = untouched.http.get(path, params=parameters)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "code", "detail"} <= answer.json().keys()


def test_settings_are_shown_without_secrets() -> None:
    """Names of tokens, and no token."""
    world = World(write_tokens={"ann": "s3cret-s3cret-s3cret"})
    world.tokens = {"Authorization": "Bearer s3cret-s3cret-s3cret"}

    answer = world.http.get("/settings", headers=world.tokens)
    assert answer.json()["settings"]["admin"]["port"] == 7254
    assert "s3cret" not in answer.text


def test_the_figures_are_streamed_as_they_change() -> None:
    """Server-sent events, the same values as the paths'."""
    world = World()
    world.report(blockedCount=4)
    world.service.cluster._closed.set()

    answer = world.http.get("/stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "retry" in answer.text


def test_the_last_hour_says_what_its_counts_are_of() -> None:
    """One count more than bounds: what is later than the last of them."""
    told = World().get("/history")[1]

    assert told["latenessBoundsMs"] == sorted(LATENESS_MS)


def test_hours_far_apart_cost_no_read_of_what_lies_between() -> None:
    """A task in ten years and one now."""
    world = World()

    counts = HourlyCounts()
    counts.count_stored(TasksStored(0, (NOW_MS, NOW_MS + 87_600 * HOUR_MS), 1))
    counts.flush(world.service.stores.tallies, {0: 1}, NOW_MS)

    assert world.get("/ahead", unit="hour", bars=2)[1]["total"] == 1
