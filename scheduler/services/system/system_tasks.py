"""System tasks, which are Hourhand's own, on a node that runs a user's as well.

Decides only the executor: a task whose ordering id begins with ``hourhand:`` is run by the executor
of its kind, every other one by one of the user's.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.definition import ordering_id_parts
from hourhand.actors.model.values.errors import UnknownKind
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender

_numbers = count()

ExecutorFactory = Callable[[], TaskExecutor]
UserFactory = Callable[[str | None], TaskExecutor]
"""Gets the kind of task that the executor is for; raises UnknownKind for an unknown one."""
RoutedFactory = Callable[[str, str | None], TaskExecutor]
"""Gets the ordering id and the kind."""


class LeaseEnded(Exception):
    """The lease ended during an attempt: another node may have done the task in another way."""


@dataclass(frozen=True, slots=True)
class SystemDependencies:
    """The ports and settings that executors of system tasks use."""

    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    lease_ends_ms: Callable[[], float]
    """The monotonic time until which this node surely owns its partitions."""
    looks_max: int = 5
    """Most looks of one attempt at a claim that is not decided; 1 under a virtual clock."""
    installation_id: Callable[[], str] = str
    """Returns the id of this node's store; blocks."""

    def check_lease(self) -> None:
        """Raise LeaseEnded if this process paused for so long that another node may have taken over
        the task: its work stands, and work done here would repeat it.
        """
        if self.clock.monotonic_ms() >= self.lease_ends_ms():
            raise LeaseEnded("the lease ended while this was under way: the next owner goes on")


def unique_in_order(now_ms: int) -> str:
    """Return a unique uniqueness key; the keys of one process sort in the order of its calls."""
    return f"{now_ms:015d}-{next(_numbers):012d}-{uuid.uuid4().hex}"


def routed(users: UserFactory, system: Mapping[str, ExecutorFactory]) -> RoutedFactory:
    """Return a factory for executors by ordering id and kind: a user's, or the system's."""

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
