"""Hunts mutants from the command line: ``python -m tests.simulation.mutants``.

It decides which mutants are hunted, by the simulation or by tests, in how many processes, and how
the result is told.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.simulation.mutants.hunt import Catch, HuntFailed, Plan, complaining, hunt, plans
from tests.simulation.mutants.judge import false_alarm, judge
from tests.simulation.mutants.mutant import Mutant, MutantNotApplied, load_mutants
from tests.simulation.mutants.trees import Trees

SEEDS_MAX = 200
"""Runs in which a mutant must be caught."""
GROUP_MUTANTS = 6
"""Whose catches are run again in one process: to start one takes longer than most runs."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    catch: Catch | None = None
    error: str = ""
    """Why it could not be hunted, or why its catch proves nothing."""

    @property
    def is_caught(self) -> bool:
        """True if its judge saw the fault, and nothing but the fault."""
        return self.catch is not None and not self.error


def main() -> int:
    """Hunt what was asked for; return 1 where a mutant lives or cannot be hunted."""
    arguments = _parse()
    mutants = load_mutants()
    part, parts = arguments.part
    names = arguments.only or list(mutants)[part - 1 :: parts]
    chosen = [mutants[name] for name in names]
    results = []
    with TemporaryDirectory(prefix="hourhand-mutants-") as folder:
        for result in hunt_all(chosen, Path(folder), arguments.seeds, arguments.workers):
            results.append(result)
            sys.stderr.write(_line(result) + "\n")
            sys.stderr.flush()
    if arguments.output == "json":
        sys.stdout.write(json.dumps([_value(result) for result in results], indent=2) + "\n")
    else:
        Console(soft_wrap=True).print(_table(results))
    alive = sum(not result.is_caught for result in results)
    sys.stderr.write(f"{len(results)} mutants, {len(results) - alive} caught, {alive} not\n")
    return min(alive, 1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(load_mutants()), metavar="NAME")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="2/8", help="the second of each eight"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="runs for each mutant")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="how many processes")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    return parser.parse_args()


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    numbers = part.isdecimal() and parts.isdecimal()
    if not numbers or not 1 <= int(part) <= int(parts):
        raise argparse.ArgumentTypeError(f"{text} is not a part: write 2/8 for the second of eight")
    return int(part), int(parts)


def hunt_all(mutants: Sequence[Mutant], folder: Path, seeds: int, workers: int) -> Iterator[Result]:
    """Yield what became of each mutant, in order; ``folder`` takes copies of the source."""
    trees = Trees(folder)
    groups = [mutants[at : at + GROUP_MUTANTS] for at in range(0, len(mutants), GROUP_MUTANTS)]
    with ThreadPoolExecutor(workers) as pool:
        yield from chain.from_iterable(pool.map(partial(hunt_group, trees, seeds=seeds), groups))


def hunt_group(trees: Trees, mutants: Sequence[Mutant], seeds: int) -> list[Result]:
    """Hunt some mutants; what catches one must find nothing without the fault."""
    results = [_hunt(trees, mutant, seeds) for mutant in mutants]
    runs = [
        Plan(result.catch.scenario, result.catch.seed)
        for result in results
        if result.catch is not None and not result.mutant.tests
    ]
    try:
        alarms = complaining(trees.original, runs)
        return [_proved(trees, result, alarms) for result in results]
    except HuntFailed as error:
        why = f"the unchanged code could not be judged: {error}"
        return [replace(result, error=result.error or why) for result in results]


def _hunt(trees: Trees, mutant: Mutant, seeds: int) -> Result:
    try:
        with trees.mutated(mutant) as tree:
            if mutant.tests:
                return Result(mutant, judge(tree, mutant.tests))
            runs = plans(trees.scenarios(), seeds, mutant.scenario, mutant.seed)
            return Result(mutant, hunt(tree, runs))
    except (MutantNotApplied, HuntFailed) as error:
        return Result(mutant, error=str(error))


def _proved(trees: Trees, result: Result, alarms: Mapping[Plan, Catch]) -> Result:
    """Return the result with what its judge complains of without the fault, if anything."""
    mutant, catch = result.mutant, result.catch
    if catch is None:
        return result
    if mutant.tests:
        alarm = false_alarm(trees.original, mutant.tests)
    else:
        alarm = alarms.get(Plan(catch.scenario, catch.seed))
    if alarm is None:
        return result
    return replace(result, error=f"a false alarm, without the fault too: {alarm.complaint}")


def _line(result: Result) -> str:
    if not result.is_caught:
        return f"{result.mutant.name}: ALIVE {result.error}"
    assert result.catch is not None, "it was caught"
    return f"{result.mutant.name}: {result.catch.runs} runs, {result.catch.complaint}"


def _table(results: Sequence[Result]) -> Table:
    table = Table("mutant", "attacks", "caught by", "scenario or test", "seed", "runs")
    for result in results:
        catch, attacks = result.catch, " ".join(result.mutant.promises)
        if catch is None or result.error:
            table.add_row(result.mutant.name, attacks, result.error or "NOTHING: it lives")
        else:
            names = ", ".join(catch.invariants)
            seed = "" if result.mutant.tests else str(catch.seed)
            where = (catch.scenario, seed, str(catch.runs))
            table.add_row(result.mutant.name, attacks, names, *where)
    return table


def _value(result: Result) -> dict[str, object]:
    catch = result.catch
    return {
        "mutant": result.mutant.name,
        "says": result.mutant.says,
        "promises": result.mutant.promises,
        "caught": result.is_caught,
        "error": result.error or None,
        "invariants": catch.invariants if catch else None,
        "complaint": catch.complaint if catch else None,
        "scenario": catch.scenario if catch else None,
        "seed": catch.seed if catch else None,
        "runs": catch.runs if catch else None,
    }


if __name__ == "__main__":
    sys.exit(main())
