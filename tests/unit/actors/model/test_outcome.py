"""Outcomes are values that can be compared and matched."""

from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import assert_never

import pytest

from actors.model.outcome import Done, Drop, Outcome, Retry


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


def test_the_three_outcomes_are_all_there_are() -> None:
    """The type checker finds a match that forgets one."""

    def name(outcome: Outcome) -> str:
        match outcome:
            case Done():
                return "done"
            case Retry():
                return "retry"
            case Drop():
                return "drop"
            case _:
                assert_never(outcome)

    assert [name(outcome) for outcome in (Done(), Retry(), Drop())] == ["done", "retry", "drop"]
