"""Faults of the outbox: its movers die or stand still, and its database is away.

Each decides how bad it is, from the run's random numbers.  When one comes is for ``faults``.
"""

import random

from tests.simulation.faulty_world import FaultyWorld, last


def mover_crash(world: FaultyWorld, rng: random.Random) -> None:
    """A mover is killed at one of its next steps, and started again soon."""
    if world.outbox is not None:
        world.outbox.kill(rng.choice(world.outbox.movers), rng.uniform(100.0, 4_000.0))


def mover_pause(world: FaultyWorld, rng: random.Random) -> None:
    """A mover stands still; in most cases until its claim belongs to another one."""
    if world.outbox is not None:
        pause_ms = rng.choice((500.0, rng.uniform(3_000.0, 12_000.0)))
        mover = rng.choice(world.outbox.movers)
        if rng.random() < 0.3:
            mover.paused_until_ms = world.now_ms() + pause_ms
        else:
            mover.pause_among_appends_ms = pause_ms


def database(world: FaultyWorld, rng: random.Random) -> None:
    """The application's database is away for a while; a claim under way ends with an error."""
    outbox = world.outbox
    if outbox is None:
        return
    outbox.database.is_away = True

    def come_back() -> None:
        outbox.database.is_away = False

    last(world, rng, 3_000.0, come_back)
