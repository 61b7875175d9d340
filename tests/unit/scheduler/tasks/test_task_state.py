"""States as the store and the nodes tell them together."""

import pytest

from hourhand.actors.model.task.status import AttemptRecord, AttemptResult, CompletionResult
from hourhand.scheduler.tasks.task_state import (
    NodesWord,
    TaskState,
    TaskView,
    as_executed,
    view_of,
)
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task

EPOCH, PARTITION = 7, 3
RUNS = NodesWord(executing={a_key()}, epochs={PARTITION: EPOCH})


def started(result: AttemptResult = AttemptResult.STARTED, fence: int = EPOCH) -> TaskView:
    """Return a task whose first attempt was started by the owner of an epoch."""
    attempt = AttemptRecord(a_key(), 1, result, NOW_MS, next_attempt_ms=NOW_MS + 9, fence=fence)
    return view_of(a_key(), PARTITION, a_stored_task(), None, [attempt])


def cancelled() -> TaskView:
    """Return a task that an operator cancelled."""
    completion = a_completion(result=CompletionResult.CANCELLED)
    return view_of(a_key(), PARTITION, a_stored_task(), completion, [])


@pytest.mark.parametrize(
    ("word", "state"),
    [
        (NodesWord(epochs={PARTITION: EPOCH}), TaskState.RUNNING),
        (NodesWord(epochs={PARTITION: EPOCH + 1}), TaskState.PENDING),
        (NodesWord(epochs={PARTITION: None}), TaskState.PENDING),
        (NodesWord(), TaskState.PENDING),
        (NodesWord(executing={a_key()}), TaskState.RUNNING),
        (NodesWord(limited={a_key()}), TaskState.LIMITED),
    ],
)
def test_a_started_attempt_runs_where_the_owner_that_started_it_lives(
    word: NodesWord, state: TaskState
) -> None:
    """The tasks beside one that killed its node wait for another node."""
    assert as_executed(started(), word).state is state


def test_a_cancelled_task_whose_code_still_runs_is_cancelling() -> None:
    """Its state says no more than what is true: the code has not ended."""
    assert as_executed(cancelled(), RUNS).state is TaskState.CANCELLING
    assert as_executed(cancelled(), NodesWord()).state is TaskState.CANCELLED


def test_what_runs_is_running_whatever_was_stored_of_it() -> None:
    """Before the start is stored, and between attempts; a closed task is closed."""
    pending = view_of(a_key(), PARTITION, a_stored_task(), None, [])
    closed = view_of(a_key(), PARTITION, a_stored_task(), a_completion(), [])

    assert as_executed(pending, RUNS).state is TaskState.RUNNING
    assert as_executed(started(AttemptResult.FAILURE), RUNS).state is TaskState.RUNNING
    assert as_executed(closed, RUNS).state is TaskState.SUCCESS


def test_the_last_attempt_of_a_task_that_ended_well_has_ended_well() -> None:
    """Its row says that it started: what ends well is written once, as a completion."""
    started = AttemptRecord(a_key(), 2, AttemptResult.STARTED, NOW_MS)
    done = a_completion(attempts=2)

    (ended,) = view_of(a_key(), PARTITION, None, done, [started]).attempts
    (cancelled,) = view_of(
        a_key(),
        PARTITION,
        None,
        a_completion(attempts=2, result=CompletionResult.CANCELLED),
        [started],
    ).attempts
    (of_before,) = view_of(a_key(), PARTITION, None, a_completion(attempts=3), [started]).attempts

    assert (ended.result, ended.finished_ms) == (AttemptResult.SUCCESS, done.finished_ms)
    assert cancelled == of_before == started
