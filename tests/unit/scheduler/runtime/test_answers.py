"""Whoever waits for an answer waits for a bounded time, and learns who did not give it."""

from concurrent.futures import Future

import pytest

from hourhand.actors.model.values.errors import LogUnavailable, StoreUnavailable
from hourhand.scheduler.runtime.answers import answered


def test_an_answer_is_returned_and_a_failure_raised() -> None:
    """As the future has it."""
    given: Future[int] = Future()
    given.set_result(7)
    failing: Future[int] = Future()
    failing.set_exception(LogUnavailable("nobody answers"))

    assert answered(given) == 7
    with pytest.raises(LogUnavailable, match="nobody answers"):
        answered(failing)


def test_an_answer_that_does_not_come_is_the_operators_matter() -> None:
    """The error names who was asked, for how long, and what to do."""
    with pytest.raises(StoreUnavailable, match=r"store or log did not answer within 0 s: see"):
        answered(Future[int](), 0.0)
