"""Faults of one partition alone: dead letters, strays or reads that fail for a while; and of all
dead letters, while the log takes everything else.

Each decides what fails and how long, from the run's random numbers.  When one comes is for
``faults``.
"""

import random

from tests.simulation.faulty_world import FaultyWorld, last
from tests.simulation.history import HELD, LETTERS_FAIL, Happened
from tests.simulation.network import Weather

LONGEST_MS = 25_000.0
"""More than a tree is given to answer a batch."""
LETTERS_LONGEST_MS = 60_000.0
"""More than most runs are busy."""
LONGEST_PAUSE_MS = 3_000.0


def letters_held(world: FaultyWorld, rng: random.Random) -> None:
    """Poison in a partition cannot be put aside."""
    partition = rng.randrange(len(world.broker.partitions))
    _break(world, rng, {("dead_letter", partition)}, partition)


def letters_fail(world: FaultyWorld, rng: random.Random) -> None:
    """The dead-letter topic fails alone: it takes nothing, or does not say what it took."""
    weather = Weather(*rng.choice(((1.0, 0.0), (0.5, 0.4), (0.0, 1.0))))
    world.network.letters = weather

    def mend() -> None:
        if world.network.letters is weather:
            world.network.letters = None

    until_ms = last(world, rng, LETTERS_LONGEST_MS, mend)
    until_ms += world.pace * LONGEST_PAUSE_MS
    world.note(Happened(world.now_ms(), LETTERS_FAIL, "", until_ms))


def strays_held(world: FaultyWorld, rng: random.Random) -> None:
    """A partition takes no appends, so what belongs there holds where it stands: the one behind."""
    own = rng.randrange(len(world.broker.partitions))
    _break(world, rng, {("append", own)}, (own + 1) % len(world.broker.partitions))


def hour_unreadable(world: FaultyWorld, rng: random.Random) -> None:
    """The store does not answer reads of a partition's tasks, or of what became of them."""
    partition = rng.randrange(len(world.broker.partitions))
    reads = ("load_tasks", "load_ordering", "find_keys")
    kinds = rng.choice((reads, ("load_completions", "find_completions")))
    _break(world, rng, {(kind, partition) for kind in kinds}, partition)


def _break(world: FaultyWorld, rng: random.Random, broken: set[tuple[str, int]], held: int) -> None:
    world.network.broken |= broken

    def mend() -> None:
        world.network.broken -= broken

    until_ms = last(world, rng, LONGEST_MS, mend)
    # The pause before the last try may have grown to so much.
    longest_ms = world.pace * LONGEST_PAUSE_MS
    world.note(Happened(world.now_ms(), f"{HELD}{held}", "", until_ms + longest_ms))
