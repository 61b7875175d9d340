"""Hourhand's own tasks on a node that runs a user's as well: who runs which.

A task whose ordering id begins with ``hourhand:`` is run by the executor of its kind, every
other one by the user's.  Decides that for each busy ordering id, and nothing else of its run.
"""

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import tenacity

from actors.messages import AttemptTask, DrainTasks, UpdateTask
from actors.model.backoff import RetryPolicy, wait_half_jittered
from actors.model.definition import Definition, ordering_id_parts
from actors.model.outcome import Outcome
from actors.model.task import StoredTask, Task
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from actors.task_executor import TaskExecutor
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook

_numbers = count()

ExecutorFactory = Callable[[], TaskExecutor]
RoutedFactory = Callable[[str], TaskExecutor]
"""Told the ordering id that the executor is for."""

HandOver = Callable[[], "Future[Outcome | None]"]
"""Does a task's work but for waiting; the future resolves to its outcome."""

PATIENCE = RetryPolicy(
    attempts_max=2**31,
    wait=wait_half_jittered(tenacity.wait_exponential(multiplier=0.2, max=30.0)),
    on_exhausted="block",
)
"""What fails for want of a server is tried until it is there: nothing accepted is given up."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Hourhand's own executors work with."""

    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    looks_max: int = 5
    """How often one attempt looks for a claim that is not decided; 1 under a virtual clock."""


class OwnExecutor(TaskExecutor):
    """Base of Hourhand's own executors: knows the log offset of the task at hand."""

    retry = PATIENCE
    unslotted: ClassVar[bool] = False
    """Whether its coroutines take none of the slots for async attempts: what others wait for may
    not wait behind them.  The tree's own limits still bound their number."""
    record_offset = -1
    """Offset of the record that made the task."""
    is_draining = False
    """Whether this node lets go of the task: its attempt waits for nobody else any more."""

    def prompt(self, task: StoredTask) -> HandOver | None:
        """Return the short way for a task, None where it has to be executed; never blocks."""
        del task
        return None

    def on_receive(self, message: Any) -> None:
        """Take note of the task's offset, which user code has no need of."""
        match message:
            case AttemptTask(task=task):
                self.record_offset, self.is_draining = task.offset, False
            case UpdateTask(task=task):
                self.record_offset = max(self.record_offset, task.offset)
            case DrainTasks():
                self.is_draining = True
                self.hurry()
            case _:
                pass
        super().on_receive(message)

    def hurry(self) -> None:
        """Wake the attempt that runs, where it waits for somebody else; from any thread."""

    def offset_over(self, found: Definition | None) -> int:
        """Return the offset of a definition that is to replace ``found``: above it, always.

        Tasks of one ordering id run one after the other, but not always in the order of the log.
        """
        return self.record_offset if found is None else max(self.record_offset, found.offset + 1)


class NoUserTasks(TaskExecutor):
    """Stands for a user's executor on a node that was given none: keeps tasks for one that was."""

    retry = PATIENCE

    def execute(self, task: Task) -> Outcome | None:
        """Refuse."""
        raise NotImplementedError(
            f"this node was started without --executor and cannot run {task.key}; it waits for a"
            " node of the group that has one"
        )


class _Unknown(OwnExecutor):
    """Keeps tasks of a kind this version does not know for a node that knows it."""

    async def execute(self, task: Task) -> Outcome | None:
        raise NotImplementedError(
            f"{task.ordering_id[:80]!r} is of no kind that this version knows: update this node,"
            " or drop the task"
        )


def unique_in_order(now_ms: int) -> str:
    """Return a uniqueness key that is nobody else's, in the order of this process's calls."""
    return f"{now_ms:015d}-{next(_numbers):012d}-{uuid.uuid4().hex}"


def routed(users: ExecutorFactory, own: Mapping[str, ExecutorFactory]) -> RoutedFactory:
    """Return what makes the executor of an ordering id: a user's, or one of Hourhand's own."""

    def make(ordering_id: str) -> TaskExecutor:
        parts = ordering_id_parts(ordering_id)
        return users() if parts is None else own.get(parts[0], _Unknown)()

    return make
