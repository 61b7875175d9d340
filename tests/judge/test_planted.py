"""The judge finds each planted fault by the promise that it breaks, and nothing in right runs."""

import sys

import pytest

from tests.judge.faults import EXCUSED, FAULTS, RIGHT, Planted
from tests.judge.planted import excuses, violations
from tests.judge.recount import OF_COMMANDS, OF_LIMITS, OF_OUTCOMES, OF_TASKS
from tests.tidy.source import sources


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right.told)
def test_a_run_in_which_all_is_well_has_nothing_to_find(right: Planted) -> None:
    """With nodes that die, commands and clocks, and without."""
    plant = right.run()

    right.sow(plant)

    assert violations(plant) == {}
    assert excuses(plant) == {}


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


def test_the_judge_imports_nothing_of_the_engine() -> None:
    """So the engine cannot be wrong in the same way twice; chaos's figures import nothing of it.

    Tests may look at the project's files.
    """
    judge = [each for each in sources("tests/judge") if not each.path.stem.startswith("test_")]
    figures = [each for each in sources("tests/chaos") if each.path.stem in {"measures", "records"}]
    for source in (*judge, *figures):
        strange = [
            each
            for each in source.imports
            if not each.startswith("tests.judge.")
            if each.partition(".")[0] not in sys.stdlib_module_names
        ]
        assert not strange, f"{source.name} imports {strange}"
