"""The mutants fit the code, the quick ones are caught, and what is not a fault is not."""

import os
from pathlib import Path

import pytest

from tests.simulation.mutants.__main__ import hunt_all, hunt_group
from tests.simulation.mutants.hunt import Plan, complaining, plans
from tests.simulation.mutants.mutant import FOLDER, Edit, Mutant, MutantNotApplied, load_mutants
from tests.simulation.mutants.trees import ROOT, Trees

MUTANTS = load_mutants()
QUICK_RUNS_MAX = 30
NO_FAULT = Mutant(
    name="no fault",
    says="A comment is another one.",
    promises=("P1",),
    edit=(
        Edit(
            file="scheduler/node/lease.py",
            old="while the node's membership lasts",
            new="for a while",
        ),
    ),
)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_code_and_compiles(name: str) -> None:
    """Whoever changes a line that a mutant quotes brings the mutant up to date."""
    for path, text in MUTANTS[name].texts(ROOT).items():
        compile(text, str(path), "exec")


def test_there_are_many_and_a_short_run_has_a_few() -> None:
    """At least twenty, as promised, of which some are hunted below."""
    assert len(MUTANTS) >= 20
    assert 3 <= sum(mutant.quick for mutant in MUTANTS.values()) <= 6


def test_the_page_counts_each_family() -> None:
    """A file for each; a mutant that names tests is not for the simulation."""
    page = (ROOT / "docs" / "reliability.md").read_text()

    for path in FOLDER.glob("*.toml"):
        count = path.read_text().count("[[mutant]]")
        simulated = count - path.read_text().count("\ntests = ")
        assert f"| {path.stem} | {count} | {simulated} |" in page


def test_what_judges_a_mutant_is_there() -> None:
    """A file of tests, or one test of it."""
    judges = {each for mutant in MUTANTS.values() for each in mutant.tests}
    places = [each.partition("::") for each in judges]

    assert places
    for file, _, test in places:
        assert f"def {test.partition('[')[0]}" in (ROOT / file).read_text()


@pytest.mark.slow
def test_quick_mutants_are_caught(tmp_path: Path) -> None:
    """All of them: ``make sim-mutants``.  The run that catches one is clean without it."""
    quick = [mutant for mutant in MUTANTS.values() if mutant.quick]

    results = list(hunt_all(quick, tmp_path, QUICK_RUNS_MAX, os.cpu_count() or 1))

    assert len(results) == len(quick)
    for result in results:
        assert result.is_caught, f"{result.mutant.name} lives {result.error}"


@pytest.mark.long
def test_what_is_no_fault_is_not_caught(tmp_path: Path) -> None:
    """A hunt can fail: nothing is reported where nothing is broken."""
    judged = NO_FAULT.model_copy(update={"tests": ("tests/unit/scheduler/node/test_lease.py",)})
    trees = Trees(tmp_path)

    for result in hunt_group(trees, (NO_FAULT, judged), seeds=2):
        assert not result.is_caught and result.catch is None and not result.error


@pytest.mark.long
def test_tests_that_fail_without_the_fault_prove_nothing(tmp_path: Path) -> None:
    """Neither does a judge that is not there."""
    trees = Trees(tmp_path)
    failing = trees.original / "tests" / "test_failing.py"
    failing.write_text("def test_it() -> None:\n    assert False\n")
    judged = [
        NO_FAULT.model_copy(update={"tests": (f"tests/{name}.py",)})
        for name in ("test_failing", "test_nowhere")
    ]

    results = hunt_group(trees, judged, seeds=0)

    assert not any(result.is_caught for result in results)
    assert "false alarm" in results[0].error
    assert "ended with 4" in results[1].error


def test_a_mutant_that_no_longer_fits_is_an_error(tmp_path: Path) -> None:
    """Neither a text that is gone nor one that stands there twice passes in silence."""
    file = "scheduler/node/lease.py"
    gone = NO_FAULT.model_copy(update={"edit": (Edit(file=file, old="no such text", new=""),)})
    twice = NO_FAULT.model_copy(update={"edit": (Edit(file=file, old="return", new=""),)})
    moved = NO_FAULT.model_copy(update={"edit": (Edit(file="scheduler/no.py", old="x", new=""),)})
    (tmp_path / file).parent.mkdir(parents=True)
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
    assert plans(["calm", "late", "weather"], 6, "late", 90) == [Plan("late", 90), *runs]


def test_a_seed_belongs_to_a_scenario() -> None:
    """Alone it names no run."""
    assert all(mutant.scenario for mutant in MUTANTS.values() if mutant.seed is not None)


@pytest.mark.long
def test_every_run_that_complains_is_told_and_no_other(tmp_path: Path) -> None:
    """Not only the first, as a hunt ends with it."""
    trees = Trees(tmp_path)
    mutant = MUTANTS["message passed on at once"]
    runs = [Plan("relay", 0), Plan("calm", 0), Plan("relay", 1)]
    with trees.mutated(mutant) as tree:
        found = complaining(tree, runs)

    assert list(found) == [Plan("relay", 0), Plan("relay", 1)]
    assert found[runs[0]].complaint and not complaining(trees.original, runs[:1])
