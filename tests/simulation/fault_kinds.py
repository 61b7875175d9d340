"""Every kind of fault, as something that is done to a world.

Each decides how bad it is, from the run's random numbers; the world says what it means.
When one comes is for ``faults``.
"""

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.group import Coordinator
from scheduler.adapters.memory.stores import MemoryStores
from tests.simulation.history import Happened
from tests.simulation.member import Member
from tests.simulation.network import SLOW_ANSWER_MS, Network, Weather

Fault = Callable[["FaultyWorld", random.Random], None]


class FaultyWorld(Protocol):
    """What faults are done to."""

    network: Network
    broker: MemoryBroker
    data: MemoryStores
    pace: float
    """How many times longer everything lasts than what is said here."""

    @property
    def members(self) -> list[Member]:
        """The nodes that live, in the order of their names."""

    @property
    def coordinator(self) -> Coordinator:
        """The group's coordinator."""

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

    def send_late_tasks(self) -> int:
        """Have a foreign producer send overdue tasks of one partition; return which."""

    def owner_of(self, partition: int) -> Member | None:
        """Return the node that the group names a partition's owner."""


# Nodes.


def _crash(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    member.crash_in = rng.choice((0, rng.randrange(5), rng.randrange(80)))


def _blackout(world: FaultyWorld, rng: random.Random) -> None:
    for member in world.members:
        member.crash_in = rng.randrange(20)


def _pause(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    # Most are longer than the session: the node wakes up without knowing that it was expelled.
    pause_ms = rng.choice((600.0, 3_000.0, *(rng.uniform(5_200.0, 9_000.0) for _ in range(4))))
    member.paused_until_ms = world.now_ms() + pause_ms * world.pace
    world.note(Happened(world.now_ms(), "pause", member.name, member.paused_until_ms))


def _join(world: FaultyWorld, rng: random.Random) -> None:
    if len(world.members) < 5:
        world.start_member()


def _leave(world: FaultyWorld, rng: random.Random) -> None:
    staying = [member for member in world.members if not member.is_stopping]
    if len(staying) > 1:
        member = rng.choice(staying)
        world.rejoin_after(member, rng.uniform(500.0, 8_000.0) * world.pace)
        world.stop_member(member)


def _tree(world: FaultyWorld, rng: random.Random) -> None:
    _fail_tree(world, rng.choice(world.members))


def _tree_while_blocking(world: FaultyWorld, rng: random.Random) -> None:
    """A tree is rebuilt while user code that nobody can cancel goes on."""
    busy = [member for member in world.members if member.runner.blocking_partitions()]
    _fail_tree(world, rng.choice(busy or world.members))


def _fail_tree(world: FaultyWorld, member: Member) -> None:
    world.note(Happened(world.now_ms(), "tree", member.name, world.now_ms()))
    member.fail_tree()


def _late_tasks(world: FaultyWorld, rng: random.Random) -> None:
    """Records older than the watermark, and the end of their owner soon after."""
    partition = world.send_late_tasks()
    tree_alone = rng.random() < 0.3

    def end_owner() -> None:
        owner = world.owner_of(partition)
        if owner is not None and tree_alone:
            _fail_tree(world, owner)
        elif owner is not None:
            owner.crash_in = rng.randrange(5)

    world.after(rng.uniform(30.0, 900.0) * world.pace, end_owner)


def _clock(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    step_ms = rng.choice((-1, 1)) * rng.choice((5, 700, 6_000))
    world.note(Happened(world.now_ms(), f"clock {step_ms}", member.name, world.now_ms()))
    member.clock.offset_ms += step_ms


# The group.


def _coordinator(world: FaultyWorld, rng: random.Random) -> None:
    """The coordinator's broker dies: nobody's commit or heartbeat is answered."""
    coordinator = world.coordinator
    coordinator.go_away()
    renewed = rng.random() < 0.6
    until_ms = _last(world, rng, 12_000.0, lambda: coordinator.come_back(sessions_renewed=renewed))
    world.note(Happened(world.now_ms(), "coordinator", "", until_ms))


def _cut_off(world: FaultyWorld, rng: random.Random) -> None:
    """One node does not reach the coordinator, but everything else."""
    member = rng.choice(world.members)
    membership = member.log.membership
    if membership is None:
        return
    membership.reachable = False

    def heal() -> None:
        membership.reachable = True

    until_ms = _last(world, rng, 12_000.0, heal)
    world.note(Happened(world.now_ms(), "cut off", member.name, until_ms))


def _move(world: FaultyWorld, rng: random.Random) -> None:
    """A partition goes to another node and comes back, best while blocking code runs there."""
    members = [m for m in world.members if m.log.membership is not None]
    here = rng.choice([m for m in members if m.runner.blocking_partitions()] or world.members)
    first, there = here.log.membership, rng.choice(world.members).log.membership
    partitions = here.runner.blocking_partitions() or here.node.partitions
    if first is None or there is None or there is first or not partitions:
        return
    partition, coordinator = rng.choice(partitions), world.coordinator
    world.note(Happened(world.now_ms(), "move", here.name, world.now_ms()))
    coordinator.move(partition, there)
    delay_ms = rng.choice((200.0, 1_000.0, 4_000.0)) * world.pace
    world.after(delay_ms, lambda: coordinator.move(partition, first))


# The store and the log.


def _store_fails(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(
        rng.choice((0.05, 0.5, 1.0)) / 3,
        rng.random() / 3,
        rng.random() / 3,
        # Longer than a session at times, so that it comes in the next owner's time.
        late_ms=rng.choice((4_000.0, 20_000.0)) * world.pace,
    )
    _blow(world, rng, "store", weather)


def _store_slow(world: FaultyWorld, rng: random.Random) -> None:
    slow_ms = SLOW_ANSWER_MS * world.pace
    _blow(world, rng, "store", Weather(is_slow=rng.uniform(0.05, 1.0), slow_ms=slow_ms))


def _pages(world: FaultyWorld, rng: random.Random) -> None:
    """The store answers pages of fewer rows than it was asked for."""
    data = world.data

    def limit(asked: int) -> int:
        allowed = rng.randrange(1, asked + 1)
        world.network.counts["partial page"] += allowed < asked
        return allowed

    def heal() -> None:
        if data.page_limit is limit:
            data.page_limit = lambda asked: asked

    data.page_limit = limit
    _last(world, rng, 20_000.0, heal)


def _log_fails(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(
        rng.random() / 2,
        rng.random() / 2,
        is_slow=rng.random(),
        slow_ms=SLOW_ANSWER_MS * world.pace,
    )
    _blow(world, rng, "log", weather)


def _broker(world: FaultyWorld, rng: random.Random) -> None:
    """Some partitions have no leader: nothing is appended to them or read from them."""
    count = len(world.broker.partitions)
    refused = rng.sample(range(count), rng.randrange(1, count + 1))
    world.broker.refused.update(refused)
    until_ms = _last(world, rng, 7_000.0, lambda: world.broker.refused.difference_update(refused))
    world.note(Happened(world.now_ms(), "broker", "", until_ms))


def _commits_fail(world: FaultyWorld, rng: random.Random) -> None:
    weather = Weather(
        rng.random(), rng.random(), is_slow=rng.random() / 2, slow_ms=SLOW_ANSWER_MS * world.pace
    )
    _blow(world, rng, "commits", weather)


def _blow(world: FaultyWorld, rng: random.Random, what: str, weather: Weather) -> None:
    """Let bad weather last for a while; a later storm of the same kind replaces it."""
    setattr(world.network, what, weather)

    def clear() -> None:
        if getattr(world.network, what) is weather:
            setattr(world.network, what, Weather())

    until_ms = _last(world, rng, 5_000.0, clear)
    # What was slow is answered after the storm, and what was late has its effect then.
    world.note(Happened(world.now_ms(), f"{what}: {weather}", "", until_ms))


def _last(
    world: FaultyWorld, rng: random.Random, longest_ms: float, heal: Callable[[], None]
) -> float:
    """Let something last for a while; return when it ends."""
    duration_ms = rng.uniform(200.0, longest_ms) * world.pace
    world.after(duration_ms, heal)
    return world.now_ms() + duration_ms


FAULTS: Mapping[str, Fault] = {
    "crash": _crash,
    "blackout": _blackout,
    "pause": _pause,
    "join": _join,
    "leave": _leave,
    "tree": _tree,
    "tree_while_blocking": _tree_while_blocking,
    "late_tasks": _late_tasks,
    "clock": _clock,
    "coordinator": _coordinator,
    "cut_off": _cut_off,
    "move": _move,
    "store_fails": _store_fails,
    "store_slow": _store_slow,
    "pages": _pages,
    "log_fails": _log_fails,
    "broker": _broker,
    "commits_fail": _commits_fail,
}
"""Every kind of fault, by the name scenarios use."""
