"""Figures, ratios and goals."""

import math

import pytest

from benchmarks.figures import Figure, Goal, Line, quantile, slope


def a_line(value: float, against: float | None, goal: Goal | None) -> Line:
    """Return a line with one round on each side."""
    other = None if against is None else Figure.of([against])
    return Line("drain", Figure.of([value]), "tasks/s", "rival", other, goal)


def test_the_median_stands_for_the_rounds_and_the_spread_is_kept() -> None:
    """One slow round moves the spread, not the value."""
    figure = Figure.of([5.0, 1.0, 4.0])

    assert figure.value == 4.0
    assert figure.spread == (1.0, 5.0)


def test_nothing_measured_is_no_figure() -> None:
    """Better an error than a zero."""
    with pytest.raises(ValueError, match="round"):
        Figure.of([])


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("at least", 5), True),
        (Goal("at least", 5.1), False),
        (Goal("at most", 5), True),
        (Goal("at most", 4.9), False),
        (Goal("at least", 50, "value"), True),
        (Goal("at most", 49, "value"), False),
    ],
)
def test_a_goal_is_judged_by_ratio_or_value(goal: Goal, met: bool) -> None:
    """Exactly the limit is met."""
    line = a_line(50.0, 10.0, goal)

    assert line.ratio == 5.0
    assert line.met is met


def test_without_the_rival_a_ratio_is_neither_met_nor_missed() -> None:
    """It was not measured, and the line says so."""
    line = a_line(50.0, None, Goal("at least", 5))

    assert line.ratio is None
    assert line.met is None


def test_a_line_is_written_with_all_that_a_reader_needs() -> None:
    """The names are fixed: other programs read them."""
    written = a_line(50.0, 10.0, Goal("at least", 5)).as_json(machine="m", commit="c")

    assert written == {
        "measure": "drain",
        "value": 50.0,
        "unit": "tasks/s",
        "against": "rival",
        "against_value": 10.0,
        "ratio": 5.0,
        "goal": "ratio at least 5",
        "met": True,
        "spread": [50.0, 50.0],
        "against_spread": [10.0, 10.0],
        "rounds": 1,
        "machine": "m",
        "commit": "c",
    }


def test_quantiles_are_values_that_were_measured() -> None:
    """The greatest for 1, the least for 0, never one in between."""
    values = [float(number) for number in range(1, 1001)]

    assert quantile(values, 0.5) == 500.0
    assert quantile(values, 0.999) == 999.0
    assert quantile(values, 1.0) == 1000.0
    assert quantile(values, 0.0) == 1.0


def test_the_slope_of_a_constant_cost_is_zero_and_of_a_linear_one_is_one() -> None:
    """As cost_curve fits it, over logarithms."""
    logs = [math.log(10**power) for power in (4, 5, 6)]

    assert slope([(x, 1.0) for x in logs]) == pytest.approx(0.0)
    assert slope([(x, x + 3) for x in logs]) == pytest.approx(1.0)
