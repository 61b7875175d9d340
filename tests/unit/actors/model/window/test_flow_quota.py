"""Which flow may take of what a partition may hold, and when it goes on."""

from itertools import pairwise

import pytest

from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.model.window.flow_quota import (
    FLOW_SHARE,
    FLOW_TASKS_MIN,
    FlowQuota,
    refill_share,
)
from tests.unit.actors.model.window.test_flow_queues import RULES, task

BIG = [task(number - 900, tenant="big") for number in range(10)]
ROOMY = 1_000_000


def quota(tasks: int, size_bytes: int = ROOMY, *, share: float = 0.5, **held: int) -> FlowQuota:
    """Return the quota for tasks beside those that tenants hold."""
    slots = NodeBudget().begin(0, has_flows=True)
    for tenant, number in held.items():
        slots.wait_in(f"mail {tenant}", number, 100 * number)
    return FlowQuota(RULES, slots, tasks + slots.flow_tasks, size_bytes, share)


def taken(quota: FlowQuota, *tasks: StoredTask) -> int:
    """Return how many of these their quota lets in."""
    return sum(1 for each in tasks if not quota.is_full and quota.admit(each))


def test_a_flow_takes_rows_while_it_holds_less_than_is_free() -> None:
    """So that one alone leaves half, and two a third."""
    assert taken(quota(8), *BIG) == 4
    assert taken(quota(8, big=2), *BIG) == 3
    assert taken(quota(4, big=4), *BIG) == 0
    assert taken(quota(4, big=4), task(-1)) == 1


def test_a_flow_that_holds_few_takes_rows_until_memory_is_full() -> None:
    """What it left would wait for the whole backlog, as memory was full for a moment."""
    assert taken(quota(2, big=20), task(-2), task(-1)) == 2
    assert taken(quota(20, big=20 * FLOW_SHARE, small=20), task(-2), task(-1)) == 1


def test_a_flow_takes_no_more_bytes_than_are_free() -> None:
    """However few tasks hold them."""
    assert taken(quota(8, 100, big=1), *BIG) == 0


def test_a_flow_that_had_enough_gets_nothing_more_of_a_page() -> None:
    """Some of it leaves memory while the page is read, of which rows were passed over (P4)."""
    slots = NodeBudget().begin(0, has_flows=True)
    slots.wait_in("mail big", 4, 400)
    page = FlowQuota(RULES, slots, 8, ROOMY, 0.5)

    had_enough = page.is_over_quota(BIG[0])
    slots.wait_in("mail big", -4, -400)

    assert had_enough and taken(page, *BIG) == 0
    assert taken(FlowQuota(RULES, slots, 8, ROOMY, 0.5), *BIG) == FLOW_TASKS_MIN


def test_nobody_takes_anything_where_nothing_is_free() -> None:
    """The page ends there."""
    assert quota(0).is_full and quota(5, 0).is_full and not quota(1, 1).is_full


@pytest.mark.parametrize("partitions", [2, 16, 100])
def test_partitions_load_what_a_flow_left_one_after_another(partitions: int) -> None:
    """With one share for all, small flows would wait for all partitions' pages at once."""
    shares = sorted(refill_share(partition) for partition in range(partitions))

    assert shares[0] >= 0.25 and shares[-1] < 0.75
    gaps = [later - earlier for earlier, later in pairwise(shares)]
    assert min(gaps) > 0.5 / partitions / 3
