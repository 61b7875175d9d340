"""Many seeds of every scenario, the ones that failed before, and that a replay is exact."""

import os
import re
import subprocess
import sys
from collections import Counter
from inspect import isfunction, signature
from pathlib import Path

import pytest

from hourhand.actors.model.task.key import TaskKey
from tests.simulation import invariants
from tests.simulation.fault_kinds import FAULTS
from tests.simulation.history import CompletionsRemoved, Sampled
from tests.simulation.invariants import INVARIANTS, liveness
from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import judge, simulate
from tests.simulation.world import World

pytestmark = pytest.mark.usefixtures("quiet")

SCENARIOS = load_scenarios()
NAMES = sorted(SCENARIOS)
SEEDS_TO_MEET_ALL = 12
SEED = 1_000
FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def _known_bad_seeds() -> list[tuple[str, int]]:
    lines = (FOLDER / "seeds.txt").read_text().splitlines()
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return [(name, int(seed)) for name, seed in pairs]


@pytest.mark.parametrize(("name", "seed"), _known_bad_seeds())
def test_a_seed_that_broke_a_promise_keeps_all_now(name: str, seed: int) -> None:
    """A fault that was found once is looked for for ever."""
    verdict = simulate(SCENARIOS[name], seed)

    assert not verdict.complaints, verdict.report()


def _names_without_a_bad_seed() -> list[str]:
    bad = {name for name, _ in _known_bad_seeds()}
    return [name for name in NAMES if name not in bad]


@pytest.mark.parametrize("name", _names_without_a_bad_seed())
def test_a_scenario_that_never_failed_keeps_every_promise(name: str) -> None:
    """So each scenario has a run in every test run; ``make sim`` tries other seeds."""
    verdict = simulate(SCENARIOS[name], SEED)

    assert not verdict.complaints, verdict.report()


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_brings_what_it_names(name: str) -> None:
    """A fault that never strikes proves nothing; a run's seed switches a third of them off."""
    scenario = SCENARIOS[name]
    met: Counter[str] = Counter()
    for seed in range(SEEDS_TO_MEET_ALL):
        met.update(World(scenario, seed).faults.rates.keys())

    assert met.keys() == {kind for kind, rate in scenario.faults.items() if rate}


def test_scenarios_name_every_kind_of_fault() -> None:
    """A fault that no scenario brings is never tried."""
    assert {kind for each in SCENARIOS.values() for kind in each.faults} == FAULTS.keys()


@pytest.mark.parametrize(("uncounted", "complaints"), [(0, 0), (1, 1)])
def test_p13_ids_that_read_on_may_pass_the_slots_where_all_is_counted(
    uncounted: int, complaints: int
) -> None:
    """Each of many ids brings what its queue holds, whoever has the slots meanwhile."""
    world = World(SCENARIOS["flood"], 0)
    window = world.settings.tree.window
    executing = window.executing_tasks_max + 3 * window.ordering_queue_tasks_max
    world.history.add(
        Sampled(
            0.0,
            "a.1",
            0,
            waiting=0,
            queued_max=window.ordering_queue_tasks_max,
            executing=executing,
            uncounted=uncounted,
            data_bytes=0,
        )
    )

    assert sum(each.startswith("p13_") for each in judge(world)) == complaints


@pytest.mark.parametrize(("steps_ms", "complaints"), [((), 1), ((40 * 86_400_000, 0), 0)])
def test_p5_a_clock_that_was_days_ahead_may_end_a_retention(
    steps_ms: tuple[int, ...], complaints: int
) -> None:
    """A node may delete by it that starts no attempt meanwhile."""
    world = World(SCENARIOS["calendars"], 0)
    world.start_member()
    for step_ms in steps_ms:
        world.members[0].clock.offset_ms = step_ms
    key = TaskKey(0, "a", "1")
    world.history.add(CompletionsRemoved(9_000.0, 0, (key,), guarding=(), youngest_ms=2_500.0))

    assert sum(each.startswith("p5_") for each in judge(world)) == complaints


def test_a_verdict_counts_what_was_injected_and_met() -> None:
    """Faults by kind, strange records, and the virtual time: what the command line adds up."""
    verdicts = [simulate(SCENARIOS[name], 5) for name in ("everything", "late", "outside")]
    met = sum((Counter(verdict.faults) for verdict in verdicts), Counter[str]())

    assert met.keys() >= {"crash", "late record", "poison record", "outside writer paused"}
    assert all(verdict.virtual_ms > 40_000 for verdict in verdicts)


@pytest.mark.parametrize("name", ["everything", "hostile_setup", "declared"])
def test_a_replay_is_exact_in_this_process_and_in_another(name: str) -> None:
    """The same seed gives the same history, whatever order hashing gives to sets.

    Where user code breaks its own retry policy, the default one's jitter comes from the seed too.
    """
    verdict = simulate(SCENARIOS[name], 7)
    again = simulate(SCENARIOS[name], 7)

    command = [sys.executable, "-m", "tests.simulation", "--seed", "7", "--scenario", name]
    other = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert again.digest == verdict.digest
    assert again.messages == verdict.messages
    assert verdict.digest[:16] in other.stdout, other.stdout + other.stderr


def test_different_seeds_differ() -> None:
    """A seed decides what happens."""
    assert simulate(SCENARIOS["calm"], 1).digest != simulate(SCENARIOS["calm"], 2).digest


def test_every_promise_has_an_invariant() -> None:
    """``docs/promises.md`` and the functions name the same numbers, in the same order."""
    page = (ROOT / "docs" / "promises.md").read_text()
    promised = [int(number) for number in re.findall(r"^\| P(\d+) \|", page, re.MULTILINE)]
    names = [invariant.__name__ for invariant in INVARIANTS]

    assert [int(n) for name in names for n in re.findall(r"^p(\d+)_", name)] == promised
    assert names[-1] == liveness.__name__


def test_no_invariant_is_written_and_never_asked() -> None:
    """The one about pauses was."""
    written = {
        name
        for name, each in vars(invariants).items()
        if isfunction(each) and not name.startswith("_") and "run" in signature(each).parameters
    }

    assert written == {invariant.__name__ for invariant in INVARIANTS}


def test_a_failing_run_says_how_to_replay_it() -> None:
    """A verdict names seed, scenario and the last messages."""
    verdict = simulate(SCENARIOS["calm"], 3)

    report = verdict.report()

    assert "seed 3, scenario calm" in report and "make sim SEED=3 SCENARIO=calm" in report
    assert len(verdict.messages) == 30 and verdict.messages[-1] in report
