"""writes: how many syncs, statements and bytes a task costs the embedded default.

A library below node and client counts them.  In a drain, at a steady rate with a future each, and
in enqueueing alone, with a future each and in bulk.  It never says how long they took.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import RUN_S, Bench
from benchmarks.durable import Completions
from benchmarks.figures import Figure, Line
from benchmarks.loads import Load
from benchmarks.records import exactly_once, wall_s
from tests.servers.preload import CannotPreload, compile_library

MEASURES = ("writes",)
_SOURCE = Path(__file__).parents[1] / "programs" / "write_counter.c"
_COUNTS = struct.Struct("LLL")
_PER_S = 1_000.0
_LATER_S = 86_400.0
_UNITS = ("syncs", "steps", "kB")


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one process."""

    syncs: int = 0
    steps: int = 0
    """Steps of SQLite's statements; 0 where SQLite is part of the interpreter."""
    written_bytes: int = 0

    def __sub__(self, before: "Counts") -> "Counts":
        return Counts(
            self.syncs - before.syncs,
            self.steps - before.steps,
            self.written_bytes - before.written_bytes,
        )

    def of_a_thousand(self, tasks: int) -> tuple[float, float, float]:
        """Return syncs, steps and kB for each thousand tasks."""
        found = (self.syncs, self.steps, self.written_bytes / 1_000)
        syncs, steps, written_kb = (1_000 * each / tasks for each in found)
        return syncs, steps, written_kb


class Counting:
    """A bench whose programs are counted."""

    def __init__(self, bench: Bench) -> None:
        """Raises CannotPreload where programs cannot be counted."""
        self._folder = bench.folder / bench.servers.name("counted")
        self._folder.mkdir(parents=True)
        library = compile_library(_SOURCE, self._folder)
        environment = {"LD_PRELOAD": str(library), "WRITES_COUNTED": str(self._folder)}
        self.bench = replace(bench, environment=environment)

    def read(self, pid: int) -> Counts:
        """Return the counts of a process until now, or until its end."""
        return Counts(*_COUNTS.unpack((self._folder / str(pid)).read_bytes()))


def run(bench: Bench) -> list[Line]:
    """Take the measure."""
    try:
        counting = Counting(bench)
    except CannotPreload as error:
        bench.say(f"writes: not counted: {error}")
        return []
    rounds: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for number in range(1, bench.sizes.lateness_rounds + 1):
        for work in (drain, steady, enqueue, enqueue_bulk):
            tasks, counted = work(counting)
            for process, counts in counted.items():
                name = f"a thousand tasks, {_NAMES[work]}, {process}"
                rounds[name].append(counts.of_a_thousand(tasks))
                shown = zip(_UNITS, rounds[name][-1], strict=True)
                told = ", ".join(f"{value:,.1f} {unit}" for unit, value in shown)
                bench.say(f"round {number}: {told} {name}")
    return [
        Line("writes", Figure.of([each[place] for each in of]), f"{unit} {name}")
        for name, of in rounds.items()
        for place, unit in enumerate(_UNITS)
        if any(each[place] for each in of)
    ]


def drain(counting: Counting) -> tuple[int, Mapping[str, Counts]]:
    """Count what the tasks of ``embedded`` cost node and client."""
    sizes = counting.bench.sizes
    return _worked(counting, Load(sizes.drain_tasks, sizes.drain_ids), "bulk")


def steady(counting: Counting) -> tuple[int, Mapping[str, Counts]]:
    """Count what tasks cost that come one by one at a rate, each due at once, a future each."""
    sizes = counting.bench.sizes
    load = Load(int(_PER_S * sizes.lateness_s), sizes.drain_ids, rate=_PER_S)
    return _worked(counting, load, "paced")


def enqueue(counting: Counting) -> tuple[int, Mapping[str, Counts]]:
    """Count what tasks cost a client that holds a future for each."""
    return _enqueued(counting, "futures")


def enqueue_bulk(counting: Counting) -> tuple[int, Mapping[str, Counts]]:
    """Count what tasks cost a client that schedules them in bulk."""
    return _enqueued(counting, "bulk")


_NAMES: dict[Callable[[Counting], tuple[int, Mapping[str, Counts]]], str] = {
    drain: "drain",
    steady: "1,000 a second",
    enqueue: "enqueue with a future each",
    enqueue_bulk: "enqueue in bulk",
}


def _worked(counting: Counting, load: Load, kind: str) -> tuple[int, Mapping[str, Counts]]:
    bench = counting.bench
    with (
        bench.servers.embedded("writes") as settings,
        Completions(settings) as completions,
        bench.node(settings, load.count) as (node, records),
        bench.client(settings, load, kind) as client,
    ):
        before = {"node": counting.read(node.pid), "client": counting.read(client.pid)}
        load, _ = bench.go(client, load)
        records.wait_for(load.count, RUN_S)
        executions = list(records)
        exactly_once(executions, load.count)
        completions.wait_for(load, executions, and_offsets=True)
        after = {"node": counting.read(node.pid), "client": counting.read(client.pid)}
    return load.count, {name: after[name] - before[name] for name in before}


def _enqueued(counting: Counting, kind: str) -> tuple[int, Mapping[str, Counts]]:
    bench = counting.bench
    sizes = bench.sizes
    load = Load(sizes.enqueue_tasks, sizes.drain_ids, due_s=wall_s() + _LATER_S, rate=10_000)
    with (
        bench.servers.embedded("writes") as settings,
        bench.client(settings, load, kind) as client,
    ):
        before = counting.read(client.pid)
        bench.go(client, load)
        return load.count, {"client": counting.read(client.pid) - before}
