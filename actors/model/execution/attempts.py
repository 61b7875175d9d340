"""One attempt: its end, its record, and the effect of both on the next attempt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.execution.backoff import RetryRuling
from hourhand.actors.model.operations.events import AttemptFinished
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import carried_kind
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import FRESH, AttemptState, StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.instant import INSTANT_MIN_MS


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """One attempt of one task, by the owner of its partition."""

    task: StoredTask
    partition: int
    epoch: int
    number: int
    suspect: bool = False
    """True if it runs alone among the suspects of this node."""
    timeout_ms: int | None = None
    record_starts: "StartRecorder | None" = None
    """Makes the starts of such attempts durable; user code waits for the future."""
    is_unordered: bool = False
    """True if it may run beside others of its ordering id."""
    follows: "Attempt | None" = None
    """The attempt of the previous task, if both may be in one batch, in this order."""
    expires_ms: int | None = None
    """Wall time from which on user code may not be called."""

    @property
    def is_beside_others(self) -> bool:
        """True if another attempt of its ordering id may run at the same time."""
        return self.is_unordered or self.follows is not None

    @property
    def was_given_up(self) -> bool:
        """True if its task is recorded as one without a next attempt."""
        attempts = self.task.attempts
        return attempts.used > 0 and not attempts.suspect and attempts.next_attempt_ms == 0

    @property
    def place(self) -> "str | TaskKey":
        """The place that it shares with no other attempt: its ordering id, or its key alone."""
        key = self.task.key
        # Not by the property: asked twice of each attempt.
        return key.ordering_id if self.follows is None and not self.is_unordered else key


StartRecorder = Callable[[Sequence[Attempt]], "Future[None]"]
"""Makes starts durable, called from any thread; one for all attempts of a partition's tree."""


class CheckpointMade(msgspec.Struct, frozen=True, eq=False):
    """A checkpoint of an attempt that runs, to be made durable."""

    attempt: Attempt
    checkpoint: TaskCheckpoint
    answer: Callable[[BaseException | None], object]
    """Told None once it is durable, or else what its write failed with; from any thread."""


class Ending(StrEnum):
    """The end of an attempt, as the runner sees it."""

    DONE = "done"
    FAILED = "failed"
    RETRY = "retry"
    SNOOZED = "snoozed"
    """The attempt is not over: user code asked to be called again later."""
    DROPPED = "dropped"
    TIMED_OUT = "timed_out"
    NOT_STARTED = "not_started"
    """User code was not called: no lease, or the clock was set back before the due time."""
    USED_UP = "used_up"
    """``execute`` was not called: the policy allows no further attempt."""
    HELD = "held"
    """``execute`` was not called: this node cannot open the task's data."""
    CANCELLED = "cancelled"
    """A command asked user code to end while it ran; what it returned or raised decides nothing."""

    @property
    def is_of_user_code(self) -> bool:
        """True if a call of ``execute`` ended so."""
        return self not in _WITHOUT_A_CALL


_WITHOUT_A_CALL = frozenset({Ending.NOT_STARTED, Ending.USED_UP, Ending.HELD})


class AttemptEnded(msgspec.Struct, frozen=True):
    """The end of an attempt; sent exactly once for each that was started."""

    attempt: Attempt
    ending: Ending
    started_ms: int
    finished_ms: int
    retry_after_ms: int | None = None
    reason: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    error_stack: str | None = None
    uses_up_all: bool = False
    """True if the retry policy allows no further attempt after this error."""
    ruling: RetryRuling | None = None
    """The decision of the executor's policy on a failed attempt; None for the default policy."""
    checkpoint: TaskCheckpoint | None = None
    """The last one that the attempt made; None where it ended well and that is durable."""
    returned: bytes | None = None
    """The row's text of the value that it ended well with, if any."""

    @property
    def result(self) -> AttemptResult:
        """The result for the history; None for some attempts without a call of user code."""
        return _RESULTS[self.ending]


