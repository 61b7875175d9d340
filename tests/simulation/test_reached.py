"""The points that runs reach: rare states, counted and named."""

from collections import Counter

import pytest

from hourhand.scheduler.adapters.memory.delivery import Request
from tests.simulation.reached import Turn, points, table, turn_of
from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import simulate
from tests.simulation.world import World

SCENARIOS = load_scenarios()


def test_each_point_is_named_once() -> None:
    """Two of a name would be counted as one."""
    assert Counter(points()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("name", ["everything", "group", "snoozing"])
def test_a_run_reaches_points_that_are_known(name: str) -> None:
    """A point that nobody lists is never missed."""
    reached = simulate(SCENARIOS[name], 3).reached

    assert reached
    assert reached.keys() <= set(points())


def _world() -> World:
    world = World(SCENARIOS["calm"], 0)
    world.start_member()
    return world


def test_a_turn_counts_the_requests_that_are_under_way_on_its_node() -> None:
    """A crash amid a write is another state than one behind it."""
    world = _world()
    member = world.members[0]
    request: Request[None] = Request("insert_tasks", 0, lambda: None)
    world.reached.asked(member.name, request)
    world.recorder.turned(Turn.CRASH, member)
    request()
    world.recorder.turned(Turn.CRASH, member)
    world.reached.asked("another", Request("insert_tasks", 0, lambda: None))
    world.recorder.turned(Turn.CRASH, member)

    assert world.reached.counts["crash, request insert_tasks"] == 1


def test_a_turn_of_a_partition_counts_nothing_of_another() -> None:
    """One partition is given up while another one is being written."""
    world = _world()
    member = world.members[0]
    world.reached.asked(member.name, Request("insert_tasks", 1, lambda: None))
    world.recorder.turned(Turn.GIVEN_UP, member, 0)
    world.recorder.turned(Turn.GIVEN_UP, member, 1)

    assert world.reached.counts["given up, request insert_tasks"] == 1


def test_what_is_noted_of_a_fault_names_its_turn() -> None:
    """A clock's fault says by how much, and other notes are no turns."""
    assert turn_of("clock -6000") is Turn.CLOCK
    assert turn_of("pause") is Turn.FROZEN
    assert turn_of("peace") is None


def test_a_table_says_how_many_points_were_reached() -> None:
    """A sweep ends with it."""
    told = table({"crash, request insert_tasks": 3}).splitlines()

    assert told[0] == f"points reached: 1 of {len(points())}"
    row = next(line for line in told if line.split()[:2] == ["request", "insert_tasks"])
    assert row.split()[2:] == ["3", *["0"] * (len(Turn) - 1)]
