"""fair and priority: how late tasks start beside a backlog that they need not wait for.

One embedded node whose tasks each block a worker for twenty milliseconds.  Tasks come one by one,
each due when it is scheduled: first while nothing else is due, then while the node works off a
backlog, all of which falls due at one moment.  ``fair``: they are of ten tenants, the backlog of
another one.  ``priority``: they have a higher priority than the backlog.  With ``_processes`` the
workers are processes, half as many as threads.  Nothing is judged unless the backlog lasts to the
end.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench import RUN_S, Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import IN_PROCESSES, Load
from benchmarks.records import Execution, Records, exactly_once, wall_s
from hourhand.actors.model.window.read_ahead import AHEAD_MS

_RATE = 200.0
_TENANTS = 10
_IDS = 1_000
"""Ordering ids of the arriving tasks and of their tenants; the backlog has ten times as many."""
_PRIORITY = 9
"""Priority of the arriving tasks; the backlog has that of its kind, which is lower."""
_BACKLOG_FIRST = 10_000_000
"""Numbers of the backlog, apart from all others."""
_PROCESSES = 16
"""Processes of the node, which run a task each: four times as many as the load keeps busy."""
_RATIO_MAX = 2.0
_SHARES = {"p50": 0.5, "p99": 0.99}
_SEARCH_S = AHEAD_MS / 1000
"""The backlog is read this long before it is due; nothing is judged then."""
_US_A_ROW = 50.0
"""Writing the backlog takes no longer, or the node is ready too late."""
_READY_S = 15.0
"""The same for a node and a client to start."""
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of one measure."""

    work: str
    """Processes of the node."""
    against: str
    tenants: int = 0
    priority: int | None = None


_WORKS = {
    "fair": _Work("fair", "no backlog", tenants=_TENANTS),
    "priority": _Work("priority", "idle engine", priority=_PRIORITY),
    "fair_processes": _Work(f"{IN_PROCESSES}ProcessFair", "no backlog", tenants=_TENANTS),
    "priority_processes": _Work(
        f"{IN_PROCESSES}ProcessPriority", "idle engine", priority=_PRIORITY
    ),
}
MEASURES = tuple(_WORKS)


@dataclass(frozen=True, slots=True)
class Phases:
    """Lateness of tasks, in order: before the backlog was due, and beside it."""

    before_ms: list[float]
    beside_ms: list[float]


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    wanted = [name for name in MEASURES if name in bench.wanted]
    return [line for name in wanted for line in _lines(bench, name)]


def _lines(bench: Bench, name: str) -> list[Line]:
    numbers = range(1, bench.sizes.lateness_rounds + 1)
    rounds = [_one(bench, name, number) for number in numbers]
    lines = []
    for share_name, share in _SHARES.items():
        beside = Figure.of([quantile(each.beside_ms, share) for each in rounds])
        before = Figure.of([quantile(each.before_ms, share) for each in rounds])
        goal = Goal("at most", _RATIO_MAX) if share_name == "p99" else None
        detail = {"backlog": bench.sizes.shares_backlog_tasks}
        unit, against = f"ms, {share_name}", _WORKS[name].against
        lines.append(Line(name, beside, unit, against, before, goal, detail))
    return lines


def _one(bench: Bench, name: str, number: int) -> Phases:
    left, coming = _loads(bench, _WORKS[name])
    tree = {"execution": {"processes": _PROCESSES}}
    with bench.servers.embedded(name, tree=tree) as settings:
        backlog.leave(settings, left)
        with (
            bench.node(settings, left.count + coming.count, _WORKS[name].work) as (node, records),
            bench.client(settings, coming, "paced") as client,
        ):
            if (late_s := wall_s() - coming.due_s) > 0:
                raise RuntimeError(f"node and client were ready {late_s:.1f} s too late")
            if bench.profiler is not None:
                bench.profiler(node.pid)
            bench.go(client, coming)
            executions = _executions(records, coming.count)
    found = phases(left, coming, executions)
    bench.say(f"round {number}: {name} {_summary(found)}")
    return found


def _loads(bench: Bench, work: _Work) -> tuple[Load, Load]:
    """Return the backlog, and the tasks that come before it is due and after that."""
    count, seconds = bench.sizes.shares_backlog_tasks, bench.sizes.shares_s
    before_s = seconds + _SEARCH_S
    due_s = float(int(wall_s() + count * _US_A_ROW / 1e6 + _READY_S + before_s))
    left = Load(
        count,
        min(10 * _IDS, count),
        due_s=due_s,
        first=_BACKLOG_FIRST,
        name="backlog",
        tenants=min(1, work.tenants),
    )
    coming = Load(
        int((before_s + seconds) * _RATE),
        _IDS,
        due_s=due_s - before_s,
        rate=_RATE,
        tenants=work.tenants,
        priority=work.priority,
    )
    return left, coming


def _executions(records: Records, coming: int) -> list[Execution]:
    """Return what was started when all tasks that came were."""
    ends_s = time.monotonic() + RUN_S
    while True:
        executions = list(records)
        started = sum(each.number < _BACKLOG_FIRST for each in executions)
        if started >= coming:
            return executions
        if time.monotonic() > ends_s:
            raise TimeoutError(f"{started} of {coming} tasks ran within {RUN_S:.0f} s")
        time.sleep(_POLL_S)


def phases(left: Load, coming: Load, executions: Sequence[Execution]) -> Phases:
    """Return how late the tasks that came were; RuntimeError where that would say nothing."""
    own = [each for each in executions if each.number < _BACKLOG_FIRST]
    others = [each for each in executions if each.number >= _BACKLOG_FIRST]
    exactly_once(own, coming.count)
    # Tasks of the backlog that the node had left when it was stopped are not missing.
    exactly_once(others, len({each.number for each in others}))
    late_ms = _late_ms(coming, own)
    early_ms = -min([*late_ms.values(), *_late_ms(left, others).values()])
    if early_ms > 0:
        raise RuntimeError(f"a task started {early_ms:.3f} ms early")
    if len(others) == left.count and max(e.started_s for e in others) * 1000 < coming.last_due_ms:
        raise RuntimeError("the backlog was gone while tasks still came")
    due_ms = left.due_ms(left.first)
    by_due_ms = [(coming.due_ms(number), late) for number, late in late_ms.items()]
    before = [late for at_ms, late in by_due_ms if at_ms < due_ms - AHEAD_MS]
    beside = [late for at_ms, late in by_due_ms if at_ms >= due_ms]
    return Phases(sorted(before), sorted(beside))


def _late_ms(load: Load, executions: Sequence[Execution]) -> dict[int, float]:
    return {e.number: e.started_s * 1000 - load.due_ms(e.number) for e in executions}


def _summary(found: Phases) -> str:
    shown = (
        f"{name} {quantile(found.before_ms, share):.1f} ms before, and"
        f" {quantile(found.beside_ms, share):.1f} ms beside the backlog"
        for name, share in _SHARES.items()
    )
    return "; ".join(shown)
