"""The enqueue measures: tasks a second that one process hands over.

All are acknowledged by then.  Building them is in it, except for those made beforehand.
``enqueue_embedded`` is ``enqueue`` to the embedded log, and the others are to Kafka.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable

from benchmarks.bench import RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.records import wall_s
from benchmarks.rivals import awa, running
from hourhand import Settings

EMBEDDED = "enqueue_embedded"
MEASURES = ("enqueue", "enqueue_bulk", "enqueue_made", EMBEDDED)
UNIT = "tasks/s"
_COPY = f"{awa.NAME} COPY"
_PRODUCE = "bare produce"
_LATER_S = 86_400.0


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted, round by round, all on one topic that nobody reads."""
    # Due far away: what is measured is the acceptance, whoever runs them.
    sizes = bench.sizes
    load = Load(sizes.enqueue_tasks, sizes.drain_ids, due_s=wall_s() + _LATER_S, rate=10_000)
    with contextlib.ExitStack() as stack:
        works: dict[str, Callable[[], float]] = {}
        if bench.wanted & set(MEASURES) - {EMBEDDED}:
            works = _on_kafka(
                bench, stack.enter_context(bench.servers.installation("enqueue")), load
            )
        if EMBEDDED in bench.wanted:
            settings = stack.enter_context(bench.servers.embedded("enqueue"))
            works[EMBEDDED] = lambda: _hourhand(bench, settings, load, "futures")
        return _lines(bench, _rounds(bench, works, load))


def _on_kafka(bench: Bench, settings: Settings, load: Load) -> dict[str, Callable[[], float]]:
    works: dict[str, Callable[[], float]] = {}
    if "enqueue" in bench.wanted:
        works["futures"] = lambda: _hourhand(bench, settings, load, "futures")
    if "enqueue_bulk" in bench.wanted:
        works["bulk"] = lambda: _hourhand(bench, settings, load, "bulk")
    if "enqueue_made" in bench.wanted:
        works["made"] = lambda: _hourhand(bench, settings, load, "made")
    if {"enqueue_bulk", "enqueue_made"} & bench.wanted:
        works[_PRODUCE] = lambda: _hourhand(bench, settings, load, "produce")
    return works


def _rounds(bench: Bench, works: dict[str, Callable[[], float]], load: Load) -> dict[str, Figure]:
    if bench.servers.postgres is not None:
        works[_COPY] = lambda: running.enqueue(bench, awa.RIVAL, Load(load.count, load.ids))
    rounds: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(1, bench.sizes.rounds + 1):
        for name, work in works.items():
            rounds[name].append(work())
            bench.say(f"round {number}: {name} {rounds[name][-1]:,.0f} {UNIT}")
    return {name: Figure.of(values) for name, values in rounds.items()}


def _lines(bench: Bench, figures: dict[str, Figure]) -> list[Line]:
    table = (
        ("enqueue", "futures", _COPY, Goal("at least", 2)),
        ("enqueue_bulk", "bulk", _COPY, Goal("at least", 3.5)),
        ("enqueue_bulk", "bulk", _PRODUCE, Goal("at least", 0.35)),
        ("enqueue_made", "made", _COPY, Goal("at least", 7)),
        ("enqueue_made", "made", _PRODUCE, Goal("at least", 0.6)),
        (EMBEDDED, EMBEDDED, _COPY, Goal("at least", 1)),
    )
    return [
        Line(measure, figures[mine], UNIT, other, figures.get(other), goal)
        for measure, mine, other, goal in table
        if measure in bench.wanted
    ]


def _hourhand(bench: Bench, settings: Settings, load: Load, kind: str) -> float:
    with bench.client(settings, load, kind) as client:
        if bench.profiler is not None:
            bench.profiler(client.pid)
        client.say("go")
        done = client.expect("done", RUN_S)
        return load.count / (float(done["ended_s"]) - float(done["began_s"]))
