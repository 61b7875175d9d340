"""drain_cluster, limit_ratio, burst and embedded: how many tasks a second, and beside what.

One round runs everything that is compared, one after the other, so that all of them meet the
same machine.  A first drain is not counted: of the processor time that Cassandra takes for it,
half goes into compiling what it does.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.processor_time import Drain
from benchmarks.program import Program
from benchmarks.rivals import (
    awa,
    graphile_worker,
    honker,
    huey,
    pgqueuer,
    procrastinate,
    river,
    running,
)
from benchmarks.rivals.rival import Rival

MEASURES = ("drain_cluster", "limit_ratio", "burst", "embedded")
UNIT = "tasks/s"
CPU_UNIT = "µs CPU a task"
RIVALS = (graphile_worker.RIVAL, pgqueuer.RIVAL, awa.RIVAL, procrastinate.RIVAL)
FILE_RIVALS = (honker.RIVAL, honker.FULL_SYNC, huey.RIVAL, river.RIVAL, river.FULL_SYNC)
"""Rivals in a file of SQLite."""
_BARE = "bare loop"
_HOURHAND = "hourhand"
_EMBEDDED = "embedded"
_CLUSTER_RIVALS = tuple(rival.name for rival in RIVALS)
_FILE_RIVALS = tuple(rival.name for rival in FILE_RIVALS)
_EMBEDDED_RIVALS = (graphile_worker.NAME, pgqueuer.NAME, awa.NAME, *_FILE_RIVALS)
_SLOW = frozenset(each.name for each in (procrastinate.RIVAL, *FILE_RIVALS[2:]))
"""Rivals that get fewer jobs: their rate does not depend on the number."""
_ONCE = frozenset({"burst", *_SLOW})
"""Parts of the first round alone: far from their goals, or long."""
_PARTS = {
    "drain_cluster": (_HOURHAND, *_CLUSTER_RIVALS),
    "limit_ratio": (_HOURHAND, _BARE),
    "burst": (_HOURHAND, "burst"),
    "embedded": (_EMBEDDED, *_EMBEDDED_RIVALS),
}
_GOALS = (
    ("drain_cluster", _HOURHAND, graphile_worker.NAME, Goal("at least", 1)),
    ("drain_cluster", _HOURHAND, pgqueuer.NAME, Goal("at least", 1.5)),
    ("drain_cluster", _HOURHAND, awa.NAME, Goal("at least", 4.5)),
    ("drain_cluster", _HOURHAND, procrastinate.NAME, Goal("at least", 60)),
    ("limit_ratio", _HOURHAND, _BARE, Goal("at least", 0.2)),
    ("burst", "burst", _HOURHAND, Goal("at least", 0.9)),
    ("embedded", _EMBEDDED, graphile_worker.NAME, Goal("at least", 1.5)),
    ("embedded", _EMBEDDED, pgqueuer.NAME, None),
    ("embedded", _EMBEDDED, awa.NAME, Goal("at least", 5.5)),
    *(
        (
            "embedded",
            _EMBEDDED,
            each.name,
            Goal("at least", 2) if "no" not in each.survives else None,
        )
        for each in FILE_RIVALS
    ),
)
SURVIVES = {"drain_cluster": "yes / no", "embedded": "yes / yes"}
"""True if what Hourhand acknowledged survives the death of its processes, and of the machine."""
_NODE_US_MAX = {"drain_cluster": 30.0, "embedded": 28.0}


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    works: dict[str, Callable[[Bench], Drain]] = {
        _HOURHAND: hourhand,
        _BARE: bare,
        "burst": burst,
        _EMBEDDED: embedded,
    }
    rivals = (*RIVALS, *FILE_RIVALS) if "embedded" in bench.wanted else RIVALS
    for rival in running.available(bench, rivals):
        works[rival.name] = _rival(rival)
    parts = {part for measure in MEASURES if measure in bench.wanted for part in _PARTS[measure]}
    if _HOURHAND in parts:
        bench.say(f"not counted: hourhand {hourhand(bench.uncounted()).per_s:,.0f} {UNIT}")
    rounds: defaultdict[str, list[Drain]] = defaultdict(list)
    for number in range(1, bench.sizes.rounds + 1):
        for part in sorted(parts & works.keys()):
            if part in _ONCE and number > 1:
                continue
            rounds[part].append(works[part](bench))
            bench.say(f"round {number}: {part} {summary(rounds[part][-1])}")
    return _lines(bench, rounds)


def summary(drain: Drain) -> str:
    """Return what a drain came to, for people."""
    cpu = ", ".join(f"{name} {us:.1f}" for name, us in drain.cpu_us.items())
    return f"{drain.per_s:,.0f} {UNIT}" + (f"; {CPU_UNIT}: {cpu}" if cpu else "")


def _rival(rival: Rival) -> Callable[[Bench], Drain]:
    def work(bench: Bench) -> Drain:
        sizes = bench.sizes
        jobs = sizes.slow_jobs if rival.name in _SLOW else sizes.rival_jobs
        if rival is procrastinate.RIVAL:
            jobs = sizes.procrastinate_jobs
        return running.drain(bench, rival, Load(jobs, max(1, jobs // 6)))

    return work


def _lines(bench: Bench, rounds: dict[str, list[Drain]]) -> list[Line]:
    figures = {part: Figure.of([each.per_s for each in of]) for part, of in rounds.items()}
    lines = []
    for measure, mine, other, goal in _GOALS:
        if measure in bench.wanted:
            against = "drain_cluster" if other == _HOURHAND else other
            figure, beside = figures[mine], figures.get(other)
            detail = survival(measure, other)
            lines.append(Line(measure, figure, UNIT, against, beside, goal, detail))
    for measure, mine, rivals in (
        ("drain_cluster", _HOURHAND, _CLUSTER_RIVALS),
        ("embedded", _EMBEDDED, _EMBEDDED_RIVALS),
    ):
        if measure in bench.wanted:
            lines += cpu_lines(measure, rounds[mine], _NODE_US_MAX[measure])
            for name in rivals:
                lines += _cpu_beside(measure, rounds[mine], name, rounds.get(name, ()))
    if _BARE in figures:
        goal = Goal("at least", 60_000, "value")
        lines.append(Line("bare_loop", figures[_BARE], UNIT, goal=goal))
    return lines


def is_slow(name: str) -> bool:
    """Return True for a rival that gets fewer jobs."""
    return name in _SLOW


def survival(measure: str, rival: str) -> dict[str, str]:
    """Return whether what was acknowledged survives, here and with a rival."""
    theirs = {each.name: each.survives for each in (*RIVALS, *FILE_RIVALS)}.get(rival)
    return {} if theirs is None else {"survives": f"{SURVIVES[measure]}; {theirs}"}


def cpu_lines(measure: str, drains: Sequence[Drain], node_us_max: float | None) -> list[Line]:
    """Return a line a process for the processor time of a task; none where it is not known."""
    lines = []
    for name in drains[0].cpu_us:
        goal = None
        if name == "node" and node_us_max is not None:
            goal = Goal("at most", node_us_max, "value")
        figure = Figure.of([each.cpu_us[name] for each in drains])
        lines.append(Line(measure, figure, f"{CPU_UNIT}, {name}", goal=goal))
    return lines


def _cpu_beside(
    measure: str, mine: Sequence[Drain], rival: str, theirs: Sequence[Drain]
) -> list[Line]:
    """Return what a task takes of all processes, and of the one that runs it, beside a rival's."""
    if not theirs or not mine[0].cpu_us or not theirs[0].cpu_us:
        return []
    shared = {name: Figure.of([each.cpu_us[name] for each in theirs]) for name in theirs[0].cpu_us}
    node = Figure.of([each.cpu_us["node"] for each in mine])
    detail = {name: round(figure.value, 1) for name, figure in shared.items()}
    whole, other = (Figure.of([sum(e.cpu_us.values()) for e in of]) for of in (mine, theirs))
    return [
        Line(measure, node, f"{CPU_UNIT}, node", f"{rival}, worker", shared["worker"]),
        Line(measure, whole, f"{CPU_UNIT}, all processes", rival, other, detail=detail),
    ]


