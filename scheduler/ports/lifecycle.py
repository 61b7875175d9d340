"""Lifecycle events of tasks for the outside: one record for each event of a key.

Decides names, fields and identity of lifecycle events, version 1: JSON, compact, keyed by the
ordering id. The identity follows from the event and not from its sender, so that repeated records
of one event are recognised. It does not decide who gets them.
"""

import hashlib
from enum import StrEnum
from typing import Protocol

import msgspec

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.ports.store import Stores
from hourhand.actors.ports.telemetry import Telemetry

LIFECYCLE_VERSION = 1
_ID_BYTES = 16


class LifecycleKind(StrEnum):
    """The events of a key."""

    ACCEPTED = "accepted"
    """A record or a bulk load wrote its row."""
    STARTED = "started"
    """User code was called."""
    SNOOZED = "snoozed"
    """User code asked to be called again at ``nextAttemptTime``; the attempt is not over."""
    ATTEMPT_FAILED = "attempt_failed"
    """An attempt did not succeed; ``nextAttemptTime`` if there will be another."""
    BLOCKED = "blocked"
    """Attempts are used up, and the ordering id waits for an operator."""
    COMPLETED = "completed"
    FAILED = "failed"
    """The task failed for good."""
    DROPPED = "dropped"
    EXPIRED = "expired"
    """The task's expiry passed before an attempt could start."""
    CANCELLED = "cancelled"
    MOVED = "moved"
    """The task has another time, and so another key."""
    REOPENED = "reopened"
    """An operator retried the task."""


class LifecycleEvent(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One record of the topic; fields without a value are left out."""

    event: LifecycleKind
    id: str
    """Equal for repeated records of one event; 128 bits, in hexadecimal."""
    time: str
    """Time of the event by the node's clock."""
    partition: int
    scheduled_time: str
    ordering_id: str
    uniqueness_key: str
    version: int
    epoch: int | None = None
    """Owner epoch of the writer; 0 for a bulk load."""
    offset: int | None = None
    """Offset of the task's record; -1 for a bulk load."""
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
    CompletionResult.EXPIRED: LifecycleKind.EXPIRED,
    CompletionResult.CANCELLED: LifecycleKind.CANCELLED,
    CompletionResult.MOVED: LifecycleKind.MOVED,
    CompletionResult.REOPENED: LifecycleKind.REOPENED,
}
_ATTEMPTS = {
    AttemptResult.FAILURE: LifecycleKind.ATTEMPT_FAILED,
    AttemptResult.RETRY: LifecycleKind.ATTEMPT_FAILED,
    AttemptResult.TIMEOUT: LifecycleKind.ATTEMPT_FAILED,
    AttemptResult.SNOOZED: LifecycleKind.SNOOZED,
}

encode_event = msgspec.json.Encoder().encode


class LifecyclePublisher(Telemetry, Protocol):
    """Publishes events of tasks to a topic, before they are stored."""

    def publishing(self, stores: Stores) -> Stores:
        """Return stores whose writes are published first; closing them closes the topic."""

    def close(self) -> None:
        """Wait, for a bounded time, for unacknowledged events."""


def accepted_event(
    partition: int, task: StoredTask, write_time: int, now_ms: int
) -> LifecycleEvent:
    """Return the event of a written row of the schedule.

    A record that is read again has the same offset; a bulk load has none, and its write time
    instead.
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
    """Return the event of a key that was closed, or opened again."""
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
    """Return the event of an attempt that did not succeed; None for one that did, or still runs."""
    kind = _ATTEMPTS.get(record.result)
    if kind is None or record.finished_ms is None:
        return None
    return _event(
        kind,
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
    """Return the event of a call of user code; ``start`` is unique for each call."""
    return _event(LifecycleKind.STARTED, partition, key, now_ms, start, attempt=attempt)


def blocked_event(partition: int, key: TaskKey, now_ms: int, which: str) -> LifecycleEvent:
    """Return the event of a blocked ordering id; ``which`` is unique for each time."""
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
    # JSON keeps the parts apart, with any characters in the ids.
    parts = (kind, key.scheduled_ms, key.ordering_id, key.uniqueness_key, which)
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=_ID_BYTES).hexdigest()


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_instant(time_ms)
