"""Which faults strike what, in which order and for how long: all of it from one seed.

Decides nothing about how a fault is carried out.  Every kind a run asks for occurs at least
once; what time is left is filled with faults drawn at random.  The same seed, minutes and
kinds give the same plan.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.history import Harm


class Kind(StrEnum):
    """What can happen."""

    KILL_NODE = "SIGKILL of a node"
    FREEZE_NODE = "SIGSTOP of a node"
    RESTART_NODE = "graceful restart of a node"
    RESTART_ALL = "rolling restart"
    KILL_ALL = "all nodes down"
    KILL_BROKER = "SIGKILL of a broker"
    KILL_COORDINATOR = "SIGKILL of the coordinator"
    KILL_STORE_NODE = "SIGKILL of a Cassandra node"
    FREEZE_STORE = "pause of all Cassandra"

    @property
    def harm(self) -> Harm:
        """Which part of the system it strikes."""
        match self:
            case Kind.KILL_BROKER | Kind.KILL_COORDINATOR:
                return "log"
            case Kind.KILL_STORE_NODE:
                return "replica"
            case Kind.FREEZE_STORE:
                return "store"
            case _:
                return "nodes"


@dataclass(frozen=True, slots=True)
class Shape:
    """How long a fault lasts, and what a run must reckon with until all is back."""

    lasts_s: tuple[float, float]
    returns_s: float


SHAPES = {
    # A node that is started again before its session has expired, and long after.
    Kind.KILL_NODE: Shape((1.0, 12.0), 6.0),
    # Always past the session timeout of 6 s.
    Kind.FREEZE_NODE: Shape((8.0, 14.0), 2.0),
    Kind.RESTART_NODE: Shape((0.5, 2.0), 8.0),
    Kind.RESTART_ALL: Shape((0.5, 2.0), 36.0),
    Kind.KILL_ALL: Shape((60.0, 60.0), 15.0),
    Kind.KILL_BROKER: Shape((8.0, 15.0), 10.0),
    Kind.KILL_COORDINATOR: Shape((8.0, 15.0), 10.0),
    Kind.KILL_STORE_NODE: Shape((5.0, 10.0), 30.0),
    Kind.FREEZE_STORE: Shape((20.0, 20.0), 5.0),
}

FULL = (
    *(Kind.KILL_NODE,) * 4,
    *(Kind.FREEZE_NODE,) * 2,
    Kind.RESTART_ALL,
    Kind.KILL_ALL,
    Kind.KILL_BROKER,
    Kind.KILL_COORDINATOR,
    Kind.KILL_STORE_NODE,
    Kind.FREEZE_STORE,
)
"""What a whole run always does."""
SHORT = (Kind.KILL_NODE, Kind.FREEZE_NODE, Kind.RESTART_NODE, Kind.FREEZE_STORE)
"""What the short run does, on one broker and one Cassandra node."""
FILLING = (Kind.KILL_NODE, Kind.FREEZE_NODE, Kind.RESTART_NODE)
"""What the rest of the time is filled with."""
QUIET_S = (12.0, 18.0)
"""Pause before a fault, so that its effects are not taken for those of the one before."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of the plan."""

    kind: Kind
    quiet_s: float
    """Pause before it, counted from when the step before was over."""
    lasts_s: float
    """From the blow until what was struck is started again or goes on."""
    target: int
    """Which node, broker or Cassandra node, counted from 1; of no meaning where all are struck
    or where the group names the one."""

    @property
    def reckoned_s(self) -> float:
        """How long it takes on a quiet machine, pause included."""
        return self.quiet_s + self.lasts_s + SHAPES[self.kind].returns_s


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is to strike, and for how long."""

    nodes: int
    brokers: int
    store_nodes: int
    seconds: float
    """At least so long; a plan that has to be longer is."""
    kinds: Sequence[Kind] = FULL
    quiet_s: tuple[float, float] = QUIET_S
    lasts_s_max: float = 60.0
    """Caps every fault; the short run pauses its store for less than 20 s."""


def make_plan(seed: int, extent: Extent) -> list[Step]:
    """Return the steps of a run."""
    rng = random.Random(seed)
    kinds = list(extent.kinds)
    rng.shuffle(kinds)
    steps = [_step(rng, kind, extent) for kind in kinds]
    filling = [kind for kind in FILLING if kind in extent.kinds]
    while sum(step.reckoned_s for step in steps) < extent.seconds and filling:
        steps.append(_step(rng, rng.choice(filling), extent))
    return steps


def _step(rng: random.Random, kind: Kind, extent: Extent) -> Step:
    stores = extent.store_nodes
    struck = {"nodes": extent.nodes, "log": extent.brokers, "replica": stores, "store": stores}
    return Step(
        kind=kind,
        quiet_s=round(rng.uniform(*extent.quiet_s), 3),
        lasts_s=min(extent.lasts_s_max, round(rng.uniform(*SHAPES[kind].lasts_s), 3)),
        target=rng.randint(1, struck[kind.harm]),
    )
