"""``make fuzz``: hostile input to every door, 150,000 in all, from seeds that are printed.

Decides how many go to each door.  Ends with exit code 1 at the first that is not answered.
"""

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from hourhand.actors.model.values.display import class_name_of, storable_text
from tests.fuzz.argument_door import try_arguments
from tests.fuzz.command_door import try_commands
from tests.fuzz.executor_door import try_executors
from tests.fuzz.http_door import REQUESTS_OF_A_SERVICE, try_requests
from tests.fuzz.node_door import RECORDS_OF_A_WORLD, try_world
from tests.fuzz.pipe_door import try_pipe
from tests.fuzz.records import corpus
from tests.fuzz.relay_door import RECORDS_OF_A_RELAY, try_relay
from tests.fuzz.settings_door import try_settings

INPUTS = 150_000
_SHARES = {
    "records": 50,
    "arguments": 20,
    "executors": 1,
    "settings": 15,
    "commands": 4,
    "requests": 30,
    "relay": 20,
    "pipe": 10,
}
"""In thousands, of all of them."""
_AT_A_TIME = 500
_SIZES = {
    "records": RECORDS_OF_A_WORLD,
    "requests": REQUESTS_OF_A_SERVICE,
    "relay": RECORDS_OF_A_RELAY,
}


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
        "requests": lambda seed, count: try_requests(seed, count, folder),
        "relay": try_relay,
        "pipe": try_pipe,
    }
    counts = {}
    for door, attempt in doors.items():
        wanted, seed, done = round(inputs * _SHARES[door] / 150), first_seed, 0
        while done < wanted:
            count = min(_SIZES.get(door, _AT_A_TIME), wanted - done)
            done += answered(door, attempt, seed, count)
            seed += 1
        counts[door] = done
        say(f"{door:<10} {done:>7} inputs, seeds {first_seed} to {seed - 1}")
    return counts


def answered(door: str, attempt: Callable[[int, int], int], seed: int, count: int) -> int:
    """Return how many inputs ``attempt`` gave; all that it raises can be shown."""
    try:
        return attempt(seed, count)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a door may leak what is hostile
        leak = _told(error)
    # Outside of the handler, as an error's context is shown with it.
    raise AssertionError(f"{door}, seed {seed}: {leak}")


def _told(error: BaseException) -> str:
    try:
        told = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - its notes or its context are hostile
        stack = "".join(traceback.format_tb(error.__traceback__))
        told = f"{class_name_of(error)}, which cannot be shown\n{stack}"
    return storable_text(told)


def _try_records(seed: int, count: int) -> int:
    first = corpus()
    try_world(seed, max(count, len(first)), first)
    return count


if __name__ == "__main__":
    main()
