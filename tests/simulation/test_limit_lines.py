"""What the judge of lines says of planted steps: who waits for a limit, and who goes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourhand.actors.model.flow.fair_order import AGING_STARTS
from tests.simulation.history import History, LineStep, Step
from tests.simulation.judged import Run
from tests.simulation.limit_invariants import lines_go_by_priority


def judged(*steps: tuple[Step, int, int]) -> list[str]:
    """Return what is said of steps, number and priority each, a millisecond apart."""
    history = History()
    for at_ms, (step, number, priority) in enumerate(steps):
        history.add(LineStep(float(at_ms), "a", 0, "mail#1", step, number, priority))
    run: Any = SimpleNamespace(history=history)
    return list(lines_go_by_priority(cast("Run", run)))


def flood(starts: int) -> list[tuple[Step, int, int]]:
    """Have so many of priority 5 wait and go, while one always waits."""
    steps: list[tuple[Step, int, int]] = [("waits", 100, 5)]
    for number in range(101, 101 + starts):
        steps += [("waits", number, 5), ("goes", number - 1, 5)]
    return steps


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([("waits", 1, 0), ("waits", 2, 5), ("goes", 1, 0)], "with 5 was passed by 0 after 0"),
        ([("waits", 1, 0), ("waits", 2, 0), ("goes", 2, 0)], "passed by one that came later"),
        ([("waits", 1, 0), ("goes", -1, 0)], "passed by one that did not wait"),
        ([("waits", 1, 0), *flood(40)], "with 0 waited through 19 starts"),
        ([("waits", 1, 0), *flood(AGING_STARTS - 1), ("goes", 1, 0)], "after 15 starts"),
    ],
)
def test_p24_a_line_out_of_order_is_told_of(steps: list[tuple[Step, int, int]], says: str) -> None:
    """By priority, then by arrival, and a lower priority in its turn."""
    assert says in judged(*steps)[0]


@pytest.mark.parametrize(
    "steps",
    [
        [("waits", 1, 0), ("waits", 2, 5), ("goes", 2, 5), ("goes", 1, 0), ("goes", -1, 0)],
        [("waits", 1, 0), ("waits", 2, 5), ("leaves", 2, 5), ("goes", 1, 0)],
        [("waits", 1, 0), *flood(AGING_STARTS), ("goes", 1, 0)],
    ],
)
def test_p24_a_line_in_order_is_not(steps: list[tuple[Step, int, int]]) -> None:
    """Also where some leave, or a lower priority has waited long enough."""
    assert judged(*steps) == []


def shared(*steps: tuple[Step, int, str]) -> list[str]:
    """Return what is said of steps, number and value each; ``big`` weighs 3."""
    history = History()
    for at_ms, (step, number, value) in enumerate(steps):
        weight = 3.0 if value == "big" else 1.0
        history.add(LineStep(float(at_ms), "a", 0, "mail#1", step, number, 0, value, weight))
    run: Any = SimpleNamespace(history=history)
    return list(lines_go_by_priority(cast("Run", run)))


WAIT: list[tuple[Step, int, str]] = [
    *(("waits", number, "big") for number in range(1, 13)),
    *(("waits", number, "small") for number in range(13, 25)),
]
"""Twelve of each."""


def goes(*numbers: int) -> list[tuple[Step, int, str]]:
    """Let these go on, in this order."""
    return [("goes", number, "big" if number < 13 else "small") for number in numbers]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ((1, 2, 3, 4, 5), "of small gave more than a share to big"),
        ((13, 14), "of big gave more than a share to small"),
        ((1, 13, 2, 14, 3, 15), "of big gave more than a share to small"),
    ],
)
def test_p24_a_value_that_takes_more_than_its_share_is_told_of(
    order: tuple[int, ...], says: str
) -> None:
    """The first value goes alone, the second one does, or both go alike."""
    assert says in shared(*WAIT, *goes(*order))[0]


@pytest.mark.parametrize(
    "steps",
    [
        [*WAIT, *goes(1, 13, 2, 3, 4, 14, 5, 6, 7, 15, 8)],
        [*WAIT[:12], *goes(1, 2, 3, 4, 5), *WAIT[12:], *goes(6, 13, 7, 8, 9)],
    ],
)
def test_p24_values_that_take_turns_by_their_weights_are_not(
    steps: list[tuple[Step, int, str]],
) -> None:
    """Nor is one that went on while it waited alone."""
    assert shared(*steps) == []