def _load(bench: Bench) -> Load:
    return Load(bench.sizes.drain_tasks, bench.sizes.drain_ids)


def hourhand(bench: Bench) -> Drain:
    """Drain tasks due now from Kafka, completed in Cassandra."""
    with bench.servers.installation("drain") as settings:
        return bench.drain(settings, _load(bench))


def bare(bench: Bench) -> Drain:
    """Move records that were produced before, without an engine."""
    load = _load(bench)
    with bench.servers.installation("bare") as settings:
        bench.schedule(settings, load, "produce")
        spec = {"settings": settings.model_dump(mode="json"), "count": load.count}
        with Program("benchmarks.limits.bare_loop", spec, bench.folder) as loop:
            loop.expect("ready", READY_S)
            loop.say("go")
            done = loop.expect("done", RUN_S)
    return Drain(load.count / (float(done["ended_s"]) - float(done["began_s"])))


def burst(bench: Bench) -> Drain:
    """Drain tasks that were scheduled before and are all due at one moment."""
    load = Load(bench.sizes.burst_tasks, bench.sizes.drain_ids)
    with bench.servers.installation("burst") as settings:
        return bench.drain(settings, load, ahead_s=bench.sizes.ahead_s)


def embedded(bench: Bench) -> Drain:
    """Drain tasks due now from a folder, completed there, the log's offsets included."""
    with bench.servers.embedded("embedded") as settings:
        return bench.drain(settings, _load(bench))
