"""Outcomes are values that can be compared and matched."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any, assert_never

import pytest

from hourhand.actors.model.execution.outcome import Done, Drop, Outcome, Retry, Snooze


def test_outcomes_are_equal_by_value() -> None:
    """What user code returns can be compared in its own tests."""
    assert Done() == Done()
    assert Retry(after=timedelta(seconds=5)) == Retry(timedelta(seconds=5))
    assert Retry() != Retry(timedelta(0))
    assert Drop("gone") == Drop(reason="gone")


def test_an_outcome_cannot_be_changed() -> None:
    """It may cross threads."""
    with pytest.raises(FrozenInstanceError):
        Drop("gone").reason = "other"  # type: ignore[misc]


def test_the_four_outcomes_are_all_there_are() -> None:
    """The type checker finds a match that forgets one."""

    def name(outcome: Outcome) -> str:
        match outcome:
            case Done():
                return "done"
            case Retry():
                return "retry"
            case Snooze():
                return "snooze"
            case Drop():
                return "drop"
            case _:
                assert_never(outcome)

    outcomes = (Done(), Retry(), Snooze(timedelta(seconds=1)), Drop())
    assert [name(outcome) for outcome in outcomes] == ["done", "retry", "snooze", "drop"]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda wrong: Retry(after=wrong), TypeError, r"Retry\(after=5\): a timedelta is needed"),
        (lambda _: Retry(timedelta(seconds=-5)), ValueError, "-5 s.*cannot be negative"),
        (Drop, TypeError, r"Drop\(5\): a reason is text"),
    ],
)
def test_an_outcome_that_means_nothing_is_refused_when_it_is_made(
    make: Callable[[Any], Outcome], error: type[Exception], said: str
) -> None:
    """In the line of user code that is wrong, and not after it has returned."""
    with pytest.raises(error, match=said):
        make(5)
