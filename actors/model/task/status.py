"""The end of a key, the record of one attempt, and the outcome of a command.

The rule of promises P5 and P6 lives here: which completion closes which row.
"""

from enum import StrEnum
from sys import getsizeof

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.public import public

OBJECT_BYTES = 450
"""Bytes of a completion in memory besides its texts, with its place in a dictionary."""
_SHORT_CHARS_MAX = 200
"""Most characters of ids whose size is counted in characters: measuring their bytes takes longer
and changes little."""


class CompletionResult(StrEnum):
    """The reason why a key is closed."""

    SUCCESS = "success"
    FAILURE = "failure"
    DROPPED = "dropped"
    EXPIRED = "expired"
    """Its expiry passed before an attempt could start.  It is stored as a drop for good."""
    CANCELLED = "cancelled"
    MOVED = "moved"
    REOPENED = "reopened"
    """An operator retried it: the key is open again although it was done."""

    @property
    def is_done(self) -> bool:
        """True if the key never runs again, whatever the log holds later (P5)."""
        return self in _DONE

    @property
    def is_failed(self) -> bool:
        """True if the key is done without having ended well, so that it can be brought back."""
        return self in FAILED_RESULTS


FAILED_RESULTS = (
    CompletionResult.FAILURE,
    CompletionResult.DROPPED,
    CompletionResult.EXPIRED,
)
"""Ends of failed work, whose rows are kept longer than those of their hour."""
STORED_RESULTS = {each: each.value for each in CompletionResult} | {
    CompletionResult.EXPIRED: CompletionResult.DROPPED.value
}
"""The results as stores have them: a node of the version before reads of an expired task that it
is done.  ``is_stored_for_good`` tells it from one that was dropped."""
STORED_FAILED_RESULTS = (CompletionResult.FAILURE, CompletionResult.DROPPED)
"""The same as stores have them."""
_DONE = frozenset({CompletionResult.SUCCESS, *FAILED_RESULTS})


class Completion(msgspec.Struct, frozen=True, gc=False):
    """One row of ``task_status``."""

    key: TaskKey
    result: CompletionResult
    offset: int
    """Offset of the record that was run, or of the command that closed the key."""
    attempts: int = 0
    """Highest attempt number given out before the key was closed."""
    started_ms: int | None = None
    finished_ms: int = 0
    moved_to_ms: int | None = None
    """Scheduled time of the key that replaced this one, for ``moved`` only."""
    for_good: bool = False
    """A move that no later schedule record reopens (run-now)."""
    reason: str | None = None
    kind: str | None = None
    """The task's kind, where outcomes are told; no table of completions has it."""

    @property
    def size_bytes(self) -> int:
        """Approximate bytes in memory, with its key."""
        _, ordering_id, uniqueness_key = self.key
        chars = len(ordering_id) + len(uniqueness_key)
        if chars <= _SHORT_CHARS_MAX and self.reason is None:
            return OBJECT_BYTES + chars
        texts = (ordering_id, uniqueness_key, self.reason)
        return OBJECT_BYTES + sum([getsizeof(text) for text in texts])

    @property
    def is_stored_for_good(self) -> bool:
        """The mark ``for_good`` as stores have it."""
        return self.for_good or self.result is CompletionResult.EXPIRED

    def closes(self, offset: int) -> bool:
        """True if a row made by the record at ``offset`` is closed by this completion."""
        if self.result.is_done or self.for_good:
            return True
        if self.result is CompletionResult.REOPENED:
            return False
        return offset <= self.offset


def read_result(stored: CompletionResult, *, for_good: bool) -> tuple[CompletionResult, bool]:
    """Return result and ``for_good`` of a completion that a store has."""
    if for_good and stored is CompletionResult.DROPPED:
        return CompletionResult.EXPIRED, False
    return stored, for_good


@public("hourhand")
class AttemptResult(StrEnum):
    """The end of one attempt."""

    STARTED = "started"
    """Its start is durable, its end is not: still running, or its process died."""
    SUCCESS = "success"
    FAILURE = "failure"
    RETRY = "retry"
    SNOOZED = "snoozed"
    """It is not over: its code asked to be looked at later."""
    DROPPED = "dropped"
    TIMEOUT = "timeout"


class AttemptRecord(msgspec.Struct, frozen=True, gc=False):
    """One row of ``attempt_history``."""

    key: TaskKey
    attempt: int
    """1 for the first."""
    result: AttemptResult
    started_ms: int
    finished_ms: int | None = None
    next_attempt_ms: int | None = None
    used: int = 0
    """Attempts counted against the policy's maximum, including this one if it counts."""
    suspect: bool = False
    error_class: str | None = None
    error_message: str | None = None
    error_stack: str | None = None
    fence: int = 0
    """Owner epoch of the node that ran it."""
    snoozed: int = 0
    """Times that this attempt asked to be looked at later, while it is not over."""


_SNOOZED = "hourhand.snoozed"
"""Stands for the error's class in the row of an attempt that is not over; the message is how often
it was snoozed."""


def stored_attempt(record: AttemptRecord) -> AttemptRecord:
    """Return a record as a store has it.

    A node of the version before, which knows no snoozes, reads a retry that uses up no attempt.
    """
    if not record.snoozed:
        return record
    is_snooze = record.result is AttemptResult.SNOOZED
    return replace(
        record,
        result=AttemptResult.RETRY if is_snooze else record.result,
        error_class=_SNOOZED,
        error_message=str(record.snoozed),
        snoozed=0,
    )


def read_attempt(stored: AttemptRecord) -> AttemptRecord:
    """Return a record that a store has."""
    message = stored.error_message
    if stored.error_class != _SNOOZED or message is None or not message.isdecimal():
        return stored
    is_snooze = stored.result is AttemptResult.RETRY
    return replace(
        stored,
        result=AttemptResult.SNOOZED if is_snooze else stored.result,
        error_class=None,
        error_message=None,
        snoozed=int(message),
    )


@public("hourhand")
class CommandOutcome(StrEnum):
    """The outcome of a command."""

    APPLIED = "applied"
    RUNNING = "running"
    """An attempt was running: it may end, and no further one starts."""
    CANCELLED = "cancelled"
    """An attempt was running, and its code has ended since.  It is never stored: who reads
    ``running`` looks for the attempt's end."""
    TOO_LATE = "too_late"
    ALREADY_CLOSED = "already_closed"
    UNKNOWN_KEY = "unknown_key"
    STILL_OPEN = "still_open"
    """The task to bring back already waits: nothing was changed."""
    RAN_ALREADY = "ran_already"
    """The task to bring back has ended well."""
    DATA_GONE = "data_gone"
    """The task's data was deleted, so it cannot be opened again without a dead letter."""
    UNKNOWN_PAIR = "unknown_pair"
    """No task has both ids that the command gave, or none whose row is kept."""
    SEVERAL_TASKS = "several_tasks"
    """More than one task has both ids, so only a key names one of them."""


@public("hourhand")
class RecordedOutcome(msgspec.Struct, frozen=True, gc=False):
    """One row of ``command_outcome``."""

    outcome: CommandOutcome
    key: TaskKey
    """The task's key; for ``unknown_pair`` and ``several_tasks`` both ids with the time of the
    command's record."""
    new_key: TaskKey | None = None
    """The task's current key, if the command gave it another."""
    moved_data: bytes | None = None
    """The moved task's data as JSON text, if a row waited under the new key: that row's own record,
    read again, takes its place."""
    several: tuple[TaskKey, ...] = ()
    """For ``several_tasks``: the first tasks that have both ids when the outcome is read; it is
    not stored."""
