"""How starts are counted that a limit let through."""

from benchmarks.families.limited import most_within, us_an_attempt
from hourhand.actors.model.flow.flow import FlowRule, FlowRules, Limit


def test_the_most_starts_within_a_time_are_counted_from_each_of_them() -> None:
    """Its end belongs to it."""
    assert most_within([0.0, 1.0, 2.0, 2.5, 3.0, 9.0], 1.0) == 3
    assert most_within([5.0], 1.0) == 1


def test_the_calls_of_an_attempt_are_counted_with_a_limit_and_without() -> None:
    """Each attempt is let through: what is counted is the way of one that waits for nothing."""
    limited = FlowRules({"mail": FlowRule((Limit(rate=1e9, burst=10**9),))})

    assert us_an_attempt(limited, 1_000) > us_an_attempt(FlowRules.NONE, 1_000) > 0
