"""What an operator changes of a limit: what holds then, and what means nothing."""

from datetime import timedelta

import msgspec
import pytest

from hourhand.actors.model.flow.flow import Limit, value_text
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.values.errors import InvalidTask

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


BY_PLAN = Limit(rate={"gold": 50, "old": 9, "*": 5}, key="plan")


@pytest.mark.parametrize(
    ("declared", "change", "rate"),
    [
        (BY_PLAN, LimitChange("mail#1", rate=2), {"gold": 50, "old": 9, "*": 2}),
        (BY_PLAN, LimitChange("mail#1", rates={"gold": 80}), {"gold": 80, "old": 9, "*": 5}),
        (
            BY_PLAN,
            LimitChange("mail#1", rates={"new": 7}),
            {"gold": 50, "old": 9, "new": 7, "*": 5},
        ),
        (Limit(rate=5, key="plan"), LimitChange("mail#1", rates={"new": 7}), {"new": 7, "*": 5}),
    ],
)
def test_a_rate_of_one_value_changes_no_other(
    declared: Limit, change: LimitChange, rate: dict[str, float]
) -> None:
    """Nor does that of the rest; a value may get a rate that the code does not name."""
    assert change.of(declared) == Limit(rate=rate, key="plan")


def test_a_change_completes_an_earlier_one() -> None:
    """Number by number, and value by value; the rest may be named as in the code."""
    earlier = LimitChange.of_numbers("mail#1", burst=3, rates={"gold": 80, "tin": 6, "*": 4})
    later = LimitChange.of_numbers("mail#1", rates={"x" * 100: 1, "gold": 70}).signed(
        5, "me", "why"
    )

    both = later.on_top_of(earlier)

    assert both.numbers == (4, None, 3, None, {"gold": 70, "tin": 6, value_text("x" * 100): 1})
    assert (both.changed_ms, both.who, both.reason) == (5, "me", "why")
    assert msgspec.json.decode(msgspec.json.encode(both), type=LimitChange) == both
    assert b"rates" not in msgspec.json.encode(LimitChange("mail#1", rate=5))
    with pytest.raises(InvalidTask, match="say what to change"):
        LimitChange.of_numbers("mail#1", rates={})


def test_without_a_declared_burst_the_rate_gives_it() -> None:
    """As where it is declared."""
    assert LimitChange("mail#1", rate=100).of(Limit(rate=5)).burst_tasks == 11


@pytest.mark.parametrize(
    ("change", "declared", "says"),
    [
        (LimitChange("mail#1", rate=0), DECLARED, "pause"),
        (LimitChange("mail#1", concurrency=0), DECLARED, "pause"),
        (LimitChange("mail#1", rate=-1), DECLARED, "rate of mail#1 cannot be -1"),
        (LimitChange("mail#1", burst=10**400), DECLARED, "burst of mail#1 cannot be 1000"),
        (LimitChange("mail#1", rate=1e-320), DECLARED, "rate of a Limit is 1e-320"),
        (LimitChange("mail#1", rate=float("nan")), DECLARED, "cannot be nan"),
        (LimitChange("mail#1", rate=float("inf")), DECLARED, "cannot be inf"),
        (LimitChange("mail#1", per_ms=0), DECLARED, "per of mail#1"),
        (LimitChange("mail#1", burst=-3), DECLARED, "burst of mail#1"),
        (LimitChange("mail#1", concurrency=10**12), DECLARED, "at most"),
        (LimitChange("mail#1", rate=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", per_ms=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", burst=5), Limit(concurrency=4), "declares no rate"),
        (LimitChange("mail#1", concurrency=5), Limit(rate=4), "declares no concurrency"),
        (LimitChange("mail#1", rates={"gold": 0}), BY_PLAN, "pause"),
        (
            LimitChange("mail#1", rates={"gold": -2}),
            BY_PLAN,
            "rate of 'gold' of mail#1 cannot be -2",
        ),
        (LimitChange("mail#1", rates={"gold": 5}), Limit(rate=4), "declares no key"),
        (LimitChange("mail#1", rates={"a": 5}), Limit(concurrency=4, key="a"), "declares no rate"),
        (LimitChange("mail#1", rates={"~1": 5}), BY_PLAN, "what begins with ~"),
        (
            LimitChange("mail#1", rates=dict.fromkeys(map(str, range(300)), 5)),
            BY_PLAN,
            "302 values",
        ),
    ],
)
def test_what_means_nothing_is_refused(change: LimitChange, declared: Limit, says: str) -> None:
    """It says what to do instead."""
    with pytest.raises(InvalidTask, match=says):
        change.of(declared)
