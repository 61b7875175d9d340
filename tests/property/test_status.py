"""Which completion closes which row (P5, P6)."""

from hypothesis import given

from hourhand.actors.model.task.status import Completion, CompletionResult
from tests.property.strategies import completions, offsets


@given(completions, offsets)
def test_p5_a_done_key_is_closed_to_every_record(completion: Completion, offset: int) -> None:
    """Success, failure and drop close the key whatever the log says before or after."""
    if completion.result.is_done or completion.for_good:
        assert completion.closes(offset)


@given(completions)
def test_p5_a_later_record_reopens_what_was_cancelled_or_moved(completion: Completion) -> None:
    """A cancel or move closes what stood before it in the log, and nothing after."""
    passing = completion.result in {CompletionResult.CANCELLED, CompletionResult.MOVED}
    if passing and not completion.for_good:
        assert completion.closes(completion.offset)
        assert not completion.closes(completion.offset + 1)


@given(completions, offsets)
def test_an_operators_retry_opens_the_key(completion: Completion, offset: int) -> None:
    """A reopened key is closed to no record."""
    if completion.result is CompletionResult.REOPENED and not completion.for_good:
        assert not completion.closes(offset)


@given(completions, offsets, offsets)
def test_what_is_closed_to_a_record_is_closed_to_every_earlier_one(
    completion: Completion, one: int, other: int
) -> None:
    """Closing is monotone in the log, so replay changes nothing."""
    earlier, later = sorted((one, other))

    assert completion.closes(earlier) or not completion.closes(later)
