"""compute and process_hop: user code in processes of an embedded node.

``compute``: tasks that compute, in one process and in two, beside threads and beside a rival's
processes.  ``process_hop``: the processor time of a task that does nothing in a process, of node,
guardian and process together, beside one in a thread.
"""

from benchmarks.bench import Bench
from benchmarks.families.throughput import CPU_UNIT, UNIT, summary
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import IN_PROCESSES, Load
from benchmarks.processor_time import Drain
from benchmarks.rivals import celery

MEASURES = ("compute", "process_hop")
PROCESSES = 2
"""Processes of one node: as many as the machine of the published figures has cores."""
_COUNTS = (1, PROCESSES)
_SPEEDUP_MIN, _RIVAL_RATIO_MIN = 1.6, 0.95
_HOP_US_MAX, _HOPS_PER_S_MIN = 120.0, 8_000.0


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    taken = {"compute": _compute, "process_hop": _hop}
    return [line for name in MEASURES if name in bench.wanted for line in taken[name](bench)]


def drained(bench: Bench, work: str, load: Load, processes: int = PROCESSES) -> Drain:
    """Drain a load on an embedded node of so many processes for tasks of a class."""
    tree = {"execution": {"processes": processes}}
    with bench.servers.embedded(work, tree=tree) as settings:
        drain = bench.drain(settings, load, work=f"{IN_PROCESSES}{work}")
    bench.say(f"{work} with {processes}: {summary(drain)}")
    return drain


def _compute(bench: Bench) -> list[Line]:
    load = Load(bench.sizes.compute_tasks, bench.sizes.compute_tasks)
    has_rival = bench.with_rivals and celery.is_installed()
    threads: list[float] = []
    mine: dict[int, list[float]] = {count: [] for count in _COUNTS}
    theirs: dict[int, list[float]] = {count: [] for count in _COUNTS}
    for _ in range(bench.sizes.rounds):
        threads.append(drained(bench, "Compute", load).per_s)
        for count in _COUNTS:
            mine[count].append(drained(bench, "ProcessCompute", load, count).per_s)
            if has_rival:
                theirs[count].append(celery.computed_per_s(bench, load, count))
                bench.say(f"{celery.NAME} with {count}: {theirs[count][-1]:,.1f} {UNIT}")
    lines = []
    for count in _COUNTS:
        figure = Figure.of(mine[count])
        unit = f"{UNIT}, {count} process{'es' if count > 1 else ''}"
        goal = Goal("at least", _SPEEDUP_MIN) if count == PROCESSES else None
        lines.append(Line("compute", figure, unit, "threads", Figure.of(threads), goal))
        if has_rival:
            goal, other = Goal("at least", _RIVAL_RATIO_MIN), Figure.of(theirs[count])
            lines.append(Line("compute", figure, unit, f"{celery.NAME}, as many", other, goal))
    return lines


def _hop(bench: Bench) -> list[Line]:
    load = Load(bench.sizes.drain_tasks, bench.sizes.drain_ids)
    there: list[Drain] = []
    here: list[Drain] = []
    for _ in range(bench.sizes.rounds):
        there.append(drained(bench, "ProcessNoOp", load))
        here.append(drained(bench, "NoOp", load))
    return hop_lines(there, here)


def hop_lines(there: list[Drain], here: list[Drain]) -> list[Line]:
    """Return the lines for drains in processes, and for as many in threads."""
    rate = Goal("at least", _HOPS_PER_S_MIN, "value")
    mine, other = (Figure.of([each.per_s for each in of]) for of in (there, here))
    lines = [Line("process_hop", mine, UNIT, "threads", other, rate)]
    if all("node" in each.cpu_us for each in (*there, *here)):
        mine, other = (Figure.of([each.cpu_us["node"] for each in of]) for of in (there, here))
        goal = Goal("at most", _HOP_US_MAX, "value")
        unit = f"{CPU_UNIT}, node, guardian and processes"
        lines.append(Line("process_hop", mine, unit, "threads", other, goal))
    return lines
