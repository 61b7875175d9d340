"""Which results are final, and which completion closes which row."""

import pytest

from actors.model.status import CompletionResult
from tests.builders import a_completion


@pytest.mark.parametrize(
    ("result", "done"),
    [
        (CompletionResult.SUCCESS, True),
        (CompletionResult.FAILURE, True),
        (CompletionResult.DROPPED, True),
        (CompletionResult.CANCELLED, False),
        (CompletionResult.MOVED, False),
        (CompletionResult.REOPENED, False),
    ],
)
def test_p5_done_means_ended_well_failed_for_good_or_dropped(
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
    assert len(CompletionResult) == 6
