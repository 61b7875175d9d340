"""Outcomes of tasks for the outside: one record for each closed task, in CloudEvents' binary mode.

Decides names, fields, headers and identity of an outcome, version 1.  The identity follows from
the outcome and not from its sender, so that a repeated record is recognised.  It does not decide
when one is told.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.outcome_row import ClosedTask
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.instant import format_instant

OUTCOME_VERSION = 1
_ID_BYTES = 16
TOLD = frozenset(CompletionResult) - {CompletionResult.REOPENED}
"""The results that are told; an opened key is closed once more."""


class TaskOutcome(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The value of a record; fields without a value are left out."""

    key: str
    """The task's key, as commands take it."""
    ordering_id: str
    scheduled_time: str
    uniqueness_key: str
    result: CompletionResult
    finished_time: str
    partition: int
    version: int
    attempts: int = 0
    """Number of the last attempt; 0 if none began."""
    kind: str | None = None
    started_time: str | None = None
    moved_to: str | None = None
    """The time of the key that a moved task has from then on."""
    reason: str | None = None
    returned: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The value that the task ended with, in an object as its member ``value``; as the kind's codec
    sealed it, if it did."""
    left_out: str | None = None
    """The cause for which ``returned``, or ``reason``, is missing: ``too_large`` or ``expired``."""


class OutcomeRecord(msgspec.Struct, frozen=True):
    """One record of the topic."""

    id: str
    """Equal for repeated records of one outcome; 128 bits, in hexadecimal."""
    ordering_id: str
    """Chooses the partition: the outcomes of one ordering id are in order."""
    value: bytes
    headers: Headers


class OutcomeSink(Protocol):
    """Takes outcomes to where they are read.

    A future resolves once its outcome is durable there. It fails with TaskTooLarge for one that is
    never taken, and with other errors if a later try may succeed.
    """

    in_order: bool
    """True if outcomes handed over together stay in order whichever of them fails."""

    def put(self, records: Sequence[OutcomeRecord]) -> "Sequence[Future[None]]":
        """Take outcomes, in order."""

    def close(self) -> None:
        """Wait, for a bounded time, for what is under way."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TaskOutcome).decode


def outcome_record(
    partition: int,
    closed: ClosedTask,
    source: str,
    returned: bytes | None = None,
    left_out: str | None = None,
) -> OutcomeRecord:
    """Return the record of a closed task; ``returned`` is its result's text."""
    key, kind = closed.key, closed.result.value
    outcome = TaskOutcome(
        key=str(key),
        ordering_id=key.ordering_id,
        scheduled_time=format_instant(key.scheduled_ms),
        uniqueness_key=key.uniqueness_key,
        result=closed.result,
        finished_time=format_instant(closed.finished_ms),
        partition=partition,
        version=OUTCOME_VERSION,
        attempts=closed.attempts,
        kind=closed.kind,
        started_time=_text(closed.started_ms),
        moved_to=_text(closed.moved_to_ms),
        reason=closed.reason,
        returned=msgspec.UNSET if returned is None else msgspec.Raw(returned),
        left_out=left_out,
    )
    parts = (kind, *key, closed.offset, closed.attempts, closed.finished_ms)
    identity = hashlib.blake2b(msgspec.json.encode(parts), digest_size=_ID_BYTES).hexdigest()
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", identity.encode()),
        ("ce_source", source.encode()),
        ("ce_type", f"hourhand.task.{kind}".encode()),
        ("ce_time", outcome.finished_time.encode()),
        ("ce_partitionkey", key.ordering_id.encode()),
        ("content-type", b"application/json"),
    ]
    return OutcomeRecord(identity, key.ordering_id, _encode(outcome), headers)


def read_outcome(value: bytes) -> TaskOutcome:
    """Return the outcome of a record's value; raises ValueError for another text."""
    return _decode(value)


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_instant(time_ms)
