"""lateness_1k, lateness_3k and lateness_1k_deep: how long after its time a task starts.

Lateness is the start that the executor itself noted less the time it was scheduled for, on one
clock.  A task that starts early, twice or never fails the benchmark.
"""

from collections import defaultdict
from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import Load
from benchmarks.records import Execution, exactly_once, wall_s
from benchmarks.rivals import awa, graphile_worker, pgqueuer, running
from hourhand import Settings

MEASURES = ("lateness_1k", "lateness_3k", "lateness_1k_deep")
RATES = {"lateness_1k": 1_000.0, "lateness_3k": 3_000.0}
P50_MS_MAX = 1.0
RIVALS = (awa.RIVAL, graphile_worker.RIVAL, pgqueuer.RIVAL)
_P999_RATIOS = {awa.NAME: 0.02, graphile_worker.NAME: 1.0}
"""The largest ratio of our p99.9 to theirs that meets the goal."""
_SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_START_S = 3.0
"""From naming a due time until a client begins to schedule."""
_IDS = 10_000
_CURVE = tuple(1 - 10 ** (-step / 20) for step in range(81))
"""The shares that are drawn: evenly spaced in powers of ten of what is left."""


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    shallow: dict[str, list[list[float]]] = {}
    wanted = [each for each in RATES if each in bench.wanted]
    if "lateness_1k_deep" in bench.wanted and "lateness_1k" not in wanted:
        wanted.append("lateness_1k")
    lines: list[Line] = []
    for measure in wanted:
        mine, theirs = _beside_rivals(bench, measure)
        shallow[measure] = mine
        if measure in bench.wanted:
            lines += _lines(measure, mine, theirs)
        bench.curves[f"{measure} hourhand"] = _curve(mine)
        for name, rounds in theirs.items():
            bench.curves[f"{measure} {name}"] = _curve(rounds)
    if "lateness_1k_deep" in bench.wanted:
        for tasks in bench.sizes.deep_backlogs:
            lines.append(_deep(bench, tasks, shallow["lateness_1k"]))
    return lines


def load_due_later(bench: Bench, rate: float, name: str = "customer") -> Load:
    """Return a load at a rate whose first task is far enough ahead to be scheduled in time."""
    count = int(rate * bench.sizes.lateness_s)
    # Scheduling takes its time too: the later tasks of a large load have it anyway.
    due_s = wall_s() + _START_S + bench.sizes.ahead_s
    return Load(count, _IDS, due_s=due_s, rate=rate, name=name)


def latenesses_ms(load: Load, executions: Sequence[Execution]) -> list[float]:
    """Return how late each task started, in order; raises where one was early or is missing."""
    exactly_once(list(executions), load.count)
    found = sorted(each.started_s * 1000 - load.due_ms(each.number) for each in executions)
    if found[0] < 0:
        raise RuntimeError(f"a task started {-found[0]:.3f} ms early")
    return found


def hourhand(bench: Bench, settings: Settings, rate: float) -> list[float]:
    """Measure one node of an installation that may hold anything else."""
    count = load_due_later(bench, rate).count
    with bench.node(settings, count) as (node, records):
        if bench.profiler is not None:
            bench.profiler(node.pid)
        load = load_due_later(bench, rate)
        load, _, executions = bench.drained(settings, load, records)
    return latenesses_ms(load, executions)


def _beside_rivals(
    bench: Bench, measure: str
) -> tuple[list[list[float]], dict[str, list[list[float]]]]:
    """Return the latenesses of each round, and those of each rival that can be run."""
    mine: list[list[float]] = []
    theirs: defaultdict[str, list[list[float]]] = defaultdict(list)
    for number in range(1, bench.sizes.lateness_rounds + 1):
        with bench.servers.installation("late") as settings:
            mine.append(hourhand(bench, settings, RATES[measure]))
        bench.say(f"round {number}: {measure} {_summary(mine[-1])}")
        for rival in running.available(bench, RIVALS):
            if rival.name not in _P999_RATIOS and not bench.sizes.unjudged:
                continue
            load = load_due_later(bench, RATES[measure])
            executions = running.executions(bench, rival, load)
            # The rival's clock is Postgres's: early by a rounding is no news here.
            late_ms = sorted(
                max(0.0, each.started_s * 1000 - rival.due_ms(load, each.number))
                for each in executions
            )
            theirs[rival.name].append(late_ms)
            bench.say(f"round {number}: {measure} {rival.name} {_summary(late_ms)}")
    return mine, dict(theirs)


def _deep(bench: Bench, tasks: int, shallow: list[list[float]]) -> Line:
    deep: list[list[float]] = []
    settings = backlog.shared(bench, tasks)
    for _ in range(bench.sizes.lateness_rounds):
        deep.append(hourhand(bench, settings, RATES["lateness_1k"]))
        bench.say(f"lateness_1k_deep over {tasks:,}: {_summary(deep[-1])}")
    return Line(
        "lateness_1k_deep",
        _figure(deep, 0.999),
        "ms, p99.9",
        "lateness_1k",
        _figure(shallow, 0.999),
        Goal("at most", 1.2),
        {"backlog": tasks, "p50_ms": _figure(deep, 0.5).value},
    )


def _lines(
    measure: str, mine: list[list[float]], theirs: dict[str, list[list[float]]]
) -> list[Line]:
    lines = []
    for rival in RIVALS:
        for name, share in _SHARES.items():
            if rival is not awa.RIVAL and name != "p99.9":
                # One rival shows what the shares are like.
                continue
            goal = None
            if name == "p50":
                goal = Goal("at most", P50_MS_MAX, "value")
            if name == "p99.9" and rival.name in _P999_RATIOS:
                goal = Goal("at most", _P999_RATIOS[rival.name])
            rounds = theirs.get(rival.name)
            other = _figure(rounds, share) if rounds else None
            unit = f"ms, {name}"
            lines.append(Line(measure, _figure(mine, share), unit, rival.name, other, goal))
    return lines


def _figure(rounds: list[list[float]], share: float) -> Figure:
    return Figure.of([quantile(each, share) for each in rounds])


def _summary(values: list[float]) -> str:
    return ", ".join(f"{name} {quantile(values, share):.1f}" for name, share in _SHARES.items())


def _curve(rounds: list[list[float]]) -> list[tuple[float, float]]:
    return [(share, _figure(rounds, share).value) for share in _CURVE]
