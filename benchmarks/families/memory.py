"""memory_deep and memory_bytes: a node's memory over many tasks, and over large ones (P13)."""

import time

from benchmarks.bench import Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.machine import resident_bytes

MEASURES = ("memory_deep", "memory_bytes")
_SETTLE_S = 5.0
_MIB = 2**20
_LARGE = Load(count=2_000, ids=500, rate=100.0, note_bytes=900_000)
_CONTAINER_MIB = 512
"""Memory that the compose files give a node."""


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines = _deep(bench) if "memory_deep" in bench.wanted else []
    return lines + (_large(bench) if "memory_bytes" in bench.wanted else [])


def _large(bench: Bench) -> list[Line]:
    """Run tasks of 900 kB on a node that holds as much as one in a container of 512 MB would."""
    with bench.servers.embedded("large") as opened:
        window = opened.tree.window.model_copy(
            update={"memory_bytes_max": _CONTAINER_MIB // 4 * _MIB}
        )
        client = opened.client.model_copy(update={"bulk_in_flight_max": 20})
        tree = opened.tree.model_copy(update={"window": window})
        settings = opened.model_copy(update={"tree": tree, "client": client})
        with bench.node(settings, _LARGE.count) as (node, records):
            bench.drained(settings, _LARGE, records)
            peak_mib = resident_bytes(node.pid, peak=True) / _MIB
    goal = Goal("at most", _CONTAINER_MIB, "value")
    return [Line("memory_bytes", Figure.of([peak_mib]), "MiB, 2,000 tasks of 900 kB", goal=goal)]


def _deep(bench: Bench) -> list[Line]:
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
