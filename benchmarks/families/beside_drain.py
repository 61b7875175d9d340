"""lateness_beside_drain: how late tasks start that fall due while a node catches up with others.

The backlog lies in the store before the node starts, all of it overdue, of other ordering ids.
Only what falls due before the last of it was started is judged.
"""

from benchmarks.bench import RUN_S, Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import Load
from benchmarks.records import Execution, exactly_once, wall_s

MEASURES = ("lateness_beside_drain",)
P99_MS_MAX = 50.0
_SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_RATE = 500.0
_AHEAD_S = 1.0
"""From when they are scheduled until the first of them is due."""
_IDS = 10_000
_OVERDUE_S = 600.0
"""Age of the first task of the backlog."""
_OVERDUE_FIRST = 10_000_000
"""Numbers of the backlog, apart from all others."""
_JUDGED_MIN = 200


def run(bench: Bench) -> list[Line]:
    """Take it as often as the other latenesses, when servers have compiled what they do for it."""
    _one(bench.uncounted(), "not counted")
    rounds = [
        _one(bench, f"round {number}") for number in range(1, bench.sizes.lateness_rounds + 1)
    ]
    lines = []
    for name, share in _SHARES.items():
        figure = Figure.of([quantile(each, share) for each in rounds])
        goal = Goal("at most", P99_MS_MAX, "value") if name == "p99" else None
        detail = {"overdue": bench.sizes.overdue_tasks, "judged": [len(each) for each in rounds]}
        unit = f"ms, {name}"
        lines.append(Line("lateness_beside_drain", figure, unit, goal=goal, detail=detail))
    return lines


def _one(bench: Bench, name: str) -> list[float]:
    """Return how late those tasks were that fell due while the backlog was worked off."""
    count = bench.sizes.overdue_tasks
    due_s = float(int(wall_s() - _OVERDUE_S))
    rate = count / (_OVERDUE_S / 2)
    overdue = Load(
        count, min(_IDS, count), due_s=due_s, rate=rate, first=_OVERDUE_FIRST, name="overdue"
    )
    punctual = Load(int(_RATE * bench.sizes.beside_s), _IDS, rate=_RATE, name="punctual")
    with bench.servers.installation("beside") as settings:
        backlog.leave(settings, overdue)
        with (
            bench.client(settings, punctual, ahead_s=_AHEAD_S) as client,
            bench.node(settings, punctual.count + count) as (node, records),
        ):
            if bench.profiler is not None:
                bench.profiler(node.pid)
            punctual, began_s = bench.go(client, punctual)
            records.wait_for(records.slots, RUN_S)
            executions = list(records)
    exactly_once(executions, records.slots)
    drained_s = max(each.started_s for each in executions if each.number >= _OVERDUE_FIRST)
    judged = late_ms(punctual, executions, drained_s)
    bench.say(
        f"{name}: {count:,} overdue ones took {drained_s - began_s:.1f} s, {len(judged):,}"
        f" fell due meanwhile: p50 {quantile(judged, 0.5):.1f}, p99 {quantile(judged, 0.99):.1f} ms"
    )
    return judged


def late_ms(punctual: Load, executions: list[Execution], drained_s: float) -> list[float]:
    """Return how late those tasks started, in order, that were due before ``drained_s``."""
    due_and_late_ms = [
        (due_ms, each.started_s * 1000 - due_ms)
        for each in executions
        if each.number < _OVERDUE_FIRST
        for due_ms in [punctual.due_ms(each.number)]
    ]
    found_ms = sorted(late for due_ms, late in due_and_late_ms if due_ms < drained_s * 1000)
    if len(found_ms) < _JUDGED_MIN:
        raise RuntimeError(f"the backlog was gone when only {len(found_ms)} tasks had been due")
    if found_ms[0] < 0:
        raise RuntimeError(f"a task started {-found_ms[0]:.3f} ms early")
    return found_ms
