"""Where a key stands: how its row, its completion and its attempts read together.

Pure.  A first attempt that runs right now reads as pending: its start is not in the store.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from actors.model.key import TaskKey
from actors.model.status import AttemptRecord, AttemptResult, Completion, CompletionResult
from actors.model.task import StoredTask


class TaskState(StrEnum):
    """Where a key stands, as far as the store knows."""

    UNKNOWN = "unknown"
    """Nothing is stored: never scheduled, still in the log, or its retention is over."""
    PENDING = "pending"
    LIMITED = "limited"
    """It is due and waits because of a limit, as its node says."""
    RUNNING = "running"
    """An attempt's start is stored and its end is not: it runs, or its node died."""
    RETRYING = "retrying"
    """An attempt failed and the next one has its time."""
    BLOCKED = "blocked"
    """Attempts are used up; the ordering id waits for an operator."""
    SUCCESS = "success"
    FAILURE = "failure"
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    MOVED = "moved"


OPEN_STATES = frozenset(
    {
        TaskState.PENDING,
        TaskState.LIMITED,
        TaskState.RUNNING,
        TaskState.RETRYING,
        TaskState.BLOCKED,
    }
)


@dataclass(frozen=True, slots=True)
class TaskView:
    """One key with everything the store holds of it."""

    key: TaskKey
    partition: int
    state: TaskState
    task: StoredTask | None
    """None where the key never had a row, or the row was deleted after the key closed."""
    completion: Completion | None
    attempts: Sequence[AttemptRecord]


def state_of(
    task: StoredTask | None, completion: Completion | None, attempts: Sequence[AttemptRecord]
) -> TaskState:
    """Return what a key's row, completion and attempts, by number, say together."""
    closed = completion is not None and completion.result is not CompletionResult.REOPENED
    if completion is not None and closed and (task is None or completion.closes(task.offset)):
        return TaskState(completion.result.value)
    if task is None:
        return TaskState.UNKNOWN
    reopened_ms = completion.finished_ms if completion is not None else None
    last = attempts[-1] if attempts else None
    if last is None or (reopened_ms is not None and last.started_ms <= reopened_ms):
        # What was attempted before the key was opened again says nothing of what follows.
        return TaskState.PENDING
    if last.result is AttemptResult.STARTED:
        return TaskState.RUNNING
    return TaskState.BLOCKED if last.next_attempt_ms is None else TaskState.RETRYING


def view_of(
    key: TaskKey,
    partition: int,
    task: StoredTask | None,
    completion: Completion | None,
    attempts: Sequence[AttemptRecord],
) -> TaskView:
    """Return a key with what is stored of it, attempts by number."""
    state = state_of(task, completion, attempts)
    return TaskView(key, partition, state, task, completion, tuple(attempts))


def as_executed(
    view: TaskView, executing: Collection[TaskKey], limited: Collection[TaskKey] = ()
) -> TaskView:
    """Return a task in the state that the store's word and its node's give together.

    ``executing``: the keys that nodes say they execute; ``limited``: those that wait for a limit.
    """
    if view.state not in (TaskState.PENDING, TaskState.RETRYING):
        return view
    if view.key in executing:
        return replace(view, state=TaskState.RUNNING)
    return replace(view, state=TaskState.LIMITED) if view.key in limited else view
