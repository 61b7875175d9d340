"""Faults of the group: its coordinator is away, hard to reach, or moves partitions about.

Each decides how bad it is, from the run's random numbers.  When one comes is for ``faults``.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.simulation.faulty_world import FaultyWorld, last
from tests.simulation.history import Happened


def coordinator(world: FaultyWorld, rng: random.Random) -> None:
    """The coordinator's broker dies: nobody's commit or heartbeat is answered."""
    coordinator = world.coordinator
    coordinator.go_away()
    renewed = rng.random() < 0.6
    until_ms = last(world, rng, 12_000.0, lambda: coordinator.come_back(sessions_renewed=renewed))
    world.note(Happened(world.now_ms(), "coordinator", "", until_ms))


def cut_off(world: FaultyWorld, rng: random.Random) -> None:
    """One node does not reach the coordinator, but everything else."""
    member = rng.choice(world.members)
    membership = member.log.membership
    if membership is None:
        return
    membership.reachable = False

    def heal() -> None:
        membership.reachable = True

    until_ms = last(world, rng, 12_000.0, heal)
    world.note(Happened(world.now_ms(), "cut off", member.name, until_ms))


def flicker(world: FaultyWorld, rng: random.Random) -> None:
    """A node is cut off, and the group removes it.  Then it reaches the coordinator for moments.

    In some of them a commit arrives before the node hears that it is not a member.
    """
    member = rng.choice(world.members)
    membership = member.log.membership
    if membership is None:
        return
    membership.reachable = False
    until_ms = world.now_ms() + rng.uniform(8_000.0, 12_000.0) * world.pace
    world.note(Happened(world.now_ms(), "flicker", member.name, until_ms))

    def open_gap() -> None:
        membership.reachable = True
        gap_ms = rng.uniform(5.0, 40.0) * world.pace
        world.after(gap_ms, close_gap if world.now_ms() + gap_ms < until_ms else lambda: None)

    def close_gap() -> None:
        membership.reachable = False
        world.after(rng.uniform(20.0, 200.0) * world.pace, open_gap)

    silence_ms = rng.uniform(5_000.0, 5_500.0) * world.pace
    world.after(silence_ms, open_gap)


def commits_alone(world: FaultyWorld, rng: random.Random) -> None:
    """A node is cut off, and the group removes it.  Then only its commits arrive.

    Each is refused, and no poll says why.
    """
    member = rng.choice(world.members)
    membership, network = member.log.membership, world.network
    if membership is None:
        return
    membership.reachable = False

    @contextmanager
    def through() -> Iterator[None]:
        membership.reachable = True
        try:
            yield
        finally:
            membership.reachable = False

    def let_through() -> None:
        network.around_commits = through

    def heal() -> None:
        if network.around_commits is through:
            network.around_commits = nullcontext
        membership.reachable = True

    world.after(rng.uniform(5_000.0, 5_500.0) * world.pace, let_through)
    lasts_ms = rng.uniform(8_000.0, 12_000.0) * world.pace
    world.after(lasts_ms, heal)
    world.note(Happened(world.now_ms(), "commits alone", member.name, world.now_ms() + lasts_ms))


def move(world: FaultyWorld, rng: random.Random) -> None:
    """A partition goes to another node and comes back, best while blocking code runs there."""
    members = [m for m in world.members if m.log.membership is not None]
    here = rng.choice([m for m in members if m.workers.blocking_partitions()] or world.members)
    first, there = here.log.membership, rng.choice(world.members).log.membership
    partitions = here.workers.blocking_partitions() or here.node.partitions
    if first is None or there is None or there is first or not partitions:
        return
    partition, coordinator = rng.choice(partitions), world.coordinator
    world.note(Happened(world.now_ms(), "move", here.name, world.now_ms()))
    coordinator.move(partition, there)
    delay_ms = rng.choice((200.0, 1_000.0, 4_000.0)) * world.pace
    world.after(delay_ms, lambda: coordinator.move(partition, first))
