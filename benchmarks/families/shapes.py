"""catch_up, few_ids and mixed: what tasks that are not plain cost a node, beside a plain drain.

``catch_up``: tasks that fell due while no node ran.  ``few_ids``: the same tasks over a hundred
ordering ids.  ``mixed``: a tenth fails once, another tenth is of a kind whose executor is async.
All on the embedded default, each beside a plain drain of the same round; judged is the node's
processor time a task.
"""

from collections import defaultdict
from collections.abc import Callable

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.durable import Completions
from benchmarks.families import backlog, throughput
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.processor_time import Drain, Followed
from benchmarks.records import exactly_once, wall_s

_PLAIN = "plain drain"
_FEW_IDS = 100
_PER_S = 1_000.0
"""Tasks that fell due in a second while no node ran."""
_GOALS = {
    "catch_up": Goal("at most", 1.6),
    "few_ids": Goal("at most", 1.6),
    "mixed": Goal("at most", 2),
}


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted, round by round."""
    works = {name: work for name, work in WORKS.items() if name in bench.wanted}
    works[_PLAIN] = throughput.embedded
    rounds: defaultdict[str, list[Drain]] = defaultdict(list)
    # Judged by processor time, which one round and another hardly differ in.
    for number in range(1, bench.sizes.lateness_rounds + 1):
        for name, work in works.items():
            rounds[name].append(work(bench))
            bench.say(f"round {number}: {name} {throughput.summary(rounds[name][-1])}")
    plain = rounds.pop(_PLAIN)
    return [line for name, drains in rounds.items() for line in _lines(name, drains, plain)]


def _lines(name: str, drains: list[Drain], plain: list[Drain]) -> list[Line]:
    mine, other = (Figure.of([each.per_s for each in of]) for of in (drains, plain))
    lines = [Line(name, mine, throughput.UNIT, _PLAIN, other)]
    if all(each.cpu_us for each in (*drains, *plain)):
        mine, other = (Figure.of([each.cpu_us["node"] for each in of]) for of in (drains, plain))
        unit = f"{throughput.CPU_UNIT}, node"
        lines.append(Line(name, mine, unit, _PLAIN, other, _GOALS[name]))
    return lines


def catch_up(bench: Bench) -> Drain:
    """Run tasks that are all overdue when the node starts; counted from when it does."""
    sizes = bench.sizes
    # The last of them is due a second ago.
    due_s = float(int(wall_s() - sizes.drain_tasks / _PER_S - 1))
    load = Load(sizes.drain_tasks, sizes.drain_ids, due_s=due_s, rate=_PER_S)
    followed = Followed()
    with bench.servers.embedded("catch-up") as settings:
        backlog.leave(settings, load)
        records = bench.records(load.count)
        with Completions(settings) as completions, bench.start_node(settings, records) as node:
            node.expect("starting", READY_S)
            if bench.profiler is not None:
                bench.profiler(node.pid)
            began_s = wall_s()
            with followed.following({"node": node.pid}):
                records.wait_for(load.count, RUN_S)
                executions = list(records)
                exactly_once(executions, load.count)
                ended_s = completions.wait_for(load, executions)
    return Drain(load.count / (ended_s - began_s), followed.us_a_task(load.count))


def few_ids(bench: Bench) -> Drain:
    """Drain tasks due now whose ordering ids are few, so that most wait for another."""
    with bench.servers.embedded("few-ids") as settings:
        return bench.drain(settings, Load(bench.sizes.drain_tasks, _FEW_IDS))


def mixed(bench: Bench) -> Drain:
    """Drain tasks due now of two kinds, of which one is async, and some of which fail once."""
    load = Load(bench.sizes.drain_tasks, bench.sizes.drain_ids, mixed=True)
    with bench.servers.embedded("mixed") as settings:
        return bench.drain(settings, load, work="mixed")


WORKS: dict[str, Callable[[Bench], Drain]] = {
    "catch_up": catch_up,
    "few_ids": few_ids,
    "mixed": mixed,
}
MEASURES = tuple(WORKS)
