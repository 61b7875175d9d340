"""timers_create, timers_pop and timers_pending: the HTTP timer service.

Creations count once they are answered, beside a bare endpoint that only writes to Kafka, in the
same server and framework.  Pops are judged by when their callback came.  The servers have done
either before: a first run is not counted.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import msgspec

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.machine import resident_bytes
from benchmarks.program import Program
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.timers.executor import timer_name, timer_pop_task
from hourhand.scheduler.services.timers.timer import TimerRule, TimerState

MEASURES = ("timers_create", "timers_pop", "timers_pending")
P999_MS_MAX = 50.0
_SHARES = ("p50", "p99", "p99.9")
_BARE = "bare endpoint"
_CHUNK = 500
_IN_FLIGHT = 8
_DAY_S = 86_400
_SETTLE_S = 5.0
_WRITE_TIME = 1
_MIB = 2**20


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines: list[Line] = []
    if "timers_create" in bench.wanted:
        lines += _creations(bench)
    if {"timers_pop", "timers_pending"} & bench.wanted:
        with installation(bench) as settings:
            bench.say("timers_pop, not counted:")
            pops(bench.uncounted(), settings)
    if "timers_pop" in bench.wanted:
        with installation(bench) as settings:
            lines += _pop_lines("timers_pop", pops(bench, settings))
    if "timers_pending" in bench.wanted:
        lines += _pending(bench)
    return lines


@contextlib.contextmanager
def installation(bench: Bench) -> Iterator[Settings]:
    """Make an installation whose timers are served on a free port, without a limit on requests."""
    with bench.servers.installation("timers") as plain:
        timers = TimerSettings(port=0, requests_per_s_max=0)
        yield plain.model_copy(update={"timers": timers})


@contextlib.contextmanager
def _serving(bench: Bench, module: str, settings: Settings) -> Iterator[tuple[Program, int]]:
    spec = {"settings": settings.model_dump(mode="json")}
    with Program(f"benchmarks.programs.{module}", spec, bench.folder) as server:
        port = server.expect("ready", READY_S)["port"]
        if bench.profiler is not None:
            bench.profiler(server.pid)
        yield server, port


def _load(bench: Bench, port: int, **spec: Any) -> dict[str, Any]:
    told = {"port": port, **spec}
    with Program("benchmarks.programs.timers_load", told, bench.folder) as load:
        load.expect("ready", READY_S)
        load.say("go")
        return load.expect("done", RUN_S)


def created_per_s(bench: Bench, settings: Settings, module: str) -> float:
    """Return how many creations a second one server acknowledges."""
    with _serving(bench, module, settings) as (_, port):
        count = bench.sizes.timer_creations
        # Compiling and connecting at the first requests are not measured.
        _load(bench, port, kind="create", count=count // 10)
        done = _load(bench, port, kind="create", count=count)
    return count / float(done["ended_s"] - done["began_s"])


def _creations(bench: Bench) -> list[Line]:
    found: dict[str, list[float]] = {"timers_node": [], "bare_endpoint": []}
    with installation(bench) as settings:
        warming = created_per_s(bench.warming(), settings, "timers_node")
        bench.say(f"timers_node, not counted: {warming:,.0f} creations/s")
    for number in range(1, bench.sizes.rounds + 1):
        # The node first: what the bare endpoint writes is not a record of a task.
        with installation(bench) as settings:
            for module, values in found.items():
                values.append(created_per_s(bench, settings, module))
                bench.say(f"round {number}: {module} {values[-1]:,.0f} creations/s")
    mine, other = (Figure.of(values) for values in found.values())
    goal = Goal("at least", 0.5)
    return [Line("timers_create", mine, "creations/s", _BARE, other, goal)]


def pops(bench: Bench, settings: Settings) -> dict[str, Any]:
    """Have timers pop at a steady rate on one node; return what came."""
    sizes = bench.sizes
    with _serving(bench, "timers_node", settings) as (_, port):
        rate = sizes.timer_pops_per_s
        found = _load(bench, port, kind="pops", rate=rate, seconds=sizes.timer_pops_s)
    late = ", ".join(f"{share} {found[share]:.1f}" for share in _SHARES)
    bench.say(f"{found['pops']:,} pops at {rate}/s, {found['missing']} missing; ms late: {late}")
    return found


def _pop_lines(name: str, found: dict[str, Any]) -> list[Line]:
    counts = {each: found[each] for each in ("pops", "missing", "early", "doubled")}
    lines = [Line(name, Figure.of([found["per_s"]]), "pops/s", detail=counts)]
    for share in _SHARES:
        goal = Goal("at most", P999_MS_MAX, "value") if share == "p99.9" else None
        lines.append(Line(name, Figure.of([found[share]]), f"ms, {share}", goal=goal))
    for what in ("missing", "early", "doubled"):
        goal = Goal("at most", 0.0, "value")
        lines.append(Line(name, Figure.of([found[what]]), f"{what} pops", goal=goal))
    return lines


def _pending(bench: Bench) -> list[Line]:
    """Hold very many timers: memory, and pops of others at the same rate as without."""
    count = bench.sizes.timers_pending
    with installation(bench) as settings:
        began_s = wall_s()
        fill(settings, count)
        bench.say(f"{count:,} pending timers written in {wall_s() - began_s:.0f} s")
        with _serving(bench, "timers_node", settings) as (node, _):
            time.sleep(_SETTLE_S)
            resident_mib = resident_bytes(node.pid) / _MIB
        found = pops(bench, settings)
    memory = Line("timers_pending", Figure.of([resident_mib]), "MiB", detail={"timers": count})
    return [memory, *_pop_lines("timers_pending", found)]


def fill(settings: Settings, count: int) -> None:
    """Write timers that pop in a day or later, through the stores' own ports."""
    stores = wiring.open_stores(settings)
    by_partition: dict[int, list[int]] = {}
    for number in range(count):
        name = timer_name(f"{number:016x}")
        partition = partition_of(name.ordering_id, settings.topic.partitions)
        by_partition.setdefault(partition, []).append(number)
    try:
        for partition, numbers in by_partition.items():
            _fill_partition(stores, partition, numbers)
    finally:
        stores.close()


def _fill_partition(stores: Stores, partition: int, numbers: list[int]) -> None:
    now_ms = int(wall_s() * 1000)
    written: deque[Future[None]] = deque()
    for start in range(0, len(numbers), _CHUNK):
        rows: list[Definition] = []
        tasks: list[StoredTask] = []
        for number in numbers[start : start + _CHUNK]:
            interval_ms = (_DAY_S + number % _DAY_S) * 1000
            rule = TimerRule(interval_ms, interval_ms, "http://127.0.0.1:1/", str(number))
            state = TimerState(now_ms, "written", 0, rule)
            name = timer_name(f"{number:016x}")
            rows.append(Definition(name, 0, msgspec.json.encode(state)))
            pop = timer_pop_task(name.id, rule.pop_ms(now_ms, 1), 1, 0)
            tasks.append(StoredTask(pop.key, pop.data, 0))
        written.append(stores.definitions.save(partition, rows, now_ms))
        written.append(stores.schedule.insert_tasks(partition, tasks, _WRITE_TIME))
        while len(written) > _IN_FLIGHT:
            written.popleft().result(RUN_S)
    for each in written:
        each.result(RUN_S)
