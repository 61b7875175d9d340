"""Runs seeds from the command line: ``python -m tests.simulation --seeds 200``.

It decides which seeds run, in how many processes, and how the sum of it is told; a seed's
verdict is ``simulate``'s.
"""

import argparse
import gc
import logging
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hourhand.scheduler.adapters.clock import SystemClock
from tests.simulation.reached import table
from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import Verdict, simulate

SCENARIOS = load_scenarios()
PROGRESS_S = 10.0
"""Seconds between two reports of a long run."""


def main() -> int:
    """Run what was asked for; return how many seeds broke a promise, at most 1."""
    arguments = _parse()
    names = [arguments.scenario] if arguments.scenario else sorted(SCENARIOS)
    first, count = arguments.first, arguments.seeds
    if arguments.seed is not None:
        runs = [(name, arguments.seed) for name in names]
    else:
        runs = [(names[seed % len(names)], seed) for seed in range(first, first + count)]
    # A failing tree is what the simulation is about; its log would bury the verdict.
    logging.disable(logging.CRITICAL)
    # A night's run may be told to stop; what it found until then counts.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The collector need not walk what was imported, run after run.
    gc.freeze()
    summary = _Summary(len(runs), arguments.failures)
    try:
        for verdict in _verdicts(runs, arguments.workers):
            summary.add(verdict)
            if verdict.complaints:
                sys.stdout.write(verdict.report() + "\n\n")
            elif arguments.seed is not None:
                kept = f"seed {verdict.seed}, {verdict.scenario}: all kept"
                sys.stdout.write(f"{kept}, history {verdict.digest[:16]}\n")
    except KeyboardInterrupt:
        sys.stdout.write("stopped before the end\n")
    sys.stdout.write(summary.report() + "\n")
    return min(summary.broken, 1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one seed")
    parser.add_argument("--seeds", type=int, default=60, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="this scenario alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="how many processes")
    parser.add_argument(
        "--failures", type=Path, help="append each failing scenario and seed to this file, at once"
    )
    return parser.parse_args()


def _verdicts(runs: Sequence[tuple[str, int]], workers: int) -> Iterator[Verdict]:
    """Yield verdicts in the order of the runs, whoever works on them."""
    if workers < 2 or len(runs) < 2:
        yield from map(_run, runs)
        return
    with multiprocessing.get_context("fork").Pool(workers, _obey_the_parent) as pool:
        yield from pool.imap(_run, runs)


def _obey_the_parent() -> None:
    """A worker ends when it is told to, and leaves an interrupt to whoever started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(run: tuple[str, int]) -> Verdict:
    name, seed = run
    return simulate(SCENARIOS[name], seed)


class _Summary:
    """Adds verdicts up, and says on the way how far it is."""

    def __init__(self, planned: int, failures: Path | None) -> None:
        self.broken = 0
        self._planned = planned
        self._failures = failures
        self._runs = 0
        self._virtual_ms = 0.0
        self._faults: Counter[str] = Counter()
        self._reached: Counter[str] = Counter()
        self._complaints = 0
        self._clock = SystemClock()
        self._began_s = self._told_s = self._clock.monotonic_ms() / 1000

    def add(self, verdict: Verdict) -> None:
        """Count a verdict; a broken seed is written down before the next one runs."""
        self._runs += 1
        self._virtual_ms += verdict.virtual_ms
        self._faults.update(verdict.faults)
        self._reached.update(verdict.reached)
        self._complaints += len(verdict.complaints)
        self.broken += bool(verdict.complaints)
        if verdict.complaints and self._failures is not None:
            with self._failures.open("a") as file:
                file.write(f"{verdict.scenario} {verdict.seed}\n")
        now_s = self._clock.monotonic_ms() / 1000
        if now_s - self._told_s >= PROGRESS_S:
            self._told_s = now_s
            per_s = self._runs / (now_s - self._began_s)
            far = f"{self._runs} of {self._planned} seeds, {per_s:.1f} a second"
            sys.stderr.write(f"{far}, {self.broken} broke a promise\n")

    def report(self) -> str:
        """Return what was run, what was injected, and what broke."""
        hours = self._virtual_ms / 3_600_000
        faults = [f"  {count:9,}  {kind}" for kind, count in sorted(self._faults.items()) if count]
        ran = f"{self._runs} seeds, {hours:,.1f} virtual hours"
        return "\n".join(
            (
                "faults injected, and what nodes met:",
                *faults,
                table(self._reached),
                f"{self.broken} seeds broke a promise",
                f"{ran}, {self._faults.total():,} faults, violations {self._complaints}",
            )
        )


if __name__ == "__main__":
    sys.exit(main())
