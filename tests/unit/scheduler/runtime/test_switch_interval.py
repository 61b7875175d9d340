"""The interpreter's switch interval: short while user code computes, and the program's own else."""

import sys
from collections.abc import Iterator

import pytest

from hourhand.scheduler.runtime.switch_interval import USUAL_S, SwitchInterval, interval_s


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Python's own interval before each test, and what was there after it."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(USUAL_S)
    yield
    sys.setswitchinterval(before_s)


def now_s() -> float:
    """Return the interval as Python keeps it."""
    return round(sys.getswitchinterval(), 6)


@pytest.mark.parametrize(
    ("computing", "expected_s"),
    [(0, 0.005), (1, 0.0005), (2, 0.0005), (8, 0.000125), (31, 0.0001), (500, 0.0001)],
)
def test_more_threads_that_compute_hand_over_sooner(computing: int, expected_s: float) -> None:
    """All of them have had the lock within a millisecond or some more."""
    assert interval_s(computing) == expected_s


def test_it_is_short_while_any_node_has_threads_that_compute() -> None:
    """And as before with the last of them."""
    interval, first, second = SwitchInterval(), object(), object()

    interval.choose(first, 2)
    assert now_s() == 0.0005
    interval.choose(second, 6)
    assert now_s() == 0.000125
    interval.choose(first, 0)
    interval.choose(second, 0)

    assert now_s() == USUAL_S


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_the_program_has_chosen_stays(when: str) -> None:
    """It knows what it does, before a node runs and while one does."""
    interval, node = SwitchInterval(), object()
    if when == "meanwhile":
        interval.choose(node, 2)
    sys.setswitchinterval(0.02)

    interval.choose(node, 8)
    interval.choose(node, 0)

    assert now_s() == 0.02
