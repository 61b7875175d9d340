"""The state of a key, from its row, its completion and its attempts.

Pure. From the store alone a first attempt that runs right now reads as pending, because its start
is not stored, and a dead node's attempt reads as running. ``NodesWord`` adds the nodes' reports
about both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from msgspec import structs

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.public import public


@public("hourhand")
class TaskState(StrEnum):
    """The state of a key, as far as the store knows."""

    UNKNOWN = "unknown"
    """Nothing is stored: never scheduled, still in the log, or its retention is over."""
    PENDING = "pending"
    LIMITED = "limited"
    """It is due and waits because of a limit, as its node reports."""
    RUNNING = "running"
    """An attempt's start is stored and its end is not: without the nodes' reports, it may be
    dead."""
    RETRYING = "retrying"
    """An attempt failed and the next one has its time."""
    SNOOZED = "snoozed"
    """Its code asked to be called again later; the attempt is not over."""
    BLOCKED = "blocked"
    """Attempts are used up; the ordering id waits for an operator."""
    SUCCESS = "success"
    FAILURE = "failure"
    DROPPED = "dropped"
    EXPIRED = "expired"
    """Its expiry passed before an attempt could start."""
    CANCELLING = "cancelling"
    """It is cancelled, and an earlier attempt still runs, as its node reports."""
    CANCELLED = "cancelled"
    MOVED = "moved"


OPEN_STATES = frozenset(
    {
        TaskState.PENDING,
        TaskState.LIMITED,
        TaskState.RUNNING,
        TaskState.RETRYING,
        TaskState.SNOOZED,
        TaskState.BLOCKED,
    }
)


@dataclass(frozen=True, slots=True)
class TaskView:
    """One key with all its stored rows."""

    key: TaskKey
    partition: int
    state: TaskState
    task: StoredTask | None
    """None if the key never had a row, or the row was deleted after the key closed."""
    completion: Completion | None
    attempts: Sequence[AttemptRecord]
    checkpoint: TaskCheckpoint | None = None
    """The newest one; it is read of a single task alone."""
    result: StoredResult | None = None
    """The value that it ended with, if any; read of a single task alone."""


def state_of(
    task: StoredTask | None, completion: Completion | None, attempts: Sequence[AttemptRecord]
) -> TaskState:
    """Return the state from a key's row, completion and attempts, sorted by number."""
    closed = completion is not None and completion.result is not CompletionResult.REOPENED
    if completion is not None and closed and (task is None or completion.closes(task.offset)):
        return TaskState(completion.result.value)
    if task is None:
        return TaskState.UNKNOWN
    reopened_ms = completion.finished_ms if completion is not None else None
    last = attempts[-1] if attempts else None
    if last is None or (reopened_ms is not None and last.started_ms <= reopened_ms):
        # Attempts from before the key was opened again do not count.
        return TaskState.PENDING
    if last.result is AttemptResult.STARTED:
        return TaskState.RUNNING
    if last.result is AttemptResult.SNOOZED:
        return TaskState.SNOOZED
    return TaskState.BLOCKED if last.next_attempt_ms is None else TaskState.RETRYING


def view_of(
    key: TaskKey,
    partition: int,
    task: StoredTask | None,
    completion: Completion | None,
    attempts: Sequence[AttemptRecord],
    checkpoint: TaskCheckpoint | None = None,
) -> TaskView:
    """Return a key with its stored rows, attempts sorted by number."""
    state = state_of(task, completion, attempts)
    ended = tuple(attempts) if completion is None else with_last_end(attempts, completion)
    return TaskView(key, partition, state, task, completion, ended, checkpoint)


def with_last_end(
    attempts: Sequence[AttemptRecord], completion: Completion
) -> tuple[AttemptRecord, ...]:
    """Return the attempts of a key, the last of them with the end that its completion has.

    The row of an attempt that ends well is not written again: the completion says so.
    """
    last = attempts[-1] if attempts else None
    if last is None or last.result is not AttemptResult.STARTED:
        return tuple(attempts)
    if completion.result is not CompletionResult.SUCCESS or last.attempt != completion.attempts:
        return tuple(attempts)
    ended = structs.replace(last, result=AttemptResult.SUCCESS, finished_ms=completion.finished_ms)
    return (*attempts[:-1], ended)


@dataclass(frozen=True, slots=True)
class NodesWord:
    """The reports of living nodes about tasks, which the store does not have."""

    executing: Collection[TaskKey] = ()
    """Tasks whose user code runs."""
    limited: Collection[TaskKey] = ()
    """Due tasks that wait because of a limit."""
    epochs: Mapping[int, int | None] = field(default_factory=dict)
    """The owner epoch of each partition whose owner lives."""


_WAITING = frozenset({TaskState.PENDING, TaskState.RETRYING, TaskState.SNOOZED})
_MAY_RUN = _WAITING | {TaskState.RUNNING}


def as_executed(view: TaskView, word: NodesWord) -> TaskView:
    """Return a task in the state that store and nodes give together.

    An attempt with a stored start runs if the owner that started it lives. Otherwise the task waits
    for the next owner.
    """
    state = view.state
    if view.key in word.executing:
        if state is TaskState.CANCELLED:
            return replace(view, state=TaskState.CANCELLING)
        return replace(view, state=TaskState.RUNNING) if state in _MAY_RUN else view
    if state is TaskState.RUNNING and word.epochs.get(view.partition) != view.attempts[-1].fence:
        state = TaskState.PENDING
    if state in _WAITING and view.key in word.limited:
        state = TaskState.LIMITED
    return view if state is view.state else replace(view, state=state)
