"""What is recorded of attempts, and what that says about a key's next one."""

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import (
    AttemptEnded,
    Ending,
    KeyStatus,
    attempt_state,
    closing_completion,
    failed_record,
    finished_event,
    held_record,
    open_tasks,
    started_record,
    state_after,
)
from hourhand.actors.model.operations.events import AttemptFinished
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import FRESH, AttemptState
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task, an_attempt


def _row(
    attempt: int, *, used: int, ended: bool = True, next_attempt_ms: int | None = None
) -> AttemptRecord:
    return AttemptRecord(
        a_key(),
        attempt,
        AttemptResult.FAILURE if ended else AttemptResult.STARTED,
        started_ms=NOW_MS,
        finished_ms=NOW_MS + 5 if ended else None,
        next_attempt_ms=next_attempt_ms,
        used=used,
    )


def test_a_key_without_attempts_is_fresh() -> None:
    """Most keys never have a row."""
    assert attempt_state([], None) is FRESH


def test_the_last_row_says_how_many_attempts_were_used_and_when_the_next_may_start() -> None:
    """Earlier rows are history."""
    rows = [_row(1, used=1), _row(2, used=2, next_attempt_ms=NOW_MS + 20_000)]

    assert attempt_state(rows, None) == AttemptState(
        used=2,
        last=2,
        next_attempt_ms=NOW_MS + 20_000,
        wait_ms=19_995,
        suspect=False,
        failed_ms=NOW_MS + 5,
    )


def test_a_row_without_an_end_is_a_suspect() -> None:
    """The process may have died of it."""
    rows = [_row(1, used=1), _row(2, used=1, ended=False)]

    assert attempt_state(rows, None) == AttemptState(
        used=1, last=2, suspect=True, failed_ms=NOW_MS + 5
    )


def test_attempts_before_an_operators_retry_keep_their_numbers_and_no_longer_count() -> None:
    """The policy starts again, and no attempt row is written over."""
    reopened = a_completion(result=CompletionResult.REOPENED, attempts=2)
    rows = [_row(1, used=1), _row(2, used=2, next_attempt_ms=NOW_MS)]

    assert attempt_state(rows, reopened) == AttemptState(
        used=0, last=2, reopened_ms=reopened.finished_ms
    )


def test_attempts_after_an_operators_retry_count_again() -> None:
    """Their own row tells how many were used since."""
    reopened = a_completion(result=CompletionResult.REOPENED, attempts=2)
    rows = [_row(1, used=1), _row(2, used=2), replace(_row(3, used=1), finished_ms=NOW_MS + 9)]

    assert attempt_state(rows, reopened) == AttemptState(
        used=1, last=3, failed_ms=NOW_MS + 9, reopened_ms=reopened.finished_ms
    )


def test_another_completion_changes_nothing() -> None:
    """Only a retry gives attempts back."""
    cancelled = a_completion(result=CompletionResult.CANCELLED, attempts=2)

    assert attempt_state([_row(2, used=2)], cancelled) == AttemptState(
        used=2, last=2, failed_ms=NOW_MS + 5
    )


def test_the_first_failure_stays_while_attempts_follow() -> None:
    """True if they are read together after a restart, or one follows another."""
    rows = [
        replace(_row(n, used=n), finished_ms=NOW_MS + n, error_class="KeyError") for n in (1, 2)
    ]
    kept = state_after(attempt_state(rows[:1], None), rows[1])

    assert kept == attempt_state(rows, None)
    assert (kept.failed_ms, kept.error_class) == (NOW_MS + 1, "KeyError")


_ENDED = AttemptEnded(
    an_attempt(task=a_stored_task(offset=5), partition=3, epoch=7, number=4),
    Ending.TIMED_OUT,
    started_ms=NOW_MS,
    finished_ms=NOW_MS + 250,
    error_class="TimeoutError",
    error_message="too long",
    error_stack="at line 1",
)


def test_operators_are_told_who_ended_how_and_when() -> None:
    """With the kind, which its data carry."""
    task = a_stored_task(data=with_kind(b"{}", "Invoice"))
    ended = replace(_ENDED, attempt=an_attempt(task=task, partition=3, number=4))

    assert finished_event(ended) == AttemptFinished(
        3, task.key, 4, AttemptResult.TIMEOUT, 250, NOW_MS + 250, "TimeoutError", "Invoice"
    )


