"""The name that is close to one that is not there."""

from hourhand.actors.model.values.suggestion import did_you_mean


def test_the_closest_name_is_suggested() -> None:
    """As it is written where it is known."""
    assert did_you_mean("reprot", ["invoice", "Report"]) == "; did you mean Report?"
    assert did_you_mean("REPORT", ["report"]) == "; did you mean report?"


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    """A wrong suggestion is worse than none."""
    assert did_you_mean("x", ["invoice", "report"]) == ""
    assert did_you_mean("report", []) == ""
    assert did_you_mean(7, ["7"]) == ""


def test_a_name_without_an_end_costs_no_more_than_a_long_one() -> None:
    """It is an outsider's."""
    assert did_you_mean("report" * 1_000_000, ["report"]) == ""
