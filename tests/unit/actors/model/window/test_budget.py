"""The budget of a node, what its partitions may hold of it, and which flows have their slots."""

from collections.abc import Callable

import pytest

from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.settings import WindowSettings
from hourhand.actors.model.window.budget import (
    COMPLETIONS_BYTES_MIN,
    PAGE_BYTES_MAX,
    NodeBudget,
    PartitionBudget,
)
from tests.builders import a_stored_task


def of_flows() -> PartitionBudget:
    """Return one of a partition where kinds have rules."""
    return NodeBudget().begin(0, has_flows=True)


def of_id(ordering_id: str) -> StoredTask:
    """Return a task of an ordering id."""
    return a_stored_task(due_in_ms=-1, ordering_id=ordering_id)


def run(budget: PartitionBudget, ordering_id: str, flow: str) -> None:
    """Give a task of an id a slot, as a task of a flow."""
    budget.run_in(flow, ordering_id)
    budget.run((of_id(ordering_id),))


def test_partitions_share_the_windows_half_equally() -> None:
    """One that ends leaves its share to the others; a successor of its number keeps its own."""
    node = NodeBudget(1_000)
    first = node.begin(0)
    alone = first.share_bytes
    second = node.begin(1)
    both = first.share_bytes
    third = node.begin(0)
    first.end()

    assert (alone, both, third.share_bytes) == (500, 250, 250)
    second.end()
    assert third.share_bytes == 500


def test_room_is_what_is_left_and_a_page_has_at_least_one_row() -> None:
    """Also where a task larger than the share is held."""
    node = NodeBudget(1_000)
    budget = node.begin(0)
    assert (budget.used_bytes, node.used_bytes) == (0, 0)
    budget.keep_waiting(60)
    budget.keep_ids(30)
    budget.hand_over(10)
    budget.resize(0, 300)
    node.poll(7)

    assert (budget.free_bytes, budget.page_bytes(), budget.page_bytes(4)) == (100, 100, 25)
    assert (budget.waiting_bytes, budget.due_bytes, budget.ids_bytes) == (60, 300, 30)
    assert node.used_bytes == 407
    budget.take_over()
    budget.resize(300, 4_000)
    assert (budget.free_bytes, budget.page_bytes()) == (-3_590, 1)
    assert NodeBudget(1 << 40).begin(0).page_bytes() == PAGE_BYTES_MAX


def test_known_completions_have_a_quarter_in_equal_shares() -> None:
    """Of all partitions of the topic; a few each may always know."""
    assert NodeBudget(8_000_000).completions_bytes_max(4) == 500_000
    assert NodeBudget(8_000_000).completions_bytes_max(400) == COMPLETIONS_BYTES_MIN


def test_p7_an_ordering_id_may_keep_half_of_the_slots_that_are_free() -> None:
    """Or what the setting says, where that is more; nothing above it where bytes are short."""
    budget = NodeBudget(1_000).begin(0)
    settings = WindowSettings(ordering_queue_tasks_max=10, executing_tasks_max=100)
    limits = []
    for taken in (0, 50, 90, 110):
        budget.reserve(taken // 2 - budget.slots_reserved)
        budget.release_slots("x", budget.slots - taken // 2)
        limits.append(budget.queue_tasks_max(settings))
    budget.reserve(-budget.slots_reserved)
    budget.release_slots("x", budget.slots)
    for size_bytes in (250, 251):
        budget.resize(budget.due_bytes, size_bytes)
        limits.append(budget.queue_tasks_max(settings))

    assert limits == [50, 25, 10, 10, 50, 10]


@pytest.mark.parametrize("has_flows", [False, True])
def test_p13_what_a_task_takes_is_given_back_when_it_ends(has_flows: bool) -> None:
    """A slot and its bytes, whatever its flow."""
    budget = NodeBudget().begin(0, has_flows=has_flows)
    first, second = of_id("x"), of_id("y")
    if has_flows:
        budget.run_in("a", "x")
        budget.run_in("b", "y")

    budget.run((first, second))
    both = budget.slots, budget.due_bytes
    budget.release((first,))
    one = budget.slots, budget.due_bytes, budget.slots_of("a")
    budget.release((second,))

    assert both == (2, first.size_bytes + second.size_bytes)
    assert one == (1, second.size_bytes, 0)
    assert (budget.slots, budget.used_bytes, budget.slots_of("b")) == (0, 0, 0)


def test_nothing_is_given_back_that_nobody_took() -> None:
    """Slots, bytes, reserved slots, waiting tasks: each a bug of who counts."""
    budget, node = of_flows(), NodeBudget()
    run(budget, "id", "a")
    wrong: list[Callable[[], None]] = [
        lambda: budget.release_slots("other", 1),
        lambda: budget.release_slots("id", 2),
        lambda: budget.resize(budget.due_bytes + 1, 0),
        lambda: budget.reserve(-1),
        lambda: budget.keep_waiting(-1),
        lambda: budget.wait_in("a", -1, 0),
        lambda: node.poll(-1),
    ]

    for each in wrong:
        with pytest.raises(AssertionError):
            each()


def test_an_ordering_id_belongs_to_the_flow_of_its_first_task_until_it_has_no_slot() -> None:
    """Whatever its later tasks are."""
    budget = of_flows()
    run(budget, "id", "a")
    run(budget, "id", "b")
    run(budget, "other", "b")
    both = budget.slots_of("a"), budget.slots_of("b")
    budget.release_slots("id", 2)
    run(budget, "id", "b")

    assert (both, budget.slots_of("a"), budget.slots_of("b")) == ((2, 1), 0, 2)


def test_what_waits_counts_beside_what_has_a_slot() -> None:
    """Until it leaves."""
    budget = of_flows()
    run(budget, "id", "a")
    budget.wait_in("a", 2, 300)
    budget.wait_in("a", 0, 50)
    both = budget.tasks_of("a"), budget.waiting_bytes_of("a"), budget.flow_tasks
    budget.wait_in("a", -2, -350)
    budget.release_slots("id", 1)

    assert both == (3, 350, 3)
    assert (budget.tasks_of("a"), budget.waiting_bytes_of("a"), budget.flow_tasks) == (0, 0, 0)


def test_slots_that_an_id_takes_by_itself_count_for_its_flow() -> None:
    """It read tasks that it had left to the store; of an attempt of an earlier tree nobody knows
    the flow.
    """
    budget = of_flows()
    run(budget, "id", "a")
    budget.release_slots("id", -3)
    budget.release_slots("adopted", -1)
    budget.release_slots("adopted", 0)

    assert (budget.slots_of("a"), budget.slots_of("")) == (4, 1)
    budget.release_slots("id", 4)
    budget.release_slots("adopted", 1)
    assert (budget.slots_of("a"), budget.slots_of(""), budget.slots) == (0, 0, 0)
