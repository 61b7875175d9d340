"""System tasks, which are Hourhand's own, on a node that runs a user's as well: who runs which.

A task whose ordering id begins with ``hourhand:`` is run by the executor of its kind, every
other one by one of the user's.  Decides that, and nothing else of a run.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from actors.model.definition import ordering_id_parts
from actors.model.errors import UnknownKind
from actors.model.task_executor import TaskExecutor
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook

_numbers = count()

ExecutorFactory = Callable[[], TaskExecutor]
UserFactory = Callable[[str | None], TaskExecutor]
"""Told the kind of task that the executor is for; raises UnknownKind where there is none."""
RoutedFactory = Callable[[str, str | None], TaskExecutor]
"""Told also the ordering id, which goes first."""


class LeaseEnded(Exception):
    """The lease ended during an attempt: another node may have done the task in another way."""


@dataclass(frozen=True, slots=True)
class SystemDependencies:
    """What the executors of system tasks work with."""

    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    lease_ends_ms: Callable[[], float]
    """Until when this node owns its partitions for sure, by monotonic time."""
    looks_max: int = 5
    """How often one attempt looks for a claim that is not decided; 1 under a virtual clock."""
    installation_id: Callable[[], str] = str
    """Tells this node's store from every other one; blocks."""

    def check_lease(self) -> None:
        """Raise LeaseEnded where this process stood still for so long that another one may have
        gone on with the task: what it did stands, and what is done here would be once more.
        """
        if self.clock.monotonic_ms() >= self.lease_ends_ms():
            raise LeaseEnded("the lease ended while this was under way: the next owner goes on")


def unique_in_order(now_ms: int) -> str:
    """Return a uniqueness key that is nobody else's, in the order of this process's calls."""
    return f"{now_ms:015d}-{next(_numbers):012d}-{uuid.uuid4().hex}"


def routed(users: UserFactory, system: Mapping[str, ExecutorFactory]) -> RoutedFactory:
    """Return what makes the executor of an ordering id and kind: a user's, or the system's."""

    def make(ordering_id: str, kind: str | None) -> TaskExecutor:
        parts = ordering_id_parts(ordering_id)
        if parts is None:
            return users(kind)
        factory = system.get(parts[0])
        if factory is None:
            raise UnknownKind(
                f"{ordering_id[:80]!r} is not of a kind of system task that this version knows:"
                " update this node, or drop the task"
            )
        return factory()

    return make
