"""A limit's starts follow the work: nodes without any lend their rates to those that have it."""

from dataclasses import replace

import pytest

from tests.simulation.history import Started
from tests.simulation.limited import FETCH, LENT
from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import judge
from tests.simulation.world import World

BEGIN_MS, END_MS = 12_000.0, 40_000.0
"""Before, nodes join, get to know each other and ask; later no more tasks come."""


def _share_used(seed: int, *, lend: bool) -> float:
    """Return which part of a limit is used where all work is on one partition of six."""
    loans = load_scenarios()["loans"]
    load = loans.workload.model_copy(
        update={"hot_partitions": 1, "tasks_per_s": 20.0, "commands_per_s": 0.0, "hang_ms": 600}
    )
    world = World(loans.model_copy(update={"workload": load, "faults": {}}), seed)
    world._site = replace(world._site, lend=lend)

    world.run()

    # Without loans, what waits for the limit is still open at the end.
    assert not [each for each in judge(world) if lend or not each.startswith("liveness")]
    rate = LENT[FETCH][0].rest_rate
    assert rate is not None
    starts_ms = [each.at_ms for each in world.history.of(Started) if each.kind == FETCH]
    used = sum(BEGIN_MS <= each < END_MS for each in starts_ms)
    return used / (END_MS - BEGIN_MS) * 1_000 / rate


@pytest.mark.parametrize("seed", range(2))
def test_p24_work_on_one_node_uses_the_whole_limit(seed: int) -> None:
    """But for the tenth of their shares that others keep."""
    assert _share_used(seed, lend=True) > 0.9


def test_p24_without_loans_an_idle_share_is_lost() -> None:
    """Its node has the share of its partitions."""
    assert _share_used(0, lend=False) < 0.5
