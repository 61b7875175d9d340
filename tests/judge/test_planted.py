"""The judge finds each planted fault by the promise that it breaks, and nothing in right runs."""

import sys
from dataclasses import replace

import pytest

from tests.judge.faults import EXCUSED, FAULTS, RIGHT, Planted, Run
from tests.judge.history import SECOND_US
from tests.judge.planted import (
    DAY_US,
    SET_US,
    WALL_US,
    Plant,
    a_clock,
    a_fault,
    excuses,
    moved,
    violations,
)
from tests.judge.recount import OF_COMMANDS, OF_LIMITS, OF_OUTCOMES, OF_TASKS
from tests.tidy.source import sources


@pytest.mark.parametrize("run", RIGHT)
def test_a_run_in_which_all_is_well_has_nothing_to_find(run: Run) -> None:
    """With nodes that die, commands and clocks, and without."""
    assert violations(run()) == {}
    assert excuses(run()) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.promise}, {fault.told}")
def test_what_is_planted_is_found(fault: Planted) -> None:
    """Each thing that must not happen, planted alone, by the checker of its promise alone."""
    plant = fault.run()

    fault.sow(plant)

    assert set(violations(plant)) == {fault.promise}


@pytest.mark.parametrize("fault", EXCUSED, ids=lambda fault: f"{fault.promise}, {fault.told}")
def test_what_the_promises_explain_is_excused(fault: Planted) -> None:
    """It is listed with its cause."""
    plant = fault.run()

    fault.sow(plant)

    assert violations(plant) == {}
    assert all(fault.told in cause for cause in excuses(plant)[fault.promise])


def test_each_promise_has_a_planted_fault() -> None:
    """A checker that finds none proves nothing."""
    known = {*OF_TASKS, *OF_COMMANDS, *OF_LIMITS, *OF_OUTCOMES}
    assert {fault.promise for fault in FAULTS} == known
    assert len(FAULTS) >= 25


def turn_round(plant: Plant) -> None:
    """Have a task wait until the next one is done."""
    plant.attempts[3] = moved(plant.attempts[3], plant.attempts[4].started_us + 100_000)


def test_an_unknown_offer_may_run_or_not() -> None:
    """Its future failed, so the log may or may not hold it."""
    plant = Plant()
    plant.offers[3:5] = [replace(each, answer="unknown") for each in plant.offers[3:5]]
    del plant.attempts[3]

    assert violations(plant) == {}


def test_order_is_judged_on_tasks_accepted_well_before() -> None:
    """Not on one that came late, whichever of the two it is."""
    for late in (3, 4):
        plant = Plant()
        turn_round(plant)
        first_due = plant.offers[3].due_wall_us
        plant.offers[late] = replace(
            plant.offers[late], answered_wall_us=first_due - 29 * SECOND_US
        )
        assert violations(plant) == {}


def test_time_without_a_store_stores_nothing_in_order() -> None:
    """What was accepted 40 s before needs 30 s of them; losing a replica excuses nothing.

    An outage counts only where it lies between the acceptance and the moment the first is due.
    """
    plant = Plant()
    turn_round(plant)
    accepted_us = plant.offers[3].answered_wall_us - WALL_US
    due_us = plant.offers[3].due_wall_us - WALL_US
    pause = a_fault(harm="store", from_us=accepted_us + SECOND_US, lasts_us=15 * SECOND_US)
    plant.faults = [pause]
    assert violations(plant) == {}

    shorter = replace(pause, to_us=pause.from_us + 5 * SECOND_US)
    later = a_fault(harm="store", from_us=due_us, lasts_us=15 * SECOND_US)
    for fault in (shorter, later, replace(pause, harm="replica")):
        plant.faults = [fault]
        assert violations(plant) == {"P4 out of order": 1}


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

        assert bool(violations(plant).get("P4 out of order", 0)) == bool(found)


def test_the_judge_imports_nothing_of_the_engine() -> None:
    """So the engine cannot be wrong in the same way twice; chaos's own figures share no code either.

    Tests may look at the project's files.
    """
    own = ("tests.judge.", *sys.stdlib_module_names)
    judge = [each for each in sources("tests/judge") if not each.path.stem.startswith("test_")]
    figures = [each for each in sources("tests/chaos") if each.path.stem in {"measures", "records"}]
    for source in (*judge, *figures):
        strange = [each for each in source.imports if not each.startswith(own)]
        assert not strange, f"{source.name} imports {strange}"
