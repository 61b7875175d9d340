"""System tasks, which are Hourhand's own, on a node that runs a user's as well: who runs which.

A task whose ordering id begins with ``hourhand:`` is run by the executor of its kind, every
other one by the user's.  Decides that for each busy ordering id, and nothing else of its run.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from actors.model.definition import ordering_id_parts
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from actors.task_executor import TaskExecutor
from scheduler.node.system_executor import PATIENCE, SystemExecutor
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook

_numbers = count()

ExecutorFactory = Callable[[], TaskExecutor]
RoutedFactory = Callable[[str], TaskExecutor]
"""Told the ordering id that the executor is for."""


@dataclass(frozen=True, slots=True)
class SystemDependencies:
    """What the executors of system tasks work with."""

    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    looks_max: int = 5
    """How often one attempt looks for a claim that is not decided; 1 under a virtual clock."""


class NoUserTasks(TaskExecutor):
    """Stands for a user's executor on a node that was given none: keeps tasks for one that was."""

    retry = PATIENCE

    def execute(self, task: Task) -> Outcome | None:
        """Refuse."""
        raise NotImplementedError(
            f"this node was started without --executor and cannot run {task.key}; it waits for a"
            " node of the group that has one"
        )


class _Unknown(SystemExecutor):
    """Keeps tasks of a kind this version does not know for a node that knows it."""

    async def execute(self, task: Task) -> Outcome | None:
        raise NotImplementedError(
            f"{task.ordering_id[:80]!r} is of no kind that this version knows: update this node,"
            " or drop the task"
        )


def unique_in_order(now_ms: int) -> str:
    """Return a uniqueness key that is nobody else's, in the order of this process's calls."""
    return f"{now_ms:015d}-{next(_numbers):012d}-{uuid.uuid4().hex}"


def routed(users: ExecutorFactory, system: Mapping[str, ExecutorFactory]) -> RoutedFactory:
    """Return what makes the executor of an ordering id: a user's, or the system's."""

    def make(ordering_id: str) -> TaskExecutor:
        parts = ordering_id_parts(ordering_id)
        return users() if parts is None else system.get(parts[0], _Unknown)()

    return make
