"""Which results are final, and which completion closes which row."""

import tracemalloc

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from tests.builders import NOW_MS, a_completion


@pytest.mark.parametrize(
    ("result", "done"),
    [
        (CompletionResult.SUCCESS, True),
        (CompletionResult.FAILURE, True),
        (CompletionResult.DROPPED, True),
        (CompletionResult.EXPIRED, True),
        (CompletionResult.CANCELLED, False),
        (CompletionResult.MOVED, False),
        (CompletionResult.REOPENED, False),
    ],
)
def test_p5_done_means_ended_well_failed_for_good_expired_or_dropped(
    result: CompletionResult,
    done: bool,
) -> None:
    """Cancelled or moved is not done."""
    assert result.is_done is done


@pytest.mark.parametrize(
    ("result", "for_good", "earlier", "same", "later"),
    [
        (CompletionResult.SUCCESS, False, True, True, True),
        (CompletionResult.FAILURE, False, True, True, True),
        (CompletionResult.DROPPED, False, True, True, True),
        (CompletionResult.EXPIRED, False, True, True, True),
        (CompletionResult.CANCELLED, False, True, True, False),
        (CompletionResult.MOVED, False, True, True, False),
        (CompletionResult.MOVED, True, True, True, True),
        (CompletionResult.REOPENED, False, False, False, False),
    ],
)
def test_p5_which_records_a_completion_closes_its_key_to(
    result: CompletionResult,
    for_good: bool,
    earlier: bool,
    same: bool,
    later: bool,
) -> None:
    """A schedule record later in the log opens what was cancelled or moved."""
    completion = a_completion(result=result, for_good=for_good, offset=10)

    assert [completion.closes(offset) for offset in (9, 10, 11)] == [earlier, same, later]


def test_every_result_is_in_the_table_above() -> None:
    """A new result must say whether it is done."""
    assert len(CompletionResult) == 7


@pytest.mark.parametrize("text", ["a", "a" * 90, "ü" * 90, "字" * 90, "x" * 32_000, "😀" * 8_000])
def test_a_known_completion_holds_about_what_is_counted(text: str) -> None:
    """Its objects, its ids however wide their characters are, and its place in a dictionary."""
    tracemalloc.start()
    try:
        known = dict[TaskKey, Completion]()
        before_bytes, _ = tracemalloc.get_traced_memory()
        for number in range(400):
            key = TaskKey(NOW_MS + number, f"{text}-{number}", f"{text}/{number}")
            known[key] = a_completion(key=key, offset=NOW_MS + number)
        size_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()

    assert 0.6 < size_bytes / sum(each.size_bytes for each in known.values()) < 1.4


def test_a_known_completion_counts_its_reason() -> None:
    """Words of user code, up to 1,000 characters."""
    reason = "r" * 1_000

    assert a_completion(reason=reason).size_bytes >= a_completion().size_bytes + 1_000
