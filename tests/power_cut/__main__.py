"""``python -m tests.power_cut --cuts 2000 --seed 0``: many power cuts, and a line of figures."""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.power_cut.cutting import RUNS_OF_A_STORY, Story, Tally
from tests.power_cut.recording import compile_recorder

CUTS_OF_A_RUN = 25
LIVES_OF_A_RUN = 2


def cut_power(
    place: Path, library: Path, cuts: int, seed: int, cuts_of_a_run: int = CUTS_OF_A_RUN
) -> Tally:
    """Cut the power so often, story after story, and return what was found."""
    tally = Tally()
    while tally.cuts < cuts:
        story = Story(place / f"seed-{seed}", library, seed)
        for number in range(RUNS_OF_A_STORY):
            known = len(tally.findings)
            left = min(cuts_of_a_run, cuts - tally.cuts)
            if not left:
                break
            story.run(number, left, LIVES_OF_A_RUN, tally)
            for finding in tally.findings[known:]:
                sys.stdout.write(f"{finding}\n")
                sys.stdout.flush()
        seed += 1
    return tally


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power_cut", description=__doc__)
    parser.add_argument("--cuts", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("hourhand").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="hourhand-power-cut-") as place:
        folder = Path(place).resolve()
        tally = cut_power(folder, compile_recorder(folder), arguments.cuts, arguments.seed)
    sys.stdout.write(f"{tally.line()}\n")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(_main())
