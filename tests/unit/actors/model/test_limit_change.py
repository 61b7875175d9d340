"""What an operator changes of a limit: what holds then, and what means nothing."""

from datetime import timedelta

import pytest

from hourhand.actors.model.errors import InvalidTask
from hourhand.actors.model.flow import Limit
from hourhand.actors.model.limit_change import LimitChange

DECLARED = Limit(rate=50, per=timedelta(minutes=1), burst=5, concurrency=4, key="tenant")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (LimitChange("mail#1"), DECLARED),
        (
            LimitChange("mail#1", rate=20),
            Limit(rate=20, per=timedelta(minutes=1), burst=5, concurrency=4, key="tenant"),
        ),
        (
            LimitChange("mail#1", 7, 500, 9, 2),
            Limit(rate=7, per=timedelta(seconds=0.5), burst=9, concurrency=2, key="tenant"),
        ),
    ],
)
def test_what_is_changed_stands_in_place_of_what_is_declared(
    change: LimitChange, wanted: Limit
) -> None:
    """And the rest, the key among it, is as declared."""
    assert change.of(DECLARED) == wanted


def test_without_a_declared_burst_the_rate_gives_it() -> None:
    """As where it is declared."""
    assert LimitChange("mail#1", rate=100).of(Limit(rate=5)).burst_tasks == 11


@pytest.mark.parametrize(
    ("change", "declared", "says"),
    [
        (LimitChange("mail#1", rate=0), DECLARED, "pause"),
        (LimitChange("mail#1", concurrency=0), DECLARED, "pause"),
        (LimitChange("mail#1", rate=-1), DECLARED, "rate of mail#1 cannot be -1"),
        (LimitChange("mail#1", rate=float("nan")), DECLARED, "cannot be nan"),
        (LimitChange("mail#1", rate=float("inf")), DECLARED, "cannot be inf"),
        (LimitChange("mail#1", per_ms=0), DECLARED, "per of mail#1"),
        (LimitChange("mail#1", burst=-3), DECLARED, "burst of mail#1"),
        (LimitChange("mail#1", concurrency=10**12), DECLARED, "at most"),
        (LimitChange("mail#1", rate=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", per_ms=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", burst=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", concurrency=5), Limit(rate=4), "declares no concurrency"),
    ],
)
def test_what_means_nothing_is_refused(change: LimitChange, declared: Limit, says: str) -> None:
    """It says what to do instead."""
    with pytest.raises(InvalidTask, match=says):
        change.of(declared)
