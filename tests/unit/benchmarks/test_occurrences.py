"""How late occurrences started, from what their executor noted."""

import pytest

from benchmarks.families.occurrences import latenesses_ms
from benchmarks.loads import SCHEDULES
from benchmarks.records import Execution

FIRST_MS = 1_000_000
FROM_MS = FIRST_MS + 2_000


def started(turn: int, number: int, late_ms: float) -> Execution:
    """Return the start of the occurrence of a schedule."""
    due_ms = FIRST_MS + turn * 1_000 + number * 2
    return Execution(turn * SCHEDULES + number, (due_ms + late_ms) / 1_000)


def test_only_the_occurrences_of_the_measured_seconds_count() -> None:
    """Those before and after them are there as well."""
    noted = [started(turn, 7, late_ms=turn) for turn in range(6)]

    late_ms = latenesses_ms(noted, FIRST_MS, FROM_MS, seconds=2)

    assert late_ms == pytest.approx([2.0, 3.0])


def test_an_occurrence_that_is_left_out_leaves_the_others() -> None:
    """It was due while the one before it had not ended."""
    noted = [started(2, 0, 9.0), started(3, 499, 1.0)]

    assert latenesses_ms(noted, FIRST_MS, FROM_MS, seconds=2) == pytest.approx([1.0, 9.0])


@pytest.mark.parametrize(
    ("noted", "told"),
    [
        ([started(2, 1, 3.0), started(2, 1, 900.0)], "came twice"),
        ([started(2, 1, -1.0)], "early"),
        ([started(0, 1, 3.0)], "no occurrence"),
    ],
)
def test_a_wrong_run_has_no_figures(noted: list[Execution], told: str) -> None:
    """It raises, and says why."""
    with pytest.raises(RuntimeError, match=told):
        latenesses_ms(noted, FIRST_MS, FROM_MS, seconds=2)
