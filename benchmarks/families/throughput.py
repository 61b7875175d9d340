"""drain_cluster, limit_ratio, burst and embedded: how many tasks a second, and beside what.

One round runs everything that is compared, one after the other, so that all of them meet the
same machine.  A first drain is not counted: of the processor time that Cassandra takes for it,
half goes into compiling what it does.
"""

from collections import defaultdict
from collections.abc import Callable

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.durable import Completions
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.program import Program
from benchmarks.rivals import awa, procrastinate, running

MEASURES = ("drain_cluster", "limit_ratio", "burst", "embedded")
UNIT = "tasks/s"
_BARE = "bare loop"
_PARTS = {
    "drain_cluster": ("hourhand", awa.NAME, procrastinate.NAME),
    "limit_ratio": ("hourhand", _BARE),
    "burst": ("hourhand", "burst"),
    "embedded": ("embedded", awa.NAME),
}


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    parts = {part for measure in MEASURES if measure in bench.wanted for part in _PARTS[measure]}
    if bench.servers.postgres is None:
        parts -= {awa.NAME, procrastinate.NAME}
    works: dict[str, Callable[[Bench], float]] = {
        "hourhand": hourhand,
        _BARE: bare,
        "burst": burst,
        "embedded": embedded,
        awa.NAME: lambda each: running.drain(each, awa, _rival_load(each.sizes.awa_jobs)),
        procrastinate.NAME: lambda each: running.drain(
            each, procrastinate, _rival_load(each.sizes.procrastinate_jobs)
        ),
    }
    if "hourhand" in parts:
        bench.say(f"not counted: hourhand {hourhand(bench.uncounted()):,.0f} {UNIT}")
    rounds: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(1, bench.sizes.rounds + 1):
        for part in sorted(parts):
            rounds[part].append(works[part](bench))
            bench.say(f"round {number}: {part} {rounds[part][-1]:,.0f} {UNIT}")
    figures = {part: Figure.of(values) for part, values in rounds.items()}
    return _lines(bench, figures)


def _lines(bench: Bench, figures: dict[str, Figure]) -> list[Line]:
    table = (
        ("drain_cluster", "hourhand", awa.NAME, Goal("at least", 5)),
        ("drain_cluster", "hourhand", procrastinate.NAME, Goal("at least", 60)),
        ("limit_ratio", "hourhand", _BARE, Goal("at least", 0.25)),
        ("burst", "burst", "hourhand", Goal("at least", 0.9)),
        ("embedded", "embedded", awa.NAME, Goal("at least", 5)),
    )
    lines = []
    for measure, mine, other, goal in table:
        if measure in bench.wanted:
            against = "drain_cluster" if other == "hourhand" else other
            lines.append(Line(measure, figures[mine], UNIT, against, figures.get(other), goal))
    if _BARE in figures:
        lines.append(Line("bare_loop", figures[_BARE], UNIT, goal=_at_least(60_000)))
    return lines


def _at_least(value: float) -> Goal:
    return Goal("at least", value, "value")


def _load(bench: Bench) -> Load:
    return Load(bench.sizes.drain_tasks, bench.sizes.drain_ids)


def _rival_load(jobs: int) -> Load:
    return Load(jobs, max(1, jobs // 6))


def hourhand(bench: Bench) -> float:
    """Drain tasks due now from Kafka, completed in Cassandra."""
    with bench.servers.installation("drain") as settings:
        return bench.drain(settings, _load(bench))


def bare(bench: Bench) -> float:
    """Move records that were produced before, without an engine."""
    load = _load(bench)
    with bench.servers.installation("bare") as settings:
        bench.schedule(settings, load, "produce")
        spec = {"settings": settings.model_dump(mode="json"), "count": load.count}
        with Program("benchmarks.limits.bare_loop", spec, bench.folder) as loop:
            loop.expect("ready", READY_S)
            loop.say("go")
            done = loop.expect("done", RUN_S)
    return load.count / (float(done["ended_s"]) - float(done["began_s"]))


def burst(bench: Bench) -> float:
    """Drain tasks that were scheduled before and are all due at one moment."""
    load = Load(bench.sizes.burst_tasks, bench.sizes.drain_ids)
    with bench.servers.installation("burst") as settings:
        return bench.drain(settings, load, ahead_s=bench.sizes.ahead_s)


def embedded(bench: Bench) -> float:
    """Drain tasks due now from a folder, completed there, the log's offsets included."""
    load = _load(bench)
    with (
        bench.servers.embedded("embedded") as settings,
        Completions(settings) as completions,
        bench.node(settings, load.count) as (node, records),
    ):
        if bench.profiler is not None:
            bench.profiler(node.pid)
        load, began_s, executions = bench.drained(settings, load, records)
        completed_s = completions.wait_for(load, executions)
        ended_s = max(completed_s, completions.wait_for_offsets(load.count))
    bench.say(f"embedded, completions alone: {load.count / (completed_s - began_s):,.0f} {UNIT}")
    return load.count / (ended_s - began_s)
