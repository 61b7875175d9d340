"""A small fleet through what many nodes meet; ``make sim-fleet`` takes a hundred."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.fleet import PLANS, Fleet
from tests.simulation.history import Happened

NODES = 6
PARTITIONS = 24


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A node that was expelled logs it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


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
