"""Everything that goes wrong in a simulated run, each kind with a rate that may be zero.

It decides when a fault comes, from the run's random numbers.  A run switches every kind on or
off by its seed, so that each meets in peace from others.
"""

import random
from collections import Counter
from collections.abc import Mapping

from tests.simulation.fault_kinds import FAULTS
from tests.simulation.faulty_world import FaultyWorld

OFF_SHARE = 0.35
"""Share of seeds that switch a kind of fault off."""


class FaultInjector:
    """Brings faults until a time."""

    def __init__(
        self, world: FaultyWorld, per_minute: Mapping[str, float], rng: random.Random
    ) -> None:
        unknown = per_minute.keys() - FAULTS.keys()
        assert not unknown, f"no such fault: {unknown}"
        self._world = world
        self._rng = rng
        self.counts: Counter[str] = Counter()
        self.rates = {
            kind: rate for kind, rate in per_minute.items() if rate and rng.random() > OFF_SHARE
        }

    def begin(self, until_ms: float) -> None:
        """Plan the first fault; each plans the next."""
        total = sum(self.rates.values())
        if not total:
            return
        delay_ms = self._rng.expovariate(total / 60_000.0) * self._world.pace
        if self._world.now_ms() + delay_ms < until_ms:
            self._world.after(delay_ms, lambda: self._strike(until_ms))

    def _strike(self, until_ms: float) -> None:
        kinds = list(self.rates)
        kind = self._rng.choices(kinds, [self.rates[each] for each in kinds])[0]
        if self._world.members:
            self.counts[kind] += 1
            FAULTS[kind](self._world, self._rng)
        self.begin(until_ms)