_RESULTS = {
    Ending.DONE: AttemptResult.SUCCESS,
    Ending.FAILED: AttemptResult.FAILURE,
    Ending.RETRY: AttemptResult.RETRY,
    Ending.SNOOZED: AttemptResult.SNOOZED,
    Ending.DROPPED: AttemptResult.DROPPED,
    Ending.TIMED_OUT: AttemptResult.TIMEOUT,
    Ending.USED_UP: AttemptResult.FAILURE,
    Ending.CANCELLED: AttemptResult.DROPPED,
}


def finished_event(ended: AttemptEnded) -> AttemptFinished:
    """Return the event of an attempt's end."""
    assert ended.ending not in _WITHOUT_A_CALL, "what did not start has no end to tell"
    attempt, task = ended.attempt, ended.attempt.task
    return AttemptFinished(
        attempt.partition,
        task.key,
        attempt.number,
        _RESULTS[ended.ending],
        ended.finished_ms - ended.started_ms,
        ended.finished_ms,
        ended.error_class,
        carried_kind(task.body),
        task.attempts.failed_ms if ended.error_class else 0,
    )


def started_record(attempt: Attempt, now_ms: int) -> AttemptRecord:
    """Return the record that is made durable just before the user code of an overdue task.

    Only a suspect's start counts as an attempt: bystanders of a dying process keep their attempts.
    """
    return AttemptRecord(
        key=attempt.task.key,
        attempt=attempt.number,
        result=AttemptResult.STARTED,
        started_ms=now_ms,
        used=attempt.task.attempts.used + int(attempt.suspect),
        suspect=attempt.suspect,
        fence=attempt.epoch,
        snoozed=attempt.task.attempts.snoozed,
    )


def failed_record(ended: AttemptEnded, used: int, next_attempt_ms: int | None) -> AttemptRecord:
    """Return the record of a failed attempt, which is made durable before anything follows from it.

    ``used`` is the number of attempts that count then.
    """
    assert ended.ending not in (Ending.DONE, Ending.NOT_STARTED, Ending.HELD), "it did not fail"
    return AttemptRecord(
        key=ended.attempt.task.key,
        attempt=ended.attempt.number,
        result=ended.result,
        started_ms=ended.started_ms,
        finished_ms=ended.finished_ms,
        next_attempt_ms=next_attempt_ms,
        used=used,
        error_class=ended.error_class,
        error_message=ended.error_message,
        error_stack=ended.error_stack,
        fence=ended.attempt.epoch,
    )


def snoozed_record(ended: AttemptEnded, next_attempt_ms: int | None) -> AttemptRecord:
    """Return the record of an attempt that is not over: it goes on later, under its number."""
    assert ended.ending is Ending.SNOOZED, "it is over"
    before = ended.attempt.task.attempts
    record = failed_record(ended, before.used, next_attempt_ms)
    return replace(record, snoozed=before.snoozed + 1)


def held_record(
    task: StoredTask, error_class: str, error_message: str, now_ms: int, begun: Attempt | None
) -> AttemptRecord:
    """Return the record that a task is held for a node which can run it.

    It reads as blocked, and uses up no attempt: its number is 0 if there was none yet. If the start
    of an attempt is durable, it is the end of that one, ``begun``.
    """
    known = task.attempts
    number = known.last + 1 if known.last else 0
    if number == 0:
        # Each owner that cannot run it writes this row again; the time since when it is held stays.
        now_ms = known.failed_ms or now_ms
    return AttemptRecord(
        key=task.key,
        attempt=number if begun is None else begun.number,
        result=AttemptResult.FAILURE,
        started_ms=now_ms,
        finished_ms=now_ms,
        used=known.used,
        error_class=error_class,
        error_message=error_message,
    )


