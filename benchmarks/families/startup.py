"""startup: how long until a program, a node, and a node over much waiting work can begin.

A node is ready when each of its partitions has started a task that was due before.
"""

from collections.abc import Mapping

from benchmarks.bench import READY_S, Bench
from benchmarks.families import backlog
from benchmarks.families.blocked import block_one_id
from benchmarks.figures import Figure, Goal, Line
from benchmarks.program import Program
from benchmarks.records import wall_s
from hourhand import SchedulerClient, Settings, Task
from hourhand.actors.model.values.instant import from_millis

MEASURES = ("startup",)
IMPORT_S_MAX = 0.15
EMBEDDED_S_MAX = 1.0
NODE_S_MAX = 5.0
_IMPORTS = 5
_WAIT_S = 300.0


def run(bench: Bench) -> list[Line]:
    """Start everything that users wait for."""
    # The first import compiles and fills the page cache; later ones are what users see.
    imports, names = (
        [program_s(bench, {"kind": kind}) for _ in range(_IMPORTS + 1)][1:]
        for kind in ("package", "names")
    )
    lines = [_line("import hourhand", imports, IMPORT_S_MAX)]
    lines.append(Line("startup", Figure.of(names), "s, import of what a node needs"))
    lines.append(_line("embedded node", [_embedded(bench) for _ in range(3)], EMBEDDED_S_MAX))
    tasks = bench.sizes.backlog_tasks
    # In this order: what is blocked below stays so for the rest of the call.
    settings = backlog.shared(bench, tasks)
    found = [node_s(bench, settings) for _ in range(bench.sizes.lateness_rounds)]
    lines.append(_line(f"node, {tasks:,} pending", found, NODE_S_MAX))
    days = bench.sizes.blocked_days
    block_one_id(settings, days)
    found = [node_s(bench, settings)]
    lines.append(_line(f"node, {tasks:,} pending, an id blocked {days} days", found, NODE_S_MAX))
    for line in lines:
        bench.say(f"startup: {line.unit} {line.figure.value:.3f}")
    return lines


def _line(what: str, seconds: list[float], limit_s: float) -> Line:
    goal = Goal("at most", limit_s, "value")
    return Line("startup", Figure.of(seconds), f"s, {what}", goal=goal)


def _embedded(bench: Bench) -> float:
    with bench.servers.embedded("startup") as settings:
        spec = {"kind": "embedded", "settings": settings.model_dump(mode="json")}
        return program_s(bench, spec)


def program_s(bench: Bench, spec: Mapping[str, object]) -> float:
    """Return how long what ``spec`` names took in a process of its own, in seconds."""
    with Program("benchmarks.programs.starting", spec, bench.folder) as program:
        return float(program.expect("started", READY_S)["seconds"])


def node_s(bench: Bench, settings: Settings) -> float:
    """Return seconds from the start of a node's process until each partition has started a task."""
    partitions = settings.topic.partitions
    _schedule_one_for_each_partition(settings)
    records = bench.records(partitions)
    began_s = wall_s()
    with bench.start_node(settings, records, "failing"):
        records.wait_for(partitions, _WAIT_S)
        return max(each.started_s for each in records) - began_s


def _schedule_one_for_each_partition(settings: Settings) -> None:
    names = backlog.ids_by_partition(settings.topic.partitions, 1, "first")
    due = from_millis(int(wall_s() * 1000))
    with SchedulerClient(settings) as client:
        client.schedule_tasks(
            Task(ordering_id=name, scheduled_time=due, uniqueness_key=str(number), data={})
            for number, (name,) in enumerate(names)
        ).raise_if_rejected()
