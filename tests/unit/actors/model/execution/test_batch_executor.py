"""What ``execute_many`` says of each task."""

import pytest

from hourhand.actors.model.execution.batch_executor import only_outcome, outcomes_of
from hourhand.actors.model.execution.outcome import Done, Drop

NO = ValueError("no")


def test_nothing_says_that_all_are_done() -> None:
    """As with ``execute``."""
    assert outcomes_of(None, 3) == [None, None, None]


@pytest.mark.parametrize("returned", [[Done(), NO], (Done(), NO)])
def test_a_sequence_says_it_of_each(returned: object) -> None:
    """In the order of the tasks."""
    assert outcomes_of(returned, 2) == [Done(), NO]


@pytest.mark.parametrize("returned", [[], [None], "ab", b"ab", 2, {None}, Done()])
def test_anything_else_is_refused(returned: object) -> None:
    """The message says what is needed."""
    with pytest.raises(TypeError, match="for 2 tasks: it returns nothing, or the outcome of each"):
        outcomes_of(returned, 2)


def test_the_outcome_of_one_is_returned_or_raised() -> None:
    """Where a batch executor runs one task alone."""
    assert only_outcome(None) is None
    assert only_outcome([Drop("x")]) == Drop("x")
    with pytest.raises(ValueError, match="no"):
        only_outcome([NO])
