"""What the stored attempts of a key say about its next one."""

from actors.model.attempts import attempt_state
from actors.model.status import AttemptRecord, AttemptResult, CompletionResult
from actors.model.task import FRESH, AttemptState
from tests.builders import NOW_MS, a_completion, a_key


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
        used=2, last=2, next_attempt_ms=NOW_MS + 20_000, suspect=False
    )


def test_a_row_without_an_end_is_a_suspect() -> None:
    """The process may have died of it."""
    rows = [_row(1, used=1), _row(2, used=1, ended=False)]

    assert attempt_state(rows, None) == AttemptState(used=1, last=2, suspect=True)


def test_attempts_before_an_operators_retry_keep_their_numbers_and_no_longer_count() -> None:
    """The policy starts anew, and no attempt row is written over."""
    reopened = a_completion(result=CompletionResult.REOPENED, attempts=2)
    rows = [_row(1, used=1), _row(2, used=2, next_attempt_ms=NOW_MS)]

    assert attempt_state(rows, reopened) == AttemptState(used=0, last=2)


def test_attempts_after_an_operators_retry_count_again() -> None:
    """Their own row tells how many were used since."""
    reopened = a_completion(result=CompletionResult.REOPENED, attempts=2)
    rows = [_row(1, used=1), _row(2, used=2), _row(3, used=1)]

    assert attempt_state(rows, reopened) == AttemptState(used=1, last=3)


def test_another_completion_changes_nothing() -> None:
    """Only a retry gives attempts back."""
    cancelled = a_completion(result=CompletionResult.CANCELLED, attempts=2)

    assert attempt_state([_row(2, used=2)], cancelled) == AttemptState(used=2, last=2)
