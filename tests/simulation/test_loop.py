"""The event loop in virtual time, where it could deceive whoever awaits it."""

import random

from hourhand.actors.kernel.simulated import VirtualClock
from tests.simulation.loop import SimulatedLoop


def _called_early_s(start_ms: float) -> float:
    """Return how long before its time something is called that was set for a second later."""
    clock = VirtualClock()
    clock.advance(start_ms)
    loop = SimulatedLoop(clock)  # type: ignore[abstract]
    called_s = list[float]()
    when_s = loop.time() + 1.0
    loop.call_at(when_s, lambda: called_s.append(loop.time()))
    due_ms = loop.next_ms()
    assert due_ms is not None
    clock.advance(max(0.0, due_ms - clock.monotonic_ms()))
    while not loop.run_one():
        clock.advance(1e-9)
    return when_s - called_s[0]


def test_nothing_is_called_before_its_time() -> None:
    """Not by a rounding either: what looks at the time then would set the same timer for ever."""
    rng = random.Random(7)

    assert max(_called_early_s(rng.uniform(0.0, 50_000.0)) for _ in range(2_000)) <= 0.0
