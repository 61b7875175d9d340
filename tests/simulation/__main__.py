"""Runs seeds from the command line: ``python -m tests.simulation --seeds 200``."""

import argparse
import logging
import sys

from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import simulate


def main() -> int:
    """Run what was asked for; return how many seeds broke a promise, at most 1."""
    scenarios = load_scenarios()
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one seed")
    parser.add_argument("--seeds", type=int, default=60, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--scenario", choices=sorted(scenarios), help="this scenario alone")
    arguments = parser.parse_args()
    # A failing tree is what the simulation is about; its log would bury the verdict.
    logging.disable(logging.CRITICAL)
    names = [arguments.scenario] if arguments.scenario else sorted(scenarios)
    first, count = arguments.first, arguments.seeds
    if arguments.seed is not None:
        runs = [(name, arguments.seed) for name in names]
    else:
        runs = [(names[seed % len(names)], seed) for seed in range(first, first + count)]
    broken = 0
    for name, seed in runs:
        verdict = simulate(scenarios[name], seed)
        if verdict.complaints:
            broken += 1
            sys.stdout.write(verdict.report() + "\n\n")
        elif arguments.seed is not None:
            sys.stdout.write(f"seed {seed}, {name}: all kept, history {verdict.digest[:16]}\n")
    sys.stdout.write(f"{len(runs)} runs, {broken} broke a promise\n")
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
