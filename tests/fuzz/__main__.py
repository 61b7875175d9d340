"""``make fuzz``: hostile input to every door, 100,000 in all, from seeds that are printed.

Decides how many go to each door.  Ends with exit code 1 at the first that is not answered.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.argument_door import try_arguments
from tests.fuzz.command_door import try_commands
from tests.fuzz.executor_door import try_executors
from tests.fuzz.node_door import RECORDS_OF_A_WORLD, try_world
from tests.fuzz.records import corpus
from tests.fuzz.settings_door import try_settings

INPUTS = 100_000
_SHARES = {"records": 0.6, "arguments": 0.2, "executors": 0.01, "settings": 0.15, "commands": 0.04}
_AT_A_TIME = 500


def main() -> None:
    """Fuzz all doors; print what each got."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        counts = fuzz(asked.inputs, asked.seed, Path(name), _say)
    _say(f"{sum(counts.values())} hostile inputs, none lost, no tree rebuilt")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fuzz(inputs: int, first_seed: int, folder: Path, say: Callable[[str], None]) -> dict[str, int]:
    """Give every door its share of ``inputs``; return how many each got."""
    doors: dict[str, Callable[[int, int], int]] = {
        "records": _try_records,
        "arguments": try_arguments,
        "executors": try_executors,
        "settings": lambda seed, count: try_settings(seed, count, folder),
        "commands": lambda seed, count: try_commands(seed, count, folder),
    }
    counts = {}
    for door, attempt in doors.items():
        wanted, seed, done = round(inputs * _SHARES[door]), first_seed, 0
        while done < wanted:
            done += attempt(seed, min(_size(door), wanted - done))
            seed += 1
        counts[door] = done
        say(f"{door:<10} {done:>7} inputs, seeds {first_seed} to {seed - 1}")
    return counts


def _size(door: str) -> int:
    return RECORDS_OF_A_WORLD if door == "records" else _AT_A_TIME


def _try_records(seed: int, count: int) -> int:
    first = corpus()
    try_world(seed, max(count, len(first)), first)
    return count


if __name__ == "__main__":
    main()
