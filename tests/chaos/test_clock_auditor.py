"""A clock that is set excuses what follows from it, and nothing else."""

from dataclasses import replace

import pytest

from tests.chaos.clock_auditor import audit_clocks
from tests.chaos.history import Fault
from tests.chaos.planted import (
    FIRST_DUE_US,
    PIDS,
    SECOND_US,
    WALL_US,
    Plant,
    a_fault,
    excuses,
    moved,
    violations,
)

DAY_US = 86_400 * SECOND_US
SET_US = FIRST_DUE_US + 5 * SECOND_US
LIMIT_S = 10.0


def a_clock(ahead_us: int, node: int = 1) -> Fault:
    """Return a clock of a node that is wrong for ten seconds."""
    fault = a_fault(harm="clock", from_us=SET_US)
    return replace(fault, pid=PIDS[node], ahead_us=ahead_us, met=1)


def held_up(until_us: int) -> Plant:
    """Return a run in which what fell due under the clock begins when that is right."""
    plant = Plant()
    for place, each in enumerate(plant.attempts):
        if SET_US <= each.started_us < until_us + SECOND_US:
            plant.attempts[place] = moved(each, until_us + place * 10_000)
    return plant


@pytest.mark.parametrize("ahead_us", [DAY_US, -DAY_US])
def test_a_run_whose_clock_is_set_and_set_right_has_nothing_to_find(ahead_us: int) -> None:
    """Tasks that waited for a clock that was behind begin when it is right."""
    plant = held_up(SET_US + 10 * SECOND_US) if ahead_us < 0 else Plant()
    plant.faults = [a_clock(ahead_us)]

    assert violations(plant) == {}
    assert excuses(plant) == {}
    assert audit_clocks(plant.history, LIMIT_S) == []


@pytest.mark.parametrize(("ahead_us", "late_s"), [(DAY_US, 11.0), (-DAY_US, 21.0)])
def test_what_a_clock_keeps_waiting_is_found(ahead_us: int, late_s: float) -> None:
    """Counted from its time, or from when a clock that was behind is right."""
    for waited_s, found in ((late_s - 1.5, 0), (late_s, 1)):
        plant = Plant(faults=[a_clock(ahead_us)])
        plant.attempts[5] = moved(plant.attempts[5], SET_US + round(waited_s * SECOND_US))

        assert len(audit_clocks(plant.history, LIMIT_S)) == found


def test_order_is_judged_from_when_tasks_begin_under_a_clock_that_is_ahead() -> None:
    """An earlier task that was accepted when a later one had long been due may follow it."""
    for accepted_s_before, found in ((20.0, 0), (40.0, 2)):
        plant = Plant(faults=[a_clock(DAY_US)])
        at_us = SET_US + SECOND_US
        later, earlier = plant.attempts[16], plant.offers[15]
        plant.attempts[16] = replace(
            later, started_us=at_us, ended_us=at_us + 5_000, started_wall_us=later.due_wall_us
        )
        accepted_us = at_us - round(accepted_s_before * SECOND_US)
        plant.offers[16] = replace(plant.offers[16], answered_wall_us=0)
        plant.offers[:16] = [
            replace(each, answered_wall_us=WALL_US + accepted_us) for each in plant.offers[:16]
        ]
        assert earlier.due_wall_us > WALL_US + at_us

        assert bool(violations(plant).get("out of order", 0)) == bool(found)


def test_an_attempt_may_begin_early_only_as_the_clock_is_set_back() -> None:
    """One that was ahead is set right, or one that was right is set behind."""
    for ahead_us, at_us, excused in (
        (DAY_US, SET_US + 10 * SECOND_US, True),
        (DAY_US, SET_US + 13 * SECOND_US, False),
        (DAY_US, SET_US + 5 * SECOND_US, False),
        (-DAY_US, SET_US, True),
        (-DAY_US, SET_US + 10 * SECOND_US, False),
    ):
        plant = Plant(faults=[a_clock(ahead_us)])
        place = (at_us - FIRST_DUE_US) // SECOND_US
        each = plant.attempts[place]
        plant.attempts[place] = replace(each, started_wall_us=each.due_wall_us - 1)

        assert violations(plant) == ({} if excused else {"early": 1})
        assert list(excuses(plant)) == (["early"] if excused else [])


def test_another_node_has_no_excuse() -> None:
    """Its clock was right."""
    plant = Plant(faults=[a_clock(DAY_US, node=2)])
    each = plant.attempts[15]
    plant.attempts[15] = replace(each, started_wall_us=each.due_wall_us - 1)

    assert violations(plant) == {"early": 1}
