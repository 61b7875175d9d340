"""takeover: the longest gap in the executions of partitions that change nodes, out of the box.

Three nodes share a steady load; one is stopped gracefully, and later another one is killed.
Each node notes its executions in a file that outlives it.
"""

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.program import Program
from benchmarks.records import Execution, Records, wall_s
from benchmarks.servers import PARTITIONS
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.configuration.settings import GroupSettings
from tests.servers.kafka import keep_session

MEASURES = ("takeover",)
PROTOCOLS = ("classic", "consumer")
GRACEFUL_S_MAX = 1.0
KILLED_S_MAX = 12.0
_NODES = 3
_IDS = 1_600
_BEFORE_S = 3.0
"""Steady load before each event, which also shows the gap without an event."""
_GRACEFUL_WATCH_S = 6.0
_KILLED_WATCH_S = 17.0


def run(bench: Bench) -> list[Line]:
    """Stop one node, kill another, and look for gaps, under both protocols of Kafka."""
    return [line for protocol in PROTOCOLS for line in _lines(bench, protocol)]


def _lines(bench: Bench, protocol: str) -> list[Line]:
    graceful: list[float] = []
    killed: list[float] = []
    for number in range(1, bench.sizes.lateness_rounds + 1):
        gaps = _one(bench, protocol)
        graceful.append(gaps[0])
        killed.append(gaps[1])
        bench.say(
            f"round {number}: takeover {gaps[0]:.2f} s stopped, {gaps[1]:.2f} s killed, {protocol}"
        )
    suffix = "" if protocol == "classic" else ", KIP-848"
    return [
        Line(
            "takeover",
            Figure.of(graceful),
            f"s, graceful stop{suffix}",
            goal=Goal("at most", GRACEFUL_S_MAX, "value"),
        ),
        Line(
            "takeover",
            Figure.of(killed),
            f"s, SIGKILL{suffix}",
            goal=Goal("at most", KILLED_S_MAX, "value"),
            detail={
                "session_timeout_ms": GroupSettings().session_timeout_ms,
                "heartbeat_ms": GroupSettings().heartbeat_interval_ms,
            },
        ),
    ]


def _one(bench: Bench, protocol: str) -> tuple[float, float]:
    watched_s = 2 * _BEFORE_S + _GRACEFUL_WATCH_S + _KILLED_WATCH_S
    count = int(bench.sizes.takeover_rate * watched_s)
    with (
        bench.servers.installation("takeover", group={"protocol": protocol}) as settings,
        contextlib.ExitStack() as stack,
    ):
        keep_session(settings.kafka.bootstrap_servers, settings.group)
        kept: list[tuple[Program, Records]] = []
        for _ in range(_NODES):
            records = bench.records(count)
            kept.append((stack.enter_context(bench.start_node(settings, records)), records))
        for node, _ in kept:
            node.expect("ready", READY_S)
        due_s = wall_s() + bench.sizes.ahead_s
        load = Load(count, _IDS, due_s=due_s, rate=bench.sizes.takeover_rate)
        bench.schedule(settings, load)
        stopped_s = _until(due_s + _BEFORE_S)
        kept[0][0].stop()
        killed_s = _until(stopped_s + _GRACEFUL_WATCH_S + _BEFORE_S)
        kept[1][0].kill()
        _until(due_s + watched_s)
        _wait_for_all(kept, count)
        executions = [list(records) for _, records in kept]
    return (
        _longest_gap(executions, 0, load, (stopped_s, stopped_s + _GRACEFUL_WATCH_S)),
        _longest_gap(executions, 1, load, (killed_s, killed_s + _KILLED_WATCH_S - _BEFORE_S)),
    )


def _until(moment_s: float) -> float:
    time.sleep(max(0.0, moment_s - wall_s()))
    return wall_s()


def _wait_for_all(kept: Sequence[tuple[Program, Records]], count: int) -> None:
    """Wait until every task ran at least once; a killed node's last ones may run twice."""
    ends_s = time.monotonic() + RUN_S
    while len({each.number for _, records in kept for each in records}) < count:
        if time.monotonic() > ends_s:
            raise TimeoutError("tasks are missing after the takeover")
        time.sleep(0.2)


def _longest_gap(
    executions: Sequence[Sequence[Execution]],
    gone: int,
    load: Load,
    window_s: tuple[float, float],
) -> float:
    """Return the longest pause, within the window, of a partition that the gone node had."""
    began_s, ended_s = window_s
    starts: defaultdict[int, list[float]] = defaultdict(list)
    moved: set[int] = set()
    for node, noted in enumerate(executions):
        for each in noted:
            partition = partition_of(load.ordering_id(each.number), PARTITIONS)
            if began_s - 1 <= each.started_s <= ended_s:
                starts[partition].append(each.started_s)
                if node == gone and each.started_s <= began_s:
                    moved.add(partition)
    if not moved:
        raise RuntimeError("the node that went had run nothing")
    return max(_pause(sorted(starts[partition])) for partition in moved)


def _pause(starts: Sequence[float]) -> float:
    return max(later - earlier for earlier, later in itertools.pairwise(starts))
