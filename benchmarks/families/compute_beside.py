"""compute_beside: how late tasks start on a node whose other tasks compute (P7).

Tasks that compute in Python hold the interpreter's lock in turn, and end only with the node: beside
2, 8 and 31 of them, on one embedded node of 32 workers, plain tasks fall due at a steady rate.
"""

from benchmarks.bench import RUN_S, Bench
from benchmarks.families.lateness import latenesses_ms
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import Load

MEASURES = ("compute_beside",)
P99_MS_MAX = {2: 15.0, 8: 80.0, 31: 250.0}
"""By how many compute."""
_SHARES = {"p50": 0.5, "p99": 0.99}
_RATE = 200.0
_AHEAD_S = 1.0
"""From when they are scheduled until the first of them is due."""
_IDS = 1_000
_COMPUTING_FIRST = 10_000_000
"""Numbers of the tasks that compute, apart from all others."""


def run(bench: Bench) -> list[Line]:
    """Take it beside few and many."""
    return [line for computing in P99_MS_MAX for line in _lines(bench, computing)]


def _lines(bench: Bench, computing: int) -> list[Line]:
    numbers = range(1, bench.sizes.lateness_rounds + 1)
    rounds = [_one(bench, computing, number) for number in numbers]
    lines = []
    for name, share in _SHARES.items():
        figure = Figure.of([quantile(each, share) for each in rounds])
        goal = Goal("at most", P99_MS_MAX[computing], "value") if name == "p99" else None
        unit, detail = f"ms, {name}, beside {computing}", {"computing": computing}
        lines.append(Line("compute_beside", figure, unit, goal=goal, detail=detail))
    return lines


def _one(bench: Bench, computing: int, number: int) -> list[float]:
    """Return how late the plain tasks of one run started, in order."""
    plain = Load(int(_RATE * bench.sizes.beside_s), _IDS, rate=_RATE)
    others = Load(computing, computing, first=_COMPUTING_FIRST, name="computing")
    with (
        bench.servers.embedded("compute") as settings,
        bench.node(settings, plain.count + computing, "computing") as (node, records),
    ):
        bench.schedule(settings, others)
        records.wait_for(computing, RUN_S)
        with bench.client(settings, plain, ahead_s=_AHEAD_S) as client:
            if bench.profiler is not None:
                bench.profiler(node.pid)
            plain, _ = bench.go(client, plain)
            records.wait_for(records.slots, RUN_S)
        executions = [each for each in records if each.number < _COMPUTING_FIRST]
    late_ms = latenesses_ms(plain, executions)
    bench.say(
        f"round {number}: beside {computing} that compute p50 {quantile(late_ms, 0.5):.1f},"
        f" p99 {quantile(late_ms, 0.99):.1f} ms"
    )
    return late_ms
