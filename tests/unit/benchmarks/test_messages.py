"""What several rounds of passed-on messages become."""

from typing import Any

from benchmarks.messages import curve_of, lines_of


def _round(late_ms: float, **counts: int) -> dict[str, Any]:
    found = {"sent": 10, "missing": 0, "early": 0, "doubled": 0, "seconds": 1.0, **counts}
    return {
        **found,
        "p50": late_ms,
        "p99": late_ms,
        "p99.9": late_ms,
        "curve": [(0.5, late_ms), (0.9, 2 * late_ms)],
    }


def test_lateness_is_the_median_of_the_rounds() -> None:
    """One round in which a server stood still decides nothing."""
    lines = {line.unit: line for line in lines_of("x", [_round(90), _round(7), _round(30)])}
    judged = lines["ms, p99.9"].as_json()
    assert (judged["value"], judged["spread"], judged["met"]) == (30, [7, 90], True)


def test_one_message_missing_in_one_round_is_not_hidden_by_the_others() -> None:
    """Counts are sums."""
    rounds = [_round(1), _round(1, missing=1), _round(1)]
    lines = {line.unit: line for line in lines_of("x", rounds)}
    missing = lines["missing messages"].as_json()
    assert (missing["value"], missing["met"]) == (1, False)
    assert lines["ms, p50"].detail["sent"] == 30


def test_a_curve_is_the_median_of_the_rounds_share_by_share() -> None:
    """So that the plot agrees with the table."""
    assert curve_of([_round(1), _round(5), _round(3)]) == [(0.5, 3), (0.9, 6)]
