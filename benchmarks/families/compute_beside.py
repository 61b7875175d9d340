"""compute_beside: how late tasks start on a node whose other tasks compute (P7).

Plain tasks fall due at a steady rate on one embedded node, and run in its threads.  Beside them
others compute in Python and end only with the node.  In threads, of which there are 32, they hold
the interpreter's lock in turn: beside 2, 8 and 31 of them.  In processes, of which there are two:
beside 2, and beside 32, most of which wait for a process.
"""

from dataclasses import dataclass, replace

from benchmarks.bench import RUN_S, Bench
from benchmarks.families.lateness import latenesses_ms
from benchmarks.families.user_processes import PROCESSES
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import COMPUTING_KIND, IN_PROCESSES, Load

MEASURES = ("compute_beside",)
P99_MS_MAX = {2: 15.0, 8: 80.0, 31: 250.0}
"""By how many compute in threads."""
_BESIDE_PROCESSES = (PROCESSES, 32)
"""Numbers of tasks that compute in processes, one for each point."""
_RATIO_MAX = 2.0
"""Beside those in processes, to a node whose processes have nothing to do."""
_SHARES = {"p50": 0.5, "p99": 0.99}
_RATE = 200.0
_AHEAD_S = 1.0
"""From when they are scheduled until the first of them is due."""
_IDS = 1_000
_COMPUTING_FIRST = 10_000_000
"""Numbers of the tasks that compute, apart from all others."""


@dataclass(frozen=True, slots=True)
class _Computing:
    """Tasks that compute beside plain ones."""

    count: int
    in_processes: bool = False

    @property
    def at_once(self) -> int:
        """Number of computing tasks that begin before the node stops."""
        return min(self.count, PROCESSES) if self.in_processes else self.count

    def __str__(self) -> str:
        return f"{self.count or 'none'} in {'processes' if self.in_processes else 'threads'}"


def run(bench: Bench) -> list[Line]:
    """Take it beside few and many, in threads and in processes."""
    lines = [line for count in P99_MS_MAX for line in _in_threads(bench, count)]
    return [*lines, *_in_processes(bench)]


def _in_threads(bench: Bench, count: int) -> list[Line]:
    rounds = [_one(bench, _Computing(count)) for _ in range(bench.sizes.lateness_rounds)]
    lines = []
    for name, share in _SHARES.items():
        figure = Figure.of([quantile(each, share) for each in rounds])
        goal = Goal("at most", P99_MS_MAX[count], "value") if name == "p99" else None
        unit, detail = f"ms, {name}, beside {count}", {"computing": count}
        lines.append(Line("compute_beside", figure, unit, goal=goal, detail=detail))
    return lines


def _in_processes(bench: Bench) -> list[Line]:
    counts = (0, *_BESIDE_PROCESSES)
    rounds: dict[int, list[list[float]]] = {count: [] for count in counts}
    for _ in range(bench.sizes.lateness_rounds):
        for count in counts:
            rounds[count].append(_one(bench, _Computing(count, in_processes=True)))
    lines = []
    for count in _BESIDE_PROCESSES:
        for name, share in _SHARES.items():
            figure, alone = (
                Figure.of([quantile(each, share) for each in rounds[of]]) for of in (count, 0)
            )
            goal = Goal("at most", _RATIO_MAX) if name == "p99" else None
            unit = f"ms, {name}, beside {count} in processes"
            detail = {"computing": count, "processes": PROCESSES}
            lines.append(Line("compute_beside", figure, unit, "beside none", alone, goal, detail))
    return lines


def _one(bench: Bench, computing: _Computing) -> list[float]:
    """Return how late the plain tasks of one run started, in order."""
    plain = Load(int(_RATE * bench.sizes.beside_s), _IDS, rate=_RATE)
    count = computing.count
    others = Load(count, max(1, count), first=_COMPUTING_FIRST, name="computing")
    work = "computing"
    if computing.in_processes:
        others = replace(others, kind=COMPUTING_KIND)
        work = f"{IN_PROCESSES}Beside"
    tree = {"execution": {"processes": PROCESSES}}
    with (
        bench.servers.embedded("compute", tree=tree) as settings,
        bench.node(settings, plain.count + computing.at_once, work) as (node, records),
    ):
        if count:
            bench.schedule(settings, others)
            records.wait_for(computing.at_once, RUN_S)
        with bench.client(settings, plain, ahead_s=_AHEAD_S) as client:
            if bench.profiler is not None:
                bench.profiler(node.pid)
            plain, _ = bench.go(client, plain)
            records.wait_for(records.slots, RUN_S)
        executions = [each for each in records if each.number < _COMPUTING_FIRST]
    late_ms = latenesses_ms(plain, executions)
    bench.say(
        f"beside {computing} that compute p50 {quantile(late_ms, 0.5):.1f},"
        f" p99 {quantile(late_ms, 0.99):.1f} ms"
    )
    return late_ms
