"""A plan is the seed's alone: the same each time, complete, bounded, and long enough."""

import pytest

from tests.chaos.plan import EVERY_MANNER, FULL, SHAPES, SHORT, WHOLE, Extent, Kind, make_plan

TEN_MINUTES = Extent(nodes=4, brokers=3, store_nodes=3, seconds=600.0)
PROCESSES_ALONE = Extent(nodes=4, brokers=3, store_nodes=3, seconds=600.0, kinds=FULL)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_occurs_and_the_time_is_filled(seed: int) -> None:
    """Whatever the seed, and not for much longer than was asked for."""
    for extent, longest_s in ((PROCESSES_ALONE, 720.0), (TEN_MINUTES, 840.0)):
        plan = make_plan(seed, extent)

        kinds = [step.kind for step in plan]
        assert all(kinds.count(kind) >= extent.kinds.count(kind) for kind in extent.kinds)
        assert 600.0 <= sum(step.reckoned_s for step in plan) < longest_s
        assert set(kinds) == set(extent.kinds)


@pytest.mark.parametrize("seed", range(20))
def test_every_step_is_within_its_bounds(seed: int) -> None:
    """A freeze always outlasts the session, Cassandra is paused for 20 s, all nodes for 60."""
    for step in make_plan(seed, TEN_MINUTES):
        shortest_s, longest_s = SHAPES[step.kind].lasts_s
        assert shortest_s <= step.lasts_s <= longest_s
        assert 1 <= step.target <= (4 if step.kind.strikes == "node" else 3)
        assert step.manner in SHAPES[step.kind].manners
    assert SHAPES[Kind.FREEZE_NODE].lasts_s[0] > 6.0
    assert SHAPES[Kind.FREEZE_STORE].lasts_s == (20.0, 20.0)
    assert SHAPES[Kind.KILL_ALL].lasts_s == (60.0, 60.0)


def test_the_same_seed_strikes_alike_and_another_does_not() -> None:
    """A finding can be sought again."""
    assert make_plan(7, TEN_MINUTES) == make_plan(7, TEN_MINUTES)
    assert make_plan(7, TEN_MINUTES) != make_plan(8, TEN_MINUTES)


def test_a_run_may_bring_every_manner_of_every_fault_of_links_clocks_and_disks() -> None:
    """Each once, in an order that the seed picks; a whole run brings one manner of each."""
    plan = make_plan(5, Extent(4, 3, 3, 60.0, kinds=EVERY_MANNER))

    there = [(step.kind, step.manner) for step in plan]
    assert len(there) == len(set(there)) == len(EVERY_MANNER)
    assert set(WHOLE) == {*FULL, *EVERY_MANNER} == {*Kind} - {Kind.RESTART_NODE}


def test_the_short_plan_has_only_what_one_broker_and_one_store_survive() -> None:
    """And its caps hold, except for freezes, which must outlast the session anyway."""
    extent = Extent(1, 1, 1, 1.0, kinds=SHORT, quiet_s=(3.0, 4.0), lasts_s_max=9.0)

    plan = make_plan(3, extent)

    assert sorted(step.kind for step in plan) == sorted(SHORT)
    assert {step.target for step in plan} == {1}
    assert all(step.lasts_s <= 9.0 for step in plan)
