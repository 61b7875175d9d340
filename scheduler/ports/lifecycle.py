"""What a task's life looks like from outside: one record for each thing that happened to a key.

Decides names, fields and identity of lifecycle events, version 1: JSON, compact, keyed by the
ordering id.  The identity follows from what happened and not from who tells it, so that an event
told twice is seen to be one.  Never decides who is told.
"""

import hashlib
from enum import StrEnum
from typing import Protocol

import msgspec

from actors.model.instant import format_instant
from actors.model.key import TaskKey
from actors.model.ownership import EPOCH_SHIFT
from actors.model.status import AttemptRecord, AttemptResult, Completion, CompletionResult
from actors.model.task import StoredTask
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry

LIFECYCLE_VERSION = 1
_ID_BYTES = 16


class LifecycleKind(StrEnum):
    """What happened to a key."""

    ACCEPTED = "accepted"
    """A record or a bulk load wrote its row."""
    STARTED = "started"
    """User code was called."""
    ATTEMPT_FAILED = "attempt_failed"
    """An attempt ended otherwise than well; ``nextAttemptTime`` where there will be another."""
    BLOCKED = "blocked"
    """Attempts are used up, and the ordering id waits for an operator."""
    COMPLETED = "completed"
    FAILED = "failed"
    """For good."""
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    MOVED = "moved"
    """The task has another time, and so another key."""
    REOPENED = "reopened"
    """An operator's retry."""


class LifecycleEvent(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One record of the topic; fields that say nothing are left out."""

    event: LifecycleKind
    id: str
    """The same where the same is told again; of 128 bits, in hexadecimal."""
    time: str
    """When it happened, by the clock of the node that tells it."""
    partition: int
    scheduled_time: str
    ordering_id: str
    uniqueness_key: str
    version: int
    epoch: int | None = None
    """Owner epoch of whoever wrote it; 0 for a bulk load."""
    offset: int | None = None
    """Of the record behind it; -1 for a bulk load."""
    attempt: int | None = None
    started_time: str | None = None
    next_attempt_time: str | None = None
    moved_to: str | None = None
    reason: str | None = None
    error_class: str | None = None


_KINDS = {
    CompletionResult.SUCCESS: LifecycleKind.COMPLETED,
    CompletionResult.FAILURE: LifecycleKind.FAILED,
    CompletionResult.DROPPED: LifecycleKind.DROPPED,
    CompletionResult.CANCELLED: LifecycleKind.CANCELLED,
    CompletionResult.MOVED: LifecycleKind.MOVED,
    CompletionResult.REOPENED: LifecycleKind.REOPENED,
}
_FAILED_ATTEMPTS = frozenset({AttemptResult.FAILURE, AttemptResult.RETRY, AttemptResult.TIMEOUT})

encode_event = msgspec.json.Encoder().encode


class LifecyclePublisher(Telemetry, Protocol):
    """Publishes to a topic what happens to tasks, before it is stored."""

    def publishing(self, stores: Stores) -> Stores:
        """Return stores whose writes are published first; closing them closes the topic."""

    def close(self) -> None:
        """Wait, bounded, for what the topic has not acknowledged."""


def accepted_event(
    partition: int, task: StoredTask, write_time: int, now_ms: int
) -> LifecycleEvent:
    """A row of the schedule was written.

    Read again, a record has its offset again; a bulk load has none, and its write time instead.
    """
    which = task.offset if task.offset >= 0 else f"bulk {write_time}"
    return _event(
        LifecycleKind.ACCEPTED,
        partition,
        task.key,
        now_ms,
        which,
        epoch=write_time >> EPOCH_SHIFT,
        offset=task.offset,
    )


def closed_event(partition: int, completion: Completion, write_time: int) -> LifecycleEvent:
    """A key was closed, or opened again."""
    return _event(
        _KINDS[completion.result],
        partition,
        completion.key,
        completion.finished_ms,
        f"{completion.offset} {completion.attempts} {completion.finished_ms}",
        epoch=write_time >> EPOCH_SHIFT,
        offset=completion.offset,
        attempt=completion.attempts,
        started_time=_text(completion.started_ms),
        moved_to=_text(completion.moved_to_ms),
        reason=completion.reason,
    )


def attempt_event(partition: int, record: AttemptRecord) -> LifecycleEvent | None:
    """An attempt ended otherwise than well; None for one that did not, or goes on."""
    if record.result not in _FAILED_ATTEMPTS or record.finished_ms is None:
        return None
    return _event(
        LifecycleKind.ATTEMPT_FAILED,
        partition,
        record.key,
        record.finished_ms,
        f"{record.attempt} {record.started_ms} {record.finished_ms}",
        epoch=record.fence,
        attempt=record.attempt,
        started_time=_text(record.started_ms),
        next_attempt_time=_text(record.next_attempt_ms),
        reason=record.error_message or record.result.value,
        error_class=record.error_class,
    )


def started_event(
    partition: int, key: TaskKey, attempt: int, now_ms: int, start: str
) -> LifecycleEvent:
    """User code was called; ``start`` tells this call from every other."""
    return _event(LifecycleKind.STARTED, partition, key, now_ms, start, attempt=attempt)


def blocked_event(partition: int, key: TaskKey, now_ms: int, which: str) -> LifecycleEvent:
    """The ordering id waits for an operator; ``which`` tells this time from every other."""
    return _event(LifecycleKind.BLOCKED, partition, key, now_ms, which)


def _event(
    kind: LifecycleKind, partition: int, key: TaskKey, time_ms: int, which: object, **more: object
) -> LifecycleEvent:
    values: dict[str, object] = dict(more)
    return LifecycleEvent(
        event=kind,
        id=_identity(kind, key, which),
        time=format_instant(time_ms),
        partition=partition,
        scheduled_time=format_instant(key.scheduled_ms),
        ordering_id=key.ordering_id,
        uniqueness_key=key.uniqueness_key,
        version=LIFECYCLE_VERSION,
        **values,  # type: ignore[arg-type]  # named by the functions above
    )


def _identity(kind: LifecycleKind, key: TaskKey, which: object) -> str:
    # JSON keeps the parts apart, whatever characters the ids hold.
    parts = (kind, key.scheduled_ms, key.ordering_id, key.uniqueness_key, which)
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=_ID_BYTES).hexdigest()


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_instant(time_ms)
