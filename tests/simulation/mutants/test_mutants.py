"""The mutants fit the code, the quick ones are caught, and what is no fault is not."""

import os
from pathlib import Path

import pytest

from tests.simulation.mutants.__main__ import hunt_all, hunt_one
from tests.simulation.mutants.hunt import Plan, plans
from tests.simulation.mutants.mutant import Edit, Mutant, MutantNotApplied, load_mutants
from tests.simulation.mutants.trees import ROOT, Trees

MUTANTS = load_mutants()
QUICK_RUNS_MAX = 30
NO_FAULT = Mutant(
    name="no fault",
    says="A comment is another one.",
    promises=("P1",),
    edit=(Edit(file="scheduler/lease.py", old="while its membership lasts", new="for a while"),),
)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_code_and_compiles(name: str) -> None:
    """Whoever changes a line that a mutant quotes brings the mutant up to date."""
    for path, text in MUTANTS[name].texts(ROOT).items():
        compile(text, str(path), "exec")


def test_there_are_many_and_a_short_run_has_a_few() -> None:
    """At least twenty, as promised, of which some are hunted below."""
    assert len(MUTANTS) >= 20
    assert 3 <= sum(mutant.quick for mutant in MUTANTS.values()) <= 5


@pytest.mark.slow
def test_quick_mutants_are_caught(tmp_path: Path) -> None:
    """All of them: ``make sim-mutants``.  The run that catches one is clean without it."""
    quick = [mutant for mutant in MUTANTS.values() if mutant.quick]

    results = list(hunt_all(quick, tmp_path, QUICK_RUNS_MAX, os.cpu_count() or 1))

    assert len(results) == len(quick)
    for result in results:
        assert result.is_caught, f"{result.mutant.name} lives {result.error}"


def test_what_is_no_fault_is_not_caught(tmp_path: Path) -> None:
    """A hunt can fail: nothing is reported where nothing is broken."""
    result = hunt_one(Trees(tmp_path), NO_FAULT, seeds=2)

    assert not result.is_caught and result.catch is None and not result.error


def test_a_mutant_that_no_longer_fits_is_an_error(tmp_path: Path) -> None:
    """Neither a text that is gone nor one that stands there twice passes in silence."""
    file = "scheduler/lease.py"
    gone = NO_FAULT.model_copy(update={"edit": (Edit(file=file, old="no such text", new=""),)})
    twice = NO_FAULT.model_copy(update={"edit": (Edit(file=file, old="return", new=""),)})
    moved = NO_FAULT.model_copy(update={"edit": (Edit(file="scheduler/no.py", old="x", new=""),)})
    (tmp_path / "scheduler").mkdir()
    (tmp_path / file).write_text("return (\n    return\n")

    for mutant, times in ((gone, "0 times"), (twice, "2 times"), (moved, "no scheduler/no.py")):
        with pytest.raises(MutantNotApplied, match=times):
            mutant.apply(tmp_path)

    assert (tmp_path / file).read_text() == "return (\n    return\n"


def test_a_first_scenario_takes_every_other_seed() -> None:
    """The others still have their turns, and no seed is used twice."""
    runs = plans(["calm", "late", "weather"], 6, first="late")

    assert runs[0::2] == [Plan("late", 0), Plan("late", 2), Plan("late", 4)]
    assert runs[1::2] == [Plan("calm", 1), Plan("weather", 3), Plan("calm", 5)]
