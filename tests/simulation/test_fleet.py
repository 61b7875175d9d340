"""A small fleet through what many nodes meet; ``make sim-fleet`` takes a hundred."""

import pytest

from tests.simulation.fleet import PLANS, Fleet
from tests.simulation.history import Happened

pytestmark = pytest.mark.usefixtures("quiet")

NODES = 6
PARTITIONS = 24


@pytest.mark.parametrize("plan", PLANS)
def test_a_fleet_keeps_every_promise(plan: str) -> None:
    """And what the plan says happens to its nodes."""
    fleet = Fleet(plan, NODES, PARTITIONS, seed=1, busy_s=12)

    assert fleet.run() == []

    happened = [each.what for each in fleet.world.history.of(Happened)]
    assert happened.count("start") > NODES
    assert {"rolling restart": "stop", "lost rack": "crash", "rebalance storm": "crash"}[
        plan
    ] in happened
