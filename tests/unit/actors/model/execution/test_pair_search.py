"""Which task a pair of ids means, by what was stored before the command."""

import pytest

from hourhand.actors.model.execution.pair_search import PairSearch
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from tests.builders import CHANGING, NOW_MS, a_completion, a_stored_task

OFFSET = 10

Found = TaskKey | CommandOutcome


def _row(due_in_ms: int, offset: int = 1) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, offset=offset)


def _closed(row: StoredTask, result: CompletionResult, offset: int = 2) -> Completion:
    return a_completion(key=row.key, result=result, offset=offset)


def _found(*rows: tuple[StoredTask, Completion | None], kind: CommandKind) -> Found:
    search = PairSearch(Command(kind, _row(0).key, OFFSET, NOW_MS, by_pair=True))
    for row, completion in rows:
        if search.concerns(row):
            search.add(row, completion)
    return search.found()


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_the_one_open_task_is_meant(kind: CommandKind) -> None:
    """Whatever ended beside it; a task that was reopened is open."""
    failed, open_row, done = _row(1), _row(2), _row(3)
    rows = [
        (failed, _closed(failed, CompletionResult.FAILURE)),
        (open_row, None),
        (done, _closed(done, CompletionResult.SUCCESS)),
    ]

    assert _found(*rows, kind=kind) == open_row.key
    reopened = _closed(open_row, CompletionResult.REOPENED)
    assert _found(rows[0], (open_row, reopened), rows[2], kind=kind) == open_row.key


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_two_open_tasks_are_too_many(kind: CommandKind) -> None:
    """So are more."""
    for count in (2, 3):
        rows = [(_row(number), None) for number in range(count)]
        assert _found(*rows, kind=kind) is CommandOutcome.SEVERAL_TASKS


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_a_record_behind_the_command_is_not_meant(kind: CommandKind) -> None:
    """Nor is the row that the command itself wrote before a crash, nor a task of another name."""
    other = a_stored_task(uniqueness_key="other", offset=1)
    rows = [(_row(1, OFFSET), None), (_row(2, OFFSET + 1), None), (other, None)]

    assert _found(*rows, kind=kind) is CommandOutcome.UNKNOWN_PAIR


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_a_command_that_is_read_again_finds_what_it_did(kind: CommandKind) -> None:
    """The completion has the command's own offset."""
    changed, later = _row(1), _row(2)
    own = _closed(changed, CompletionResult.CANCELLED, OFFSET)

    assert _found((changed, own), kind=kind) == changed.key
    ended = _closed(later, CompletionResult.FAILURE)
    assert _found((changed, own), (later, ended), kind=kind) == changed.key


@pytest.mark.parametrize("result", [CompletionResult.FAILURE, CompletionResult.DROPPED])
def test_p12_a_retry_means_the_one_that_failed(result: CompletionResult) -> None:
    """Of several that failed none; where none failed, the last one that ended."""
    failed, second, done, cancelled = (_row(number) for number in range(1, 5))
    rows = [
        (failed, _closed(failed, result)),
        (done, _closed(done, CompletionResult.SUCCESS)),
        (cancelled, _closed(cancelled, CompletionResult.CANCELLED)),
    ]

    assert _found(*rows, kind=CommandKind.RETRY) == failed.key
    assert _found(*rows, kind=CommandKind.CANCEL) == cancelled.key
    assert _found(*rows[1:], kind=CommandKind.RETRY) == cancelled.key
    both = (rows[0], (second, _closed(second, result)))
    assert _found(*both, kind=CommandKind.RETRY) is CommandOutcome.SEVERAL_TASKS
    assert _found(*both, kind=CommandKind.DROP) == second.key


@pytest.mark.parametrize("result", [CompletionResult.CANCELLED, CompletionResult.MOVED])
def test_p12_a_key_that_a_later_record_opened_is_open(result: CompletionResult) -> None:
    """What closed it stands before that record."""
    row = _row(1, offset=5)
    closed = _closed(row, result, 3)

    assert _found((row, closed), (_row(2), None), kind=CommandKind.CANCEL) is (
        CommandOutcome.SEVERAL_TASKS
    )
