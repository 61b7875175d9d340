"""Runs seeds over one source tree, in a process of its own, until a promise is broken.

The process reads scenario and seed of the runs to make, as JSON, and writes the first verdict
that has complaints.  It decides nothing about mutants: it imports whatever tree it stands in.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DEADLINE_S = 1_800
"""How long a hunt may take: a fault that stops the simulation itself is not caught."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run to make."""

    scenario: str
    seed: int


@dataclass(frozen=True, slots=True)
class Catch:
    """The first run that broke a promise."""

    scenario: str
    """Or the file of the test that failed."""
    seed: int
    runs: int
    """Runs made, this one included."""
    invariants: tuple[str, ...]
    """Or the name of the test that failed."""
    complaint: str
    """The first sentence."""


class HuntFailed(Exception):
    """The process that runs the seeds ended badly."""


def plans(
    names: Sequence[str], seeds: int, first: str = "", first_seed: int | None = None
) -> list[Plan]:
    """Return which runs to make: scenarios in turn; ``first`` takes every other one, and begins
    with ``first_seed`` where there is one.
    """
    if not first:
        return [Plan(names[seed % len(names)], seed) for seed in range(seeds)]
    others = [name for name in names if name != first]
    runs = [
        Plan(first if seed % 2 == 0 else others[seed // 2 % len(others)], seed)
        for seed in range(seeds)
    ]
    return runs if first_seed is None else [Plan(first, first_seed), *runs]


def hunt(tree: Path, runs: Sequence[Plan]) -> Catch | None:
    """Make these runs with the code of ``tree``; HuntFailed where they cannot be made."""
    # Nothing of the caller's tree may be imported instead of this one's.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation.mutants.hunt"],
            cwd=tree,
            env=environment,
            input=json.dumps([asdict(run) for run in runs]),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HuntFailed(f"the simulation went on for {DEADLINE_S} s") from error
    if done.returncode != 0:
        raise HuntFailed(f"the simulation ended with {done.returncode}: {done.stderr[-2_000:]}")
    found = json.loads(done.stdout)
    return None if found is None else Catch(**{**found, "invariants": tuple(found["invariants"])})


def complaining(tree: Path, runs: Sequence[Plan]) -> Mapping[Plan, Catch]:
    """Return those of these runs that break a promise with the code of ``tree``; as hunt."""
    found: dict[Plan, Catch] = {}
    while runs:
        catch = hunt(tree, runs)
        if catch is None:
            break
        found[Plan(catch.scenario, catch.seed)] = catch
        runs = runs[catch.runs :]
    return found


def main() -> None:
    """Make the runs that standard input names, in this process."""
    # Imported here: the caller in the other process needs none of it.
    from hourhand import actors
    from tests.simulation.scenario import load_scenarios
    from tests.simulation.simulate import simulate

    assert Path(str(actors.__file__)).is_relative_to(Path.cwd()), "another tree was imported"
    logging.disable(logging.CRITICAL)
    scenarios = load_scenarios()
    catch = None
    for number, value in enumerate(json.load(sys.stdin), start=1):
        run = Plan(**value)
        verdict = simulate(scenarios[run.scenario], run.seed)
        if verdict.complaints:
            names = dict.fromkeys(line.partition(":")[0] for line in verdict.complaints)
            catch = Catch(run.scenario, run.seed, number, tuple(names), verdict.complaints[0])
            break
    sys.stdout.write(json.dumps(None if catch is None else asdict(catch)))


if __name__ == "__main__":
    main()
