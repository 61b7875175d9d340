"""Claiming: how long a poll may wait while the store is asked."""

import pytest

from scheduler.node.claiming import poll_ms
from scheduler.node.holdings import Holding, Stage


@pytest.mark.parametrize(
    ("stage", "longest_ms"),
    [(Stage.CLAIMING, 10), (Stage.RESUMING, 10), (Stage.WAITING, 50), (Stage.RUNNING, 50)],
)
def test_a_poll_is_short_while_an_answer_is_awaited(stage: Stage, longest_ms: int) -> None:
    """The answer wakes nobody, and a partition waits for it."""
    holdings = [Holding(0, stage=Stage.RUNNING), Holding(1, stage=stage)]

    assert poll_ms(holdings, 50) == longest_ms
    assert poll_ms(holdings, 5) == 5
