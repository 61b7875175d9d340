"""A world as faults see it, and the duration of one.

It decides nothing; the kinds of fault are for the modules beside it.
"""

import random
from collections.abc import Callable
from typing import Protocol

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.group import Coordinator
from hourhand.scheduler.adapters.memory.stores import MemoryStores
from tests.simulation.history import Happened
from tests.simulation.limited import Limits
from tests.simulation.member import Member
from tests.simulation.network import Network
from tests.simulation.outbox_world import WorldOutbox

Fault = Callable[["FaultyWorld", random.Random], None]


class FaultyWorld(Protocol):
    """The world that faults strike."""

    network: Network
    broker: MemoryBroker
    data: MemoryStores
    outbox: WorldOutbox | None
    configs: list[tuple[float, OperatorConfig]]
    """Since when each config was in force."""
    pace: float
    """Factor by which everything lasts longer than what is said here."""

    @property
    def members(self) -> list[Member]:
        """The nodes that live, in the order of their names."""

    @property
    def limits(self) -> Limits:
        """The limits of its kinds, which operators can change."""

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

    def strike_amid(self, kind: str, blow: Callable[[Member, int], None]) -> None:
        """Do something to the node that makes the next request of a kind, while that is under
        way; ``blow`` is given the request's partition, too.
        """

    def make_topic_anew(self) -> None:
        """Delete the topic and make it again."""

    def send_late_tasks(self) -> int:
        """Have a foreign producer send overdue tasks of one partition; return which."""

    def send_planned(self, ordering_id: str, due_ms: int, runs: list[str]) -> None:
        """Have a foreign producer send a blocking task whose attempts go as planned."""

    def owner_of(self, partition: int) -> Member | None:
        """Return the node that the group names a partition's owner."""


def last(
    world: FaultyWorld, rng: random.Random, longest_ms: float, heal: Callable[[], None]
) -> float:
    """Let something last for a while; return when it ends."""
    duration_ms = rng.uniform(200.0, longest_ms) * world.pace
    world.after(duration_ms, heal)
    return world.now_ms() + duration_ms


def freeze(world: FaultyWorld, member: Member, pause_ms: float) -> None:
    """Have a node do nothing for a while."""
    member.pause_until(world.now_ms() + pause_ms)
    world.note(Happened(world.now_ms(), "pause", member.name, member.paused_until_ms))


def fail_tree(world: FaultyWorld, member: Member) -> None:
    """Let an actor of a node's tree fail."""
    world.note(Happened(world.now_ms(), "tree", member.name, world.now_ms()))
    member.fail_tree()
