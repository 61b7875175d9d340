"""The meaning of an attempt's end, by the value that user code returned or the error it raised.

Never reports an end.  A policy and its wait are user code, so the worker of the attempt calls these
functions.
"""

import random
from datetime import timedelta

from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import JITTER, RetryPolicy, RetryRuling
from hourhand.actors.model.execution.outcome import Done, Drop, Retry, SealedDone, Snooze
from hourhand.actors.model.task.task_result import require_storable, result_text
from hourhand.actors.model.values.display import (
    class_name_of,
    message_of,
    shown,
    stack_of,
    storable_text,
)
from hourhand.actors.model.values.errors import SnoozesUsedUp

ERROR_MESSAGE_CHARS_MAX = 1_000
ERROR_STACK_CHARS_MAX = 8_000
REASON_CHARS_MAX = 1_000


def ended_well(
    attempt: Attempt, outcome: object, started_ms: int, finished_ms: int
) -> AttemptEnded:
    """Return the end of an attempt by its return value; TypeError for a value of another type."""
    match outcome:
        case None:
            return AttemptEnded(attempt, Ending.DONE, started_ms, finished_ms)
        case Done():
            returned = _returned(outcome)
            return AttemptEnded(attempt, Ending.DONE, started_ms, finished_ms, returned=returned)
        case Retry(after=after):
            if not isinstance(after, timedelta | None):
                raise TypeError(f"Retry takes after= as a timedelta, got {shown(after)}")
            after_ms = None if after is None else max(0, round(after.total_seconds() * 1000))
            return AttemptEnded(
                attempt, Ending.RETRY, started_ms, finished_ms, retry_after_ms=after_ms
            )
        case Snooze():
            return _snoozed(attempt, outcome, started_ms, finished_ms)
        case Drop(reason=reason):
            if not isinstance(reason, str):
                raise TypeError(f"Drop takes a reason that is text, got {shown(reason)}")
            kept = storable_text(reason[:REASON_CHARS_MAX])
            return AttemptEnded(attempt, Ending.DROPPED, started_ms, finished_ms, reason=kept)
        case _:
            text = (
                f"execute returned {shown(outcome)}: it returns nothing, Done(), Retry(),"
                " Snooze() or Drop()"
            )
            raise TypeError(text)


def _returned(outcome: Done) -> bytes | None:
    """Return the row's text of a value, None without one; raises InvalidResult."""
    if isinstance(outcome, SealedDone):
        text = outcome.text
    elif outcome.value is None:
        return None
    else:
        text = result_text(outcome.value)
    require_storable(text)
    return text


def _snoozed(attempt: Attempt, outcome: Snooze, started_ms: int, finished_ms: int) -> AttemptEnded:
    """Return the end of a call that asked for another one later; SnoozesUsedUp after the last."""
    # Both may be values that user code has set since.
    after: object = outcome.after
    most: object = outcome.times_max
    if not isinstance(after, timedelta):
        raise TypeError(f"Snooze takes after= as a timedelta, got {shown(after)}")
    if not (most is None or type(most) is int):
        raise TypeError(f"Snooze takes times_max= as a whole number, got {shown(most)}")
    snoozed = attempt.task.attempts.snoozed
    if most is not None and snoozed >= most:
        raise SnoozesUsedUp(
            f"execute asked for a snooze after {snoozed} of them, and its times_max is {most}:"
            " the attempt has failed"
        )
    after_ms = max(0, round(after.total_seconds() * 1000))
    return AttemptEnded(attempt, Ending.SNOOZED, started_ms, finished_ms, retry_after_ms=after_ms)


def ended_badly(
    attempt: Attempt,
    error: BaseException,
    started_ms: int,
    finished_ms: int,
    ending: Ending = Ending.FAILED,
    policy: RetryPolicy | None = None,
    rng: random.Random = JITTER,
) -> AttemptEnded:
    """Return the end of an attempt by the exception of user code, cut to the length that history
    keeps.

    Without a ``policy``, the attempt is tried again by the default one.
    """
    verdict = "retry" if policy is None else policy.verdict_on(error)
    name, message = class_name_of(error), message_of(error, ERROR_MESSAGE_CHARS_MAX)
    dropped = verdict == "drop"
    ended = AttemptEnded(
        attempt,
        Ending.DROPPED if dropped else ending,
        started_ms,
        finished_ms,
        reason=f"{name}: {message}"[:REASON_CHARS_MAX] if dropped else None,
        error_class=name,
        error_message=message,
        error_stack=stack_of(error, ERROR_STACK_CHARS_MAX),
        uses_up_all=verdict == "give_up",
    )
    if policy is None or dropped:
        return ended
    return replace(ended, ruling=ruling_on(policy, ended, error, rng))


def ruling_on(
    policy: RetryPolicy, ended: AttemptEnded, outcome: object, rng: random.Random
) -> RetryRuling:
    """Return the policy's ruling on an end; its wait, which is user code, is asked only if another
    attempt follows.
    """
    task = ended.attempt.task
    used = task.attempts.used + 1
    has_wait = used < policy.attempts_max and not ended.uses_up_all
    return policy.ruling(
        used,
        outcome,
        after_ms=ended.retry_after_ms if has_wait else 0,
        since_due_ms=max(0, ended.finished_ms - task.key.scheduled_ms),
        rng=rng,
    )


def cancelled(ended: AttemptEnded) -> AttemptEnded:
    """Return the end of an attempt that was asked to end; its error stays in the history."""
    return replace(
        ended,
        ending=Ending.CANCELLED,
        retry_after_ms=None,
        reason=None,
        uses_up_all=False,
        ruling=None,
    )


def not_started(attempt: Attempt, now_ms: int) -> AttemptEnded:
    """Return the end of an attempt whose user code was never called."""
    return AttemptEnded(attempt, Ending.NOT_STARTED, now_ms, now_ms)
