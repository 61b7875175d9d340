"""scale_nodes and cost_curve: what more nodes bring, and what more pending tasks cost."""

import contextlib
import math
import time

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.durable import Completions
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line, slope
from benchmarks.loads import Load
from benchmarks.records import Execution, exactly_once, middle_rate_per_s, wall_s
from hourhand import Settings

MEASURES = ("scale_nodes", "cost_curve")
SLOPE_MAX = 0.05
DOUBLING_MIN = 1.8
_NODES = (1, 2, 4)
_WORKERS = 4
_TASKS_A_SECOND = 800
"""Capacity of one node: four workers, five milliseconds a task.  Cores stay idle."""
_CURVE_ROUNDS = 3


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines: list[Line] = []
    if "scale_nodes" in bench.wanted:
        lines += _scale(bench)
    if "cost_curve" in bench.wanted:
        lines.append(_curve(bench, "embedded", bench.sizes.curve_embedded))
        if bench.sizes.curve_cluster:
            lines.append(_curve(bench, "cluster", bench.sizes.curve_cluster))
    return lines


def _scale(bench: Bench) -> list[Line]:
    rates = {nodes: _rate(bench, nodes) for nodes in _NODES}
    bench.curves["scale_nodes"] = [(float(nodes), rate) for nodes, rate in rates.items()]
    return [
        Line(
            "scale_nodes",
            Figure.of([rates[2 * nodes]]),
            f"tasks/s, {2 * nodes} nodes",
            f"{nodes} node{'s' if nodes > 1 else ''}",
            Figure.of([rates[nodes]]),
            Goal("at least", DOUBLING_MIN),
        )
        for nodes in _NODES[:-1]
    ]


def _rate(bench: Bench, nodes: int) -> float:
    """Return executions per second of so many nodes that have enough to do."""
    count = int(_TASKS_A_SECOND * nodes * bench.sizes.scale_s)
    tree = {"execution": {"workers": _WORKERS}}
    with (
        bench.servers.installation("scale", tree=tree) as settings,
        contextlib.ExitStack() as stack,
    ):
        kept = [bench.records(count) for _ in range(nodes)]
        started = [
            stack.enter_context(bench.start_node(settings, records, "wait")) for records in kept
        ]
        for node in started:
            node.expect("ready", READY_S)
        load = Load(count, count, due_s=wall_s() + bench.sizes.ahead_s)
        bench.schedule(settings, load)
        executions: list[Execution] = []
        ends_s = wall_s() + RUN_S
        while len(executions) < count and wall_s() < ends_s:
            # Looking costs time that the nodes need.
            time.sleep(0.5)
            executions = [each for records in kept for each in records]
        exactly_once(executions, count)
    rate = middle_rate_per_s(executions)
    bench.say(f"{nodes} nodes: {rate:,.0f} tasks/s")
    return rate


def _curve(bench: Bench, name: str, sizes: tuple[int, ...]) -> Line:
    """Measure the time of a task over backlogs of several sizes, and fit a line."""
    points: list[tuple[float, float]] = []
    for pending in sizes:
        with backlog.filled(bench, pending, embedded=name == "embedded") as settings:
            rounds = _drains(bench, settings)
        points.append((float(pending), Figure.of(rounds).value))
        bench.say(f"{name}, {pending:,} pending: {points[-1][1] * 1e6:,.0f} µs a task")
    bench.curves[f"cost_curve {name}"] = points
    found = slope([(math.log(x), math.log(y)) for x, y in points])
    return Line(
        "cost_curve",
        Figure.of([found]),
        f"slope, {name}",
        goal=Goal("at most", SLOPE_MAX, "value"),
        detail={"us_per_task": {f"{int(x)}": round(y * 1e6, 1) for x, y in points}},
    )


def _drains(bench: Bench, settings: Settings) -> list[float]:
    """Return the seconds of a task in several drains by one node over what is pending."""
    count = bench.sizes.curve_tasks
    seconds = []
    with (
        Completions(settings) as completions,
        bench.node(settings, count * (_CURVE_ROUNDS + 1)) as (_, records),
    ):
        # The first drain warms up code, caches and connections.
        for number in range(_CURVE_ROUNDS + 1):
            load = Load(count, bench.sizes.drain_ids, first=number * count)
            load, began_s = bench.schedule(settings, load)
            records.wait_for(count * (number + 1), RUN_S)
            mine = list(records)[number * count : (number + 1) * count]
            exactly_once(mine, count)
            seconds.append((completions.wait_for(load, mine) - began_s) / count)
    return seconds[1:]
