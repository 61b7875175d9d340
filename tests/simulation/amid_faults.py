"""A fault that waits for its moment: a node is struck while a request of one kind is under way.

Other faults come when they come, and rarely amid a request that is rare or short.  This one decides
on the kind of request and on the blow; the next such request of any node has it.
"""

import random
from collections.abc import Callable

from tests.simulation.faulty_world import FaultyWorld, fail_tree, freeze
from tests.simulation.history import Happened
from tests.simulation.member import Member
from tests.simulation.reached import REQUESTS

Blow = Callable[[FaultyWorld, random.Random, Member, int], None]
"""Does something to a node that waits for an answer about a partition."""


def amid(world: FaultyWorld, rng: random.Random) -> None:
    """Strike the node that asks for a thing next."""
    kind, blow = rng.choice(REQUESTS), rng.choice(_BLOWS)
    world.strike_amid(kind, lambda member, partition: blow(world, rng, member, partition))


def _crash(_world: FaultyWorld, rng: random.Random, member: Member, _partition: int) -> None:
    member.crash_in = rng.randrange(3)


def _stop(world: FaultyWorld, rng: random.Random, member: Member, _partition: int) -> None:
    if any(other is not member and not other.is_stopping for other in world.members):
        world.rejoin_after(member, rng.uniform(500.0, 3_000.0) * world.pace)
        world.stop_member(member)


def _fail_tree(world: FaultyWorld, _rng: random.Random, member: Member, _partition: int) -> None:
    fail_tree(world, member)


def _freeze(world: FaultyWorld, rng: random.Random, member: Member, _partition: int) -> None:
    freeze(world, member, rng.choice((100.0, 5_200.0, 8_000.0)) * world.pace)


def _move(world: FaultyWorld, rng: random.Random, member: Member, partition: int) -> None:
    others = [each for each in world.members if each is not member and each.log.membership]
    membership = rng.choice(others).log.membership if others else None
    if membership is not None and partition in range(len(world.broker.partitions)):
        world.coordinator.move(partition, membership)
        world.note(Happened(world.now_ms(), "move", member.name, world.now_ms()))


_BLOWS: tuple[Blow, ...] = (_crash, _crash, _stop, _fail_tree, _freeze, _move, _move)
