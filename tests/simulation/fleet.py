"""A fleet in one thread: ``python -m tests.simulation.fleet --nodes 100 --partitions 1024``.

The real node code under the usual invariants, through what many nodes meet: a rolling restart,
a lost rack, a storm of rebalances.  It decides what happens when; what a run must look like is for
``invariants``.  ``make sim-fleet`` runs it: 1,024 partitions take minutes.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

from tests.simulation.fault_kinds import FAULTS
from tests.simulation.scenario import Scenario, Workload
from tests.simulation.simulate import judge
from tests.simulation.world import World

BEGIN_MS = 3_000.0
"""The first assignment is over by then, as a rule."""
STORM_STEP_MS = 250.0
_RACKS = 3
_SHARE = 0.7
"""Share of the run's busy time that a rolling restart and a storm take."""


def rolling_restart(world: World, busy_ms: float) -> None:
    """Stop each node gracefully, one after the other; it is back half a second after its end."""
    names = [member.name for member in world.members]
    for number, name in enumerate(names):
        world.after(
            BEGIN_MS + number * busy_ms * _SHARE / len(names),
            lambda name=name: _restart(world, name),  # type: ignore[misc]
        )


def _restart(world: World, name: str) -> None:
    for member in world.members:
        if member.name == name:
            world.rejoin_after(member, 500.0)
            world.stop_member(member)


def lost_rack(world: World, busy_ms: float) -> None:
    """Kill a third of the nodes at one moment; their machines come back within seconds."""
    del busy_ms
    world.after(BEGIN_MS, lambda: _kill(world))


def _kill(world: World) -> None:
    for member in world.members[::_RACKS]:
        member.crash_in = 0


def rebalance_storm(world: World, busy_ms: float) -> None:
    """Have a node leave, die or stand still every quarter of a second."""
    for number in range(int(busy_ms * _SHARE / STORM_STEP_MS)):
        world.after(BEGIN_MS + number * STORM_STEP_MS, lambda: _disturb(world))


def _disturb(world: World) -> None:
    if not world.members:
        return
    member = world.rng.choice(world.members)
    match world.rng.randrange(3):
        case 0:
            _restart(world, member.name)
        case 1:
            member.crash_in = 0
        case _:
            # Some longer than the session: such a node was expelled, and does not know it.
            FAULTS["pause"](world, world.rng)


PLANS: dict[str, Callable[[World, float], None]] = {
    "rolling restart": rolling_restart,
    "lost rack": lost_rack,
    "rebalance storm": rebalance_storm,
}


class Fleet:
    """One run of one plan."""

    def __init__(self, plan: str, nodes: int, partitions: int, seed: int, busy_s: int = 20) -> None:
        self.scenario = Scenario(
            name=plan,
            description="a fleet",
            duration_s=busy_s,
            nodes=nodes,
            partitions=partitions,
            # Ids of one task after another are as many as there are nodes, or their tasks would
            # still wait when the run ends.
            workload=Workload(
                ordering_ids=4 * nodes, sick_ordering_ids=nodes, tasks_per_s=2.0 * nodes
            ),
        )
        self.seed = seed
        self.world = World(self.scenario, seed)
        self._plan = PLANS[plan]

    def run(self) -> Sequence[str]:
        """Run to the end, and return what broke a promise."""
        busy_ms = self.scenario.duration_s * 1000.0
        # Behind the start of the nodes, which is the first thing that a world does.
        self.world.after(0.0, lambda: self._plan(self.world, busy_ms))
        self.world.run()
        return list(judge(self.world))


def main() -> int:
    """Run every plan; return how many broke a promise, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1_024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plan", choices=sorted(PLANS), help="this one alone")
    told = parser.parse_args()
    # A failing tree is what the simulation is about; its log would bury the verdict.
    logging.disable(logging.CRITICAL)
    broken = 0
    for plan in [told.plan] if told.plan else PLANS:
        began_s = time.process_time()
        fleet = Fleet(plan, told.nodes, told.partitions, told.seed)
        complaints = fleet.run()
        broken += bool(complaints)
        took_s = time.process_time() - began_s
        verdict = "; ".join(complaints) or "all kept"
        sys.stdout.write(
            f"{plan}, {told.nodes} nodes, {told.partitions} partitions, seed {told.seed}:"
            f" {verdict}; {fleet.world.now_ms() / 1000:.0f} s of its own time in {took_s:.0f} s\n"
        )
        sys.stdout.flush()
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