@pytest.mark.parametrize("suspect", [False, True])
def test_only_the_start_of_a_suspect_uses_up_an_attempt(suspect: bool) -> None:
    """What only stood beside a dying process keeps its attempts."""
    task = a_stored_task(attempts=AttemptState(used=2, last=4))
    attempt = an_attempt(task=task, epoch=7, number=5, suspect=suspect)

    assert started_record(attempt, NOW_MS) == AttemptRecord(
        task.key,
        5,
        AttemptResult.STARTED,
        started_ms=NOW_MS,
        used=3 if suspect else 2,
        suspect=suspect,
        fence=7,
    )


def test_a_failed_attempt_is_recorded_with_its_error_and_what_follows() -> None:
    """One that ended well is not."""
    assert failed_record(_ENDED, 3, NOW_MS + 900) == AttemptRecord(
        _ENDED.attempt.task.key,
        4,
        AttemptResult.TIMEOUT,
        started_ms=NOW_MS,
        finished_ms=NOW_MS + 250,
        next_attempt_ms=NOW_MS + 900,
        used=3,
        error_class="TimeoutError",
        error_message="too long",
        error_stack="at line 1",
        fence=7,
    )
    with pytest.raises(AssertionError, match="did not fail"):
        failed_record(replace(_ENDED, ending=Ending.DONE), 3, None)


@pytest.mark.parametrize(("last", "number"), [(0, 0), (4, 5)])
def test_a_task_of_an_unknown_kind_uses_up_no_attempt(last: int, number: int) -> None:
    """It ends as it begins, and has no next one."""
    task = a_stored_task(attempts=AttemptState(used=2, last=last))

    record = held_record(task, "UnknownKind", "nobody runs Invoice", NOW_MS, None)

    assert record == AttemptRecord(
        task.key,
        number,
        AttemptResult.FAILURE,
        started_ms=NOW_MS,
        finished_ms=NOW_MS,
        used=2,
        error_class="UnknownKind",
        error_message="nobody runs Invoice",
    )


def test_a_task_that_is_held_by_an_attempt_ends_its_durable_start() -> None:
    """Left without an end, it would read as that of a process that died."""
    begun = an_attempt(number=3, task=a_stored_task(attempts=AttemptState(used=2, last=2)))

    record = held_record(begun.task, "PayloadSealed", "no key", NOW_MS, begun)

    assert (record.attempt, record.used, record.finished_ms) == (3, 2, NOW_MS)


def test_a_completion_has_the_times_of_the_attempt_that_closed_the_key() -> None:
    """Where none ended, the task knows how many were made."""
    task = _ENDED.attempt.task
    waiting = replace(task, attempts=AttemptState(used=1, last=2))

    by_attempt = closing_completion(task, CompletionResult.FAILURE, "used up", _ENDED)
    without = closing_completion(waiting, CompletionResult.FAILURE, "used up", None)

    assert by_attempt == Completion(
        task.key,
        CompletionResult.FAILURE,
        5,
        attempts=4,
        started_ms=NOW_MS,
        finished_ms=NOW_MS + 250,
        reason="used up",
    )
    assert without == Completion(
        task.key, CompletionResult.FAILURE, 5, attempts=2, reason="used up"
    )


def test_loaded_rows_that_are_open_know_their_attempts_and_whether_they_were_overdue() -> None:
    """What is closed is left out; what is new and not due stays as it is."""
    rows = [a_stored_task(due_in_ms=due, offset=5) for due in (1, 2, 3, 4, 5)]
    late, closed, reopened, tried, fresh = rows
    own = a_stored_task(due_in_ms=1, uniqueness_key="own", offset=6)
    cancelled = a_completion(result=CompletionResult.CANCELLED, offset=5)
    state = AttemptState(used=1, last=1)
    statuses = {
        closed.key: KeyStatus(cancelled, FRESH),
        reopened.key: KeyStatus(replace(cancelled, offset=4), state),
        tried.key: KeyStatus(None, state),
    }

    found = open_tasks([*rows, own], statuses, overdue_until_ms=NOW_MS + 1, own_offset=6)

    assert [task.key for task in found] == [
        each.key for each in (late, reopened, tried, fresh, own)
    ]
    assert [task.overdue_when_loaded for task in found] == [True, False, False, False, False]
    assert [task.attempts for task in found] == [FRESH, state, state, FRESH, FRESH]
    assert found[3] is fresh and found[4] is own
