"""How far behind a partition is, from what its ordering ids report."""

import pytest

from actors.model.observed import OrderingsMeasured, orderings_measured
from actors.model.ownership import Straggler
from tests.builders import NOW_MS


@pytest.mark.parametrize(
    ("earliest_ms", "held_ms", "overdue_ms"),
    [
        (None, [], 0),
        (NOW_MS + 60_000, [], 0),
        (NOW_MS - 2_000, [], 2_000),
        (NOW_MS - 2_000, [NOW_MS - 90_000, NOW_MS - 5_000], 90_000),
        (None, [NOW_MS - 90_000], 90_000),
        (NOW_MS - 100_000, [NOW_MS - 90_000], 100_000),
    ],
)
def test_the_oldest_open_task_counts_whoever_holds_it(
    earliest_ms: int | None, held_ms: list[int], overdue_ms: int
) -> None:
    """Waiting, running, or held by an ordering id; a task of the future is not overdue."""
    held = [Straggler(f"id {ms}", ms) for ms in held_ms]

    measured = orderings_measured(3, 7, held, earliest_ms, NOW_MS)

    assert measured == OrderingsMeasured(3, 7, len(held), overdue_ms)
