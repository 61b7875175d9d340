"""Why a task does not run: each reason, what is told of it, and which comes first."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.task import Task
from tests.builders import NOW_MS
from tests.unit.scheduler.admin.world import World, due

WAITS = due(0, name="waits")


def why(world: World, task: Task = WAITS) -> list[dict[str, Any]]:
    """Return the reasons that the API tells."""
    status, told = world.get("/task", key=str(task.key))
    assert status == 200
    reasons: list[dict[str, Any]] = told["task"].get("waits", [])
    return reasons


def only(world: World, task: Task = WAITS) -> tuple[str, str, str | None]:
    """Return name, words and command of the one reason there is."""
    (told,) = why(world, task)
    return told["reason"], told["told"], told.get("command")


def failing(task: Task, attempt: int) -> Outcome | None:
    """Fail whatever is called ``fails``."""
    if task.uniqueness_key == "fails":
        raise ConnectionError("the bank is away")
    return None


def a_world(says: Callable[[Task, int], Outcome | None] = failing, **retry: Any) -> World:
    """Return an installation whose node has reported."""
    world = World()
    world.group.journal.says = says
    if retry:
        world.group.journal.retry = RetryPolicy(**retry)
    world.report()
    return world


def test_a_task_that_is_not_due_waits_for_its_time() -> None:
    """And can be run before it."""
    world, task = a_world(), due(60)
    world.schedule(task)

    reason, told, command = only(world, task)

    assert (reason, command) == ("not-due", f"hourhand run-now {task.key}")
    assert told == f"it is due at {str(task.key).partition(',')[0]}"


def test_a_partition_that_no_node_reads_is_told_first() -> None:
    """Its time may not have come either."""
    world, task = World(), due(60)
    world.schedule(task)
    world.service.cluster.read()

    assert [each["reason"] for each in why(world, task)] == ["no-node", "not-due"]


@pytest.mark.parametrize(
    ("pause", "command"),
    [
        ({"scope": "all"}, "hourhand resume --all"),
        ({"scope": "partition", "partition": 0}, "hourhand resume --partition 0"),
        (
            {"scope": "ordering", "orderingId": "it's one; rm"},
            """hourhand resume --ordering-id 'it'"'"'s one; rm'""",
        ),
    ],
)
def test_a_pause_is_told_with_who_and_why(pause: dict[str, Any], command: str) -> None:
    """The command can be pasted, whatever the ordering id holds."""
    world, task = a_world(), due(0, "it's one; rm")
    paused = {"targets": [pause], "reason": "bank holiday"}
    assert world.post("/pauses", paused)[0] == 200
    world.schedule(task)
    world.report()

    told = why(world, task)[0]

    assert (told["reason"], told["command"]) == ("paused", command)
    assert told["told"].endswith(": bank holiday")


def test_the_pause_of_another_ordering_id_is_not_told() -> None:
    """It holds up nothing of this one."""
    world, task = a_world(), due(60)
    target = {"scope": "ordering", "orderingId": "another"}
    assert world.post("/pauses", {"targets": [target]})[0] == 200
    world.schedule(task)

    assert only(world, task)[0] == "not-due"


def test_the_task_that_comes_first_is_named_with_its_state() -> None:
    """It is the one to look at."""
    world = a_world(attempts_max=1, on_exhausted="block")
    first = due(-1, name="fails")
    world.schedule(first, WAITS)
    world.group.advance(seconds=1)
    world.report()

    reason, told, command = only(world)
    assert reason == "behind" and told.endswith("comes first and is blocked")
    assert command == f"hourhand show {first.key}"
    assert why(world)[0]["behind"] == str(first.key)
    reason, told, command = only(world, first)
    assert (reason, command) == ("blocked", f"hourhand retry {first.key}")
    assert told.endswith("ConnectionError: the bank is away")


def test_a_task_behind_one_that_runs_says_so() -> None:
    """The store knows nothing of a first attempt that runs."""
    world = a_world(attempts_max=1, on_exhausted="block")
    first = due(-1, name="fails")
    world.schedule(first, WAITS)
    world.group.advance(seconds=1)
    running = {"key": str(first.key), "partition": 0, "attempt": 1}
    world.report(running=[running], runningCount=1)

    assert only(world)[1].endswith("comes first and is running")
    assert why(world, first) == [], "it runs"


def test_a_kind_without_order_waits_behind_nothing() -> None:
    """Nodes say which kinds these are; None is that of tasks without a kind."""
    world = a_world(attempts_max=1, on_exhausted="block")
    world.schedule(due(-1, name="fails"), WAITS)
    world.group.advance(seconds=1)
    world.report(kindsWithoutOrder=[None])

    assert only(world)[0] == "no-worker"


def test_a_retry_is_told_with_its_time_and_error() -> None:
    """And can be had at once."""
    world = a_world(attempts_max=3, wait=tenacity.wait_fixed(timedelta(minutes=10)))
    task = due(0, name="fails")
    world.schedule(task)
    world.group.advance(seconds=1)
    world.report()

    reason, told, command = only(world, task)

    assert (reason, command) == ("retrying", f"hourhand retry {task.key}")
    assert told.endswith("after ConnectionError: the bank is away")


def test_a_limit_is_told_by_its_name_and_value() -> None:
    """Since when it waits, too."""
    world, task = World(), due(60)
    world.schedule(task)
    world.clock.advance(61_000)
    flow = {"limit": "mail#1", "value": "acme", "sinceMs": NOW_MS + 60_000, "partition": 0}
    world.report(limited=[{"key": str(task.key), **flow}], limitedCount=1)

    reason, told, command = only(world, task)

    assert (reason, command) == ("limited", "hourhand limits list")
    assert told.startswith("the limit mail#1 of 'acme' is used up")


def test_nothing_is_told_of_a_task_that_is_closed() -> None:
    """It waits for nothing."""
    world = a_world()
    world.schedule(WAITS)
    world.group.advance(seconds=1)
    world.report()

    assert why(world) == []
