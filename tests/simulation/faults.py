"""Everything that goes wrong in a simulated run, each kind with a rate that may be zero.

It decides when a fault comes and how bad it is, from the run's random numbers; the world says
what it means.  A run switches every kind on or off by its seed, so that some faults meet in
peace from others.
"""

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.simulation.history import Happened
from tests.simulation.member import Member
from tests.simulation.network import Network, Weather

Fault = Callable[["FaultyWorld", random.Random], None]

OFF_SHARE = 0.35
"""How often a seed switches a kind of fault off."""


class FaultyWorld(Protocol):
    """What faults are done to."""

    network: Network

    @property
    def members(self) -> list[Member]:
        """The nodes that live, in the order of their names."""

    def now_ms(self) -> float:
        """Return the virtual time passed."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def note(self, entry: Happened) -> None:
        """Keep what happened."""

    def start_member(self, name: str | None = None) -> None:
        """Start a node, a new one where no name is given."""

    def stop_member(self, member: Member) -> None:
        """Ask a node to stop gracefully."""

    def rejoin_after(self, member: Member, delay_ms: float) -> None:
        """Start a node of that name again when this one is gone."""


def _crash(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    member.crash_in = rng.choice((0, rng.randrange(5), rng.randrange(80)))


def _pause(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    # Most are longer than the session: the node wakes up without knowing that it was expelled.
    pause_ms = rng.choice((600.0, 3_000.0, *(rng.uniform(5_200.0, 9_000.0) for _ in range(4))))
    member.paused_until_ms = world.now_ms() + pause_ms
    world.note(Happened(world.now_ms(), "pause", member.name, member.paused_until_ms))


def _join(world: FaultyWorld, rng: random.Random) -> None:
    if len(world.members) < 5:
        world.start_member()


def _leave(world: FaultyWorld, rng: random.Random) -> None:
    staying = [member for member in world.members if not member.is_stopping]
    if len(staying) > 1:
        member = rng.choice(staying)
        world.rejoin_after(member, rng.uniform(500.0, 8_000.0))
        world.stop_member(member)


def _tree(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    world.note(Happened(world.now_ms(), "tree", member.name, world.now_ms()))
    member.fail_tree()


def _clock(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    step_ms = rng.choice((-1, 1)) * rng.choice((5, 700, 6_000))
    world.note(Happened(world.now_ms(), f"clock {step_ms}", member.name, world.now_ms()))
    member.clock.offset_ms += step_ms


def _store_fails(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(rng.choice((0.05, 0.5, 1.0)) / 3, rng.random() / 3, rng.random() / 3)
    _blow(world, rng, "store", weather)


def _store_slow(world: FaultyWorld, rng: random.Random) -> None:
    _blow(world, rng, "store", Weather(is_slow=rng.uniform(0.05, 1.0)))


def _log_fails(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(rng.random() / 2, rng.random() / 2, is_slow=rng.random())
    _blow(world, rng, "log", weather)


def _commits_fail(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(rng.random(), rng.random(), is_slow=rng.random() / 2)
    _blow(world, rng, "commits", weather)


def _blow(world: FaultyWorld, rng: random.Random, what: str, weather: Weather) -> None:
    """Let bad weather last for a while; a later storm of the same kind replaces it."""
    duration_ms = rng.uniform(200.0, 5_000.0)
    setattr(world.network, what, weather)
    until_ms = world.now_ms() + duration_ms
    world.note(Happened(world.now_ms(), f"{what}: {weather}", "", until_ms))

    def clear() -> None:
        if getattr(world.network, what) is weather:
            setattr(world.network, what, Weather())

    world.after(duration_ms, clear)


FAULTS: Mapping[str, Fault] = {
    "crash": _crash,
    "pause": _pause,
    "join": _join,
    "leave": _leave,
    "tree": _tree,
    "clock": _clock,
    "store_fails": _store_fails,
    "store_slow": _store_slow,
    "log_fails": _log_fails,
    "commits_fail": _commits_fail,
}
"""Every kind of fault, by the name scenarios use."""


class FaultInjector:
    """Brings faults until a time."""

    def __init__(
        self, world: FaultyWorld, per_minute: Mapping[str, float], rng: random.Random
    ) -> None:
        unknown = per_minute.keys() - FAULTS.keys()
        assert not unknown, f"no such fault: {unknown}"
        self._world = world
        self._rng = rng
        self.rates = {
            kind: rate for kind, rate in per_minute.items() if rate and rng.random() > OFF_SHARE
        }

    def begin(self, until_ms: float) -> None:
        """Plan the first fault; each plans the next."""
        total = sum(self.rates.values())
        if not total:
            return
        delay_ms = self._rng.expovariate(total / 60_000.0)
        if self._world.now_ms() + delay_ms < until_ms:
            self._world.after(delay_ms, lambda: self._strike(until_ms))

    def _strike(self, until_ms: float) -> None:
        kinds = list(self.rates)
        kind = self._rng.choices(kinds, [self.rates[each] for each in kinds])[0]
        if self._world.members:
            FAULTS[kind](self._world, self._rng)
        self.begin(until_ms)
