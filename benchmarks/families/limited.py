"""limited: what a limit costs, and what four nodes of which one is killed let through.

The cost is what a limit adds to the calls of one attempt, with and without it by turns in one
process: beside a whole drain it would be lost in the noise.  The rate is that of four nodes with
more due than they may start; each notes its starts in a file that outlives it.
"""

import contextlib
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from benchmarks.bench import READY_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import LIMIT_BURST, LIMIT_PER_S, NOTE, Load
from benchmarks.program import Program
from benchmarks.records import Records, wall_s
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FlowRule, FlowRules, Limit
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.limits.limiter import Limiter
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from tests.servers.kafka import keep_session

MEASURES = ("limited",)
COST_US_MAX = 2.0
KEPT_MIN = 0.99
NODES = 4
_COSTS: Mapping[str, str | None] = {"no key": None, "a key": "customer"}
_PAIRS_A_ROUND = 5
_GROUP = 100
"""Attempts that begin together, as a partition hands them on."""
_IDS = 1_600
_WARM_S = 3.0
"""After the first start: until then nodes use what they saved up."""
_WINDOW_S = 5.0


def run(bench: Bench) -> list[Line]:
    """Count first, then kill a node."""
    return [*(_cost(bench, name, key) for name, key in _COSTS.items()), *_rate(bench)]


# The cost of a limit.


class _NoOp(TaskExecutor):
    def execute(self, task: Task) -> None:
        """Do nothing: it is never called."""


def _cost(bench: Bench, name: str, key: str | None) -> Line:
    limit = Limit(rate=1e9, burst=10**9, key=key)
    limited, free = FlowRules({"mail": FlowRule((limit,))}), FlowRules.NONE
    costs = []
    for number in range(_PAIRS_A_ROUND * bench.sizes.rounds):
        pair = (limited, free) if number % 2 else (free, limited)
        took = {rules: us_an_attempt(rules, bench.sizes.limited_attempts) for rules in pair}
        costs.append(took[limited] - took[free])
    cost = Figure.of(costs)
    bench.say(f"a limit with {name}: {cost.value:.2f} µs a task")
    goal = Goal("at most", COST_US_MAX, "value")
    return Line("limited", cost, f"µs a task, {name}", goal=goal)


def _go_on(_attempts: Sequence[RunningAttempt]) -> None:
    """Take what the stage of limits hands on."""


def us_an_attempt(rules: FlowRules, count: int) -> float:
    """Return what all calls about the limits of one attempt take of the processor."""
    limits = Limiter(
        NodeLimits(rules),
        gate=lambda _: True,
        monotonic_ms=lambda: 1_000 * time.monotonic(),
        following=_go_on,
        refuse=lambda _: None,
        wake_later=lambda _: None,
    )
    data = with_kind(b'{"number":7,"customer":"customer-7","note":"%b"}' % NOTE.encode(), "mail")
    key, executor = Load(1, 1).key(0), _NoOp()
    attempt = Attempt(StoredTask(key, data, 0), partition=0, epoch=1, number=1)
    groups = [
        [RunningAttempt(attempt, executor, None) for _ in range(_GROUP)]
        for _ in range(count // _GROUP)
    ]
    # As on a node, where attempts pass the stage by if no kind has a limit.
    enter = limits.enter if limits else _go_on
    began_s = time.process_time()
    for group in groups:
        enter(group)
        for running in group:
            running.started_monotonic_ms = 1.0
            if running.limiter is not None:
                limits.use(running, 1.0)
                limits.end(running)
    return (time.process_time() - began_s) / count * 1e6


# The starts that a limit lets through.


def _rate(bench: Bench) -> list[Line]:
    """Look at every few seconds of what the nodes started."""
    starts_s, killed_s = _starts(bench)
    calm = [each for each in starts_s if starts_s[0] + _WARM_S <= each < killed_s]
    rate = (len(calm) - 1) / (calm[-1] - calm[0])
    most = most_within(starts_s, _WINDOW_S) / (LIMIT_PER_S * _WINDOW_S + LIMIT_BURST)
    bench.say(f"{rate:.1f} starts/s of {LIMIT_PER_S}, at most {most:.3f} of what is promised")
    kept = Line(
        "limited",
        Figure.of([rate]),
        "starts/s before the kill",
        "the limit",
        Figure.of([float(LIMIT_PER_S)]),
        Goal("at least", KEPT_MIN),
    )
    unit = f"of what P24 allows in {_WINDOW_S:g} s, at most"
    return [kept, Line("limited", Figure.of([most]), unit, goal=Goal("at most", 1.0, "value"))]


def _starts(bench: Bench) -> tuple[Sequence[float], float]:
    """Return when tasks started, and when a node was killed in the middle of that."""
    seconds = bench.sizes.limited_s
    count = round(LIMIT_PER_S * (seconds + 2 * _WARM_S) + LIMIT_BURST) * 2
    with (
        bench.servers.installation("limited") as settings,
        contextlib.ExitStack() as stack,
    ):
        keep_session(settings.kafka.bootstrap_servers, settings.group)
        kept: list[tuple[Program, Records]] = []
        for _ in range(NODES):
            records = bench.records(count)
            node = bench.start_node(settings, records, work="limited")
            kept.append((stack.enter_context(node), records))
        for node, _ in kept:
            node.expect("ready", READY_S)
        due_s = wall_s() + bench.sizes.ahead_s
        bench.schedule(settings, Load(count, _IDS, due_s=due_s))
        _sleep_until(due_s + _WARM_S + seconds / 2)
        kept[0][0].kill()
        killed_s = wall_s()
        _sleep_until(due_s + _WARM_S + seconds)
        return sorted(each.started_s for _, records in kept for each in records), killed_s


def most_within(starts_s: Sequence[float], window_s: float) -> int:
    """Return how many of these sorted starts lie within such a time, at most."""
    return max(
        bisect_right(starts_s, first_s + window_s) - place for place, first_s in enumerate(starts_s)
    )


def _sleep_until(moment_s: float) -> None:
    time.sleep(max(0.0, moment_s - wall_s()))
