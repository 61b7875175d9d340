"""embedded_steady and drain_cluster_steady: the highest rate that holds, for rivals alike.

Tasks come at a pace, due at once.  A rate holds if few tasks wait at its end: as many as come in a
second, and a tenth of all, at most.
One drain tells where to begin; then the rate goes up or down by a tenth, until the highest that
holds for a moment is known.  A minute at that rate counts, after a half in which servers,
pools and caches become what they are in the long run; where it does not hold for so long, the next
lower rate is tried.  One worker runs all of it.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.families import throughput
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.processor_time import Drain, cpu_s
from benchmarks.program import Program
from benchmarks.records import Records, wall_s
from benchmarks.rivals import running
from benchmarks.rivals.rival import Rival
from hourhand import Settings

MEASURES = ("embedded_steady", "drain_cluster_steady")
_STEP, _LONG_STEP = 1.1, 1.2
"""Ratio of two rates that are tried for a moment, or for long."""
_STEPS_MAX = 12
_WAITING_S, _WAITING_SHARE = 1.0, 0.1
"""Tasks that may wait at the end, in seconds of the rate, and as a share of all."""
_HOURHAND = "Hourhand"
_SLOTS = 6_000_000
_IDS = 10_000
_RIVALS = {
    "embedded_steady": (*throughput.RIVALS[:3], *throughput.FILE_RIVALS),
    "drain_cluster_steady": throughput.RIVALS,
}
_OF = {"embedded_steady": "embedded", "drain_cluster_steady": "drain_cluster"}


@dataclass(frozen=True, slots=True)
class Steady:
    """The rate of a system in the long run, and its processor time."""

    per_s: float
    """Tasks that come in a second."""
    cpu_us: Mapping[str, float]
    """Processor time a task, by the name of the process."""


@dataclass
class Running:
    """A worker of a system that runs, and what makes its clients."""

    records: Records
    pids: Mapping[str, int]
    client: Callable[[Load], Program]
    """Starts a client of a load that is ready."""
    scheduled: int = 0
    """Tasks so far; each has a number of its own."""

    def load(self, count: int, pace: float = 0.0) -> Load:
        """Return a load of so many further tasks."""
        found = Load(count, _IDS, first=self.scheduled, pace=pace, name=f"at-{self.scheduled}")
        self.scheduled += count
        return found


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines: list[Line] = []
    for measure in MEASURES:
        if measure in bench.wanted:
            lines += _lines(measure, _taken(bench, measure))
    return lines


def _taken(bench: Bench, measure: str) -> dict[str, Steady]:
    with contextlib.ExitStack() as stack:
        servers = bench.servers
        settings = stack.enter_context(
            servers.embedded("steady")
            if measure == "embedded_steady"
            else servers.installation("steady")
        )
        with hourhand(bench, settings) as system:
            found = {_HOURHAND: highest(bench, _HOURHAND, system)}
    for rival in running.available(bench, _RIVALS[measure]):
        with of_rival(bench, rival) as system:
            found[rival.name] = highest(bench, rival.name, system)
    return {name: steady for name, steady in found.items() if steady is not None}


def _lines(measure: str, found: dict[str, Steady]) -> list[Line]:
    mine = found.pop(_HOURHAND, None)
    if mine is None:
        return []
    figure, whole = Figure.of([mine.per_s]), Figure.of([sum(mine.cpu_us.values())])
    lines = [Line(measure, figure, f"{throughput.UNIT} that hold")] if not found else []
    for name, of in found.items():
        detail = throughput.survival(_OF[measure], name)
        unit, other = f"{throughput.UNIT} that hold", Figure.of([of.per_s])
        goal = Goal("at least", 1)
        lines.append(Line(measure, figure, unit, name, other, goal, detail))
        cpu = Figure.of([sum(of.cpu_us.values())])
        unit = f"{throughput.CPU_UNIT}, all processes"
        lines.append(Line(measure, whole, unit, name, cpu))
    drains = [Drain(mine.per_s, mine.cpu_us)]
    return lines + throughput.cpu_lines(measure, drains, None)


@contextlib.contextmanager
def hourhand(bench: Bench, settings: Settings) -> Iterator[Running]:
    """Run a node of an installation."""
    with bench.node(settings, _SLOTS) as (node, records):
        pids = bench.servers.pids(settings) | {"node": node.pid}
        yield Running(records, pids, lambda load: bench.client(settings, load, "stream"))


@contextlib.contextmanager
def of_rival(bench: Bench, rival: Rival) -> Iterator[Running]:
    """Run a worker of a rival."""
    records = bench.records(_SLOTS)

    def client(load: Load) -> Program:
        started = rival.client(place.url, asdict(load), bench.folder)
        started.expect("ready", READY_S)
        return started

    with (
        running.place(bench, rival) as place,
        rival.worker(place.url, records.path, records.slots, bench.folder) as worker,
    ):
        worker.expect("ready", READY_S)
        yield Running(records, {"worker": worker.pid, **place.pids}, client)


def highest(bench: Bench, name: str, system: Running) -> Steady | None:
    """Find the highest rate that holds; None if no rate does."""
    sizes = bench.sizes
    per_s = _drained_per_s(bench, name, system)
    bench.say(f"{name}: drains {per_s:,.0f} {throughput.UNIT}")
    goes_up = _holds(bench, name, system, per_s)
    for _ in range(_STEPS_MAX):
        tried = per_s * _STEP if goes_up else per_s / _STEP
        holds = _holds(bench, name, system, tried)
        if goes_up and not holds:
            break
        per_s = tried
        if holds and not goes_up:
            break
    for _ in range(_STEPS_MAX):
        found = at_rate(system, per_s, sizes.steady_warming_s, sizes.steady_s)
        if found is not None:
            cpu = ", ".join(f"{of} {us:.1f}" for of, us in found.cpu_us.items())
            bench.say(f"{name}: {found.per_s:,.0f} {throughput.UNIT} hold; {cpu}")
            return found
        bench.say(f"{name}: {per_s:,.0f} {throughput.UNIT} do not hold for long")
        per_s /= _LONG_STEP
    bench.say(f"{name} is left out: it holds no rate down to {per_s:,.0f} {throughput.UNIT}")
    return None


def _drained_per_s(bench: Bench, name: str, system: Running) -> float:
    sizes = bench.sizes
    slow = throughput.is_slow(name)
    load = system.load(sizes.procrastinate_jobs if slow else sizes.drain_tasks)
    with system.client(load) as client:
        client.say("go")
        began_s = float(client.expect("done", RUN_S)["began_s"])
    system.records.wait_for(system.scheduled, RUN_S)
    return load.count / (max(each.started_s for each in system.records) - began_s)


def _holds(bench: Bench, name: str, system: Running, per_s: float) -> bool:
    found = at_rate(system, per_s, 0.0, bench.sizes.steady_step_s)
    bench.say(f"{name}: {per_s:,.0f} {throughput.UNIT} {'hold' if found else 'do not hold'}")
    return found is not None


def at_rate(system: Running, per_s: float, warming_s: float, counted_s: float) -> Steady | None:
    """Let tasks come at a rate; return what came of it, None where it does not hold."""
    load = system.load(int(per_s * (warming_s + counted_s)), per_s)
    with system.client(load) as client:
        pids = {**system.pids, "client": client.pid}
        client.say("go")
        began_s = wall_s()
        time.sleep(warming_s)
        from_s, before = wall_s(), {of: cpu_s(pid) for of, pid in pids.items()}
        # Not to the last task: a client ends when it has sent it.
        time.sleep(max(0.0, began_s + warming_s + counted_s * 0.95 - wall_s()))
        to_s, after = wall_s(), {of: cpu_s(pid) for of, pid in pids.items()}
        late_s = float(client.expect("done", RUN_S)["ended_s"]) - began_s - warming_s - counted_s
    system.records.wait_for(system.scheduled, RUN_S)
    started_s = [each.started_s for each in system.records if each.number >= load.first]
    done = sum(each <= to_s for each in started_s)
    counted = sum(from_s <= each <= to_s for each in started_s)
    waiting_s = min(_WAITING_S, _WAITING_SHARE * (warming_s + counted_s))
    if late_s > waiting_s or done < (to_s - began_s - waiting_s) * per_s:
        return None
    taken = {of: (after[of], before[of]) for of in pids}
    cpu_us = {
        of: (later - earlier) * 1e6 / counted
        for of, (later, earlier) in taken.items()
        if later is not None and earlier is not None
    }
    return Steady(per_s, cpu_us)
