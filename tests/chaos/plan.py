"""The faults of a run, their targets, order and duration: all of it from one seed.

Decides nothing about how a fault is carried out.  Every kind a run asks for occurs at least
once; what time is left is filled with faults drawn at random.  The same seed, minutes and
kinds give the same plan.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tests.judge.history import Harm

Struck = Literal["node", "broker", "Cassandra", "all of Cassandra"]
LINKS = ("cut", "cut to", "cut from", "reset", "slow", "lossy", "half-open")
"""Ways in which a link fails: cut both ways, towards the server named first, or from it."""
CLOCKS_S = {
    "7 minutes ahead": 420.0,
    "7 minutes behind": -420.0,
    "5 hours ahead": 18_000.0,
    "5 hours behind": -18_000.0,
    "2 days ahead": 172_800.0,
    "2 days behind": -172_800.0,
}
"""Error of a clock, until it is set right again."""
DISKS = ("slow", "full", "broken")


class Kind(StrEnum):
    """The kinds of faults."""

    KILL_NODE = "SIGKILL of a node"
    FREEZE_NODE = "SIGSTOP of a node"
    RESTART_NODE = "graceful restart of a node"
    RESTART_ALL = "rolling restart"
    KILL_ALL = "all nodes down"
    KILL_BROKER = "SIGKILL of a broker"
    KILL_COORDINATOR = "SIGKILL of the coordinator"
    KILL_STORE_NODE = "SIGKILL of a Cassandra node"
    FREEZE_STORE = "pause of all Cassandra"
    LINK_TO_LOG = "link of a node to the brokers"
    LINK_TO_STORE = "link of a node to Cassandra"
    LINK_OF_BROKER = "link of a broker to the others"
    LINK_OF_STORE_NODE = "link of a Cassandra node to the others"
    CLOCK = "clock of a node"
    DISK_OF_BROKER = "disk of a broker"
    DISK_OF_STORE_NODE = "disk of a Cassandra node"

    @property
    def harm(self) -> Harm:
        """Parts that it may harm."""
        match self:
            case Kind.KILL_BROKER | Kind.KILL_COORDINATOR:
                return "log"
            case Kind.LINK_TO_LOG | Kind.LINK_OF_BROKER | Kind.DISK_OF_BROKER:
                return "log"
            case Kind.KILL_STORE_NODE:
                return "replica"
            case Kind.FREEZE_STORE:
                return "store"
            case Kind.LINK_TO_STORE | Kind.LINK_OF_STORE_NODE | Kind.DISK_OF_STORE_NODE:
                return "store"
            case Kind.CLOCK:
                return "clock"
            case _:
                return "nodes"

    @property
    def strikes(self) -> Struck:
        """The part of which one is struck, or all."""
        match self:
            case Kind.KILL_BROKER | Kind.KILL_COORDINATOR:
                return "broker"
            case Kind.LINK_OF_BROKER | Kind.DISK_OF_BROKER:
                return "broker"
            case Kind.KILL_STORE_NODE | Kind.LINK_OF_STORE_NODE | Kind.DISK_OF_STORE_NODE:
                return "Cassandra"
            case Kind.FREEZE_STORE:
                return "all of Cassandra"
            case _:
                return "node"


@dataclass(frozen=True, slots=True)
class Shape:
    """Duration of a fault, and the time that a run must reckon with until all is back."""

    lasts_s: tuple[float, float]
    returns_s: float
    manners: Sequence[str] = ("",)
    """The ways in which it may happen."""


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
    # Some are over before a session has expired, most are not.
    Kind.LINK_TO_LOG: Shape((4.0, 16.0), 10.0, LINKS),
    Kind.LINK_TO_STORE: Shape((4.0, 16.0), 5.0, LINKS),
    # Past the session of a broker, nine seconds.
    Kind.LINK_OF_BROKER: Shape((8.0, 16.0), 10.0, LINKS),
    Kind.LINK_OF_STORE_NODE: Shape((5.0, 15.0), 5.0, LINKS),
    Kind.CLOCK: Shape((8.0, 14.0), 5.0, tuple(CLOCKS_S)),
    Kind.DISK_OF_BROKER: Shape((6.0, 12.0), 10.0, DISKS),
    Kind.DISK_OF_STORE_NODE: Shape((6.0, 12.0), 25.0, DISKS),
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
"""Faults of processes that each run has."""
AROUND = (
    Kind.LINK_TO_LOG,
    Kind.LINK_TO_STORE,
    Kind.LINK_OF_BROKER,
    Kind.LINK_OF_STORE_NODE,
    Kind.CLOCK,
    Kind.DISK_OF_BROKER,
    Kind.DISK_OF_STORE_NODE,
)
"""Faults of links, clocks and disks, each in a manner that the seed picks."""
WHOLE = (*FULL, *AROUND)
"""Faults that each whole run has."""
EVERY_MANNER = tuple(kind for kind in AROUND for _ in SHAPES[kind].manners)
SHORT = (Kind.KILL_NODE, Kind.FREEZE_NODE, Kind.RESTART_NODE, Kind.FREEZE_STORE, Kind.CLOCK)
"""Faults of the short run, on one broker and one Cassandra node that others use, too."""
FILLING = (
    Kind.KILL_NODE,
    Kind.FREEZE_NODE,
    Kind.RESTART_NODE,
    Kind.LINK_TO_LOG,
    Kind.LINK_TO_STORE,
    Kind.CLOCK,
)
"""Faults that fill the rest of the time."""
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
    manner: str = ""
    """The way in which it happens, if there are several."""

    @property
    def reckoned_s(self) -> float:
        """Its duration on a quiet machine, pause included."""
        return self.quiet_s + self.lasts_s + SHAPES[self.kind].returns_s


@dataclass(frozen=True, slots=True)
class Extent:
    """Number of parts to strike, and the time for it."""

    nodes: int
    brokers: int
    store_nodes: int
    seconds: float
    """At least so long; a plan that has to be longer is."""
    kinds: Sequence[Kind] = WHOLE
    quiet_s: tuple[float, float] = QUIET_S
    lasts_s_max: float = 60.0
    """Caps every fault; the short run pauses its store for less than 20 s."""


def make_plan(seed: int, extent: Extent) -> list[Step]:
    """Return the steps of a run."""
    rng = random.Random(seed)
    kinds = list(extent.kinds)
    rng.shuffle(kinds)
    deals = {kind: _dealt(rng, SHAPES[kind].manners) for kind in Kind}
    steps = [_step(rng, kind, next(deals[kind]), extent) for kind in kinds]
    filling = [kind for kind in FILLING if kind in extent.kinds]
    while sum(step.reckoned_s for step in steps) < extent.seconds and filling:
        kind = rng.choice(filling)
        steps.append(_step(rng, kind, next(deals[kind]), extent))
    return steps


def _dealt(rng: random.Random, manners: Sequence[str]) -> Iterator[str]:
    """Yield each once before any comes again."""
    return itertools.cycle(rng.sample(manners, len(manners)))


def _step(rng: random.Random, kind: Kind, manner: str, extent: Extent) -> Step:
    counts: dict[Struck, int] = {
        "node": extent.nodes,
        "broker": extent.brokers,
        "Cassandra": extent.store_nodes,
        "all of Cassandra": extent.store_nodes,
    }
    return Step(
        kind=kind,
        quiet_s=round(rng.uniform(*extent.quiet_s), 3),
        lasts_s=min(extent.lasts_s_max, round(rng.uniform(*SHAPES[kind].lasts_s), 3)),
        target=rng.randint(1, counts[kind.strikes]),
        manner=manner,
    )
