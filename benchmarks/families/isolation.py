"""isolation: what ordering ids that fail for ever cost the others, in rate and in lateness (P7)."""

from benchmarks.bench import RUN_S, Bench
from benchmarks.durable import Completions
from benchmarks.families.lateness import latenesses_ms, load_due_later
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import Load
from benchmarks.records import exactly_once

MEASURES = ("isolation",)
_RATE = 1_000.0
_FAILING_FIRST = 10_000_000
"""Numbers of the failing tasks, apart from all others."""


def run(bench: Bench) -> list[Line]:
    """Run the same with and without failing ids, round by round."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    late: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1, bench.sizes.lateness_rounds + 1):
        for failing in (False, True):
            rate, p99_ms = _one(bench, failing=failing)
            rates[failing].append(rate)
            late[failing].append(p99_ms)
            what = "with failing ids" if failing else "alone"
            bench.say(f"round {number}: {what} {rate:,.0f} tasks/s, p99 {p99_ms:.1f} ms late")
    ids = {"failing_ids": bench.sizes.failing_ids}
    return [
        Line(
            "isolation",
            Figure.of(rates[True]),
            "tasks/s",
            "no failing ids",
            Figure.of(rates[False]),
            Goal("at least", 0.95),
            ids,
        ),
        Line(
            "isolation",
            Figure.of(late[True]),
            "ms, p99",
            "no failing ids",
            Figure.of(late[False]),
            Goal("at most", 1 / 0.95),
            ids,
        ),
    ]


def _one(bench: Bench, *, failing: bool) -> tuple[float, float]:
    """Return the others' rate of a drain, and then their lateness at a steady rate."""
    sizes = bench.sizes
    drained = Load(sizes.burst_tasks, sizes.drain_ids)
    slots = drained.count + int(_RATE * sizes.lateness_s)
    with (
        bench.servers.installation("isolation") as settings,
        Completions(settings) as completions,
        bench.node(settings, slots, "failing") as (_, records),
    ):
        if failing:
            count = sizes.failing_ids
            bench.schedule(settings, Load(count, count, first=_FAILING_FIRST, name="failing"))
        drained, began_s = bench.schedule(settings, drained)
        records.wait_for(drained.count, RUN_S)
        executions = list(records)
        exactly_once(executions, drained.count)
        rate = drained.count / (completions.wait_for(drained, executions) - began_s)
        steady = load_due_later(bench, _RATE, "steady")
        bench.schedule(settings, steady)
        records.wait_for(slots, RUN_S)
        later = list(records)[drained.count :]
    return rate, quantile(latenesses_ms(steady, later), 0.99)