def attempt_state(rows: Sequence[AttemptRecord], completion: Completion | None) -> AttemptState:
    """Return the state of a key after its attempt rows, sorted by their numbers.

    A row without an end is a suspect: the process may have died of it. Attempts before an
    operator's retry keep their numbers but no longer count.
    """
    reopened_last, reopened_ms = -1, INSTANT_MIN_MS
    if completion is not None and completion.result is CompletionResult.REOPENED:
        reopened_ms = completion.finished_ms
        # An attempt that ended well has no row, so only the completion knows its number.
        reopened_last = completion.attempts
        if not rows or rows[-1].attempt <= reopened_last:
            return AttemptState(last=reopened_last, reopened_ms=reopened_ms)
    if not rows:
        return FRESH
    row = rows[-1]
    assert rows[0].attempt <= row.attempt, "attempts are read in order"
    ends = (
        each.finished_ms
        for each in rows
        if each.attempt > reopened_last and each.result is not AttemptResult.SNOOZED
    )
    return AttemptState(
        used=row.used,
        last=row.attempt,
        next_attempt_ms=row.next_attempt_ms or 0,
        wait_ms=max(0, (row.next_attempt_ms or 0) - (row.finished_ms or row.started_ms)),
        suspect=row.finished_ms is None,
        failed_ms=next((each for each in ends if each is not None), 0),
        error_class=row.error_class,
        reopened_ms=reopened_ms,
        snoozed=row.snoozed,
    )


def state_after(before: AttemptState, record: AttemptRecord) -> AttemptState:
    """Return the state of a task after one more recorded attempt."""
    state = attempt_state((record,), None)
    failed_ms = before.failed_ms or state.failed_ms
    return replace(
        state,
        failed_ms=failed_ms,
        checkpoint=before.checkpoint,
        reopened_ms=before.reopened_ms,
    )


class KeyStatus(msgspec.Struct, frozen=True):
    """The state of a key by its completions and attempts."""

    completion: Completion | None
    attempts: AttemptState


NO_STATUS = KeyStatus(None, FRESH)
"""The status of a key without completion and attempts."""


def closing_completion(
    task: StoredTask,
    result: CompletionResult,
    reason: str | None,
    ended: AttemptEnded | None,
    kind: str | None = None,
) -> Completion:
    """Return the completion of a task whose last attempt, if known, ended as given."""
    assert ended is None or ended.attempt.task.key == task.key, "another task's attempt"
    return Completion(
        key=task.key,
        result=result,
        offset=task.offset,
        attempts=ended.attempt.number if ended else task.attempts.last,
        started_ms=ended.started_ms if ended else None,
        finished_ms=ended.finished_ms if ended else 0,
        reason=reason,
        kind=kind,
    )


def result_of(ended: AttemptEnded, retention_ms: int) -> StoredResult:
    """Return the row with the value that an attempt ended well with."""
    assert ended.returned is not None, "it has no value"
    return StoredResult(
        ended.attempt.task.key,
        ended.attempt.number,
        ended.finished_ms,
        ended.finished_ms + retention_ms,
        ended.returned,
        ended.attempt.epoch,
    )


def open_tasks(
    rows: Iterable[StoredTask],
    statuses: Mapping[TaskKey, KeyStatus],
    overdue_until_ms: int,
    own_offset: int,
) -> tuple[StoredTask, ...]:
    """Leave out closed rows, and add to the others the state after their attempts.

    Tasks scheduled up to ``overdue_until_ms`` may have killed an earlier owner's process, unless
    their records are not below ``own_offset``: no earlier owner had those.
    """
    tasks = []
    for row in rows:
        status = statuses.get(row.key, NO_STATUS)
        if status.completion is not None and status.completion.closes(row.offset):
            continue
        late = row.offset < own_offset and row.key.scheduled_ms <= overdue_until_ms
        fresh = not late and status is NO_STATUS
        tasks.append(
            row if fresh else replace(row, attempts=status.attempts, overdue_when_loaded=late)
        )
    return tuple(tasks)
