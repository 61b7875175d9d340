"""memory_deep: what a node's memory is at few and at very many pending tasks (P13)."""

import time

from benchmarks.bench import Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line
from benchmarks.machine import resident_bytes

MEASURES = ("memory_deep",)
_SETTLE_S = 5.0
_MIB = 2**20


def run(bench: Bench) -> list[Line]:
    """Start a node over each and look at it when it has settled."""
    few, many = (_resident_mib(bench, each) for each in _sizes(bench))
    return [
        Line(
            "memory_deep",
            Figure.of([many]),
            "MiB",
            f"{bench.sizes.shallow_tasks:,} tasks",
            Figure.of([few]),
            Goal("at most", 1.1),
            {"tasks": bench.sizes.backlog_tasks},
        )
    ]


def _sizes(bench: Bench) -> tuple[int, int]:
    return bench.sizes.shallow_tasks, bench.sizes.backlog_tasks


def _resident_mib(bench: Bench, tasks: int) -> float:
    with bench.node(backlog.shared(bench, tasks), 1) as (node, _):
        time.sleep(_SETTLE_S)
        found = resident_bytes(node.pid) / _MIB
    bench.say(f"{tasks:,} pending tasks: {found:.1f} MiB")
    return found
