"""recurring_500, unique and debounce: tasks that a node makes, on the embedded default.

``recurring_500``: five hundred schedules of one second, spread over it.  Lateness is the start
that the executor itself noted less the time of the occurrence, on one clock.  ``unique`` and
``debounce``: calls for ids of their own, each of which leads to a task.  Processor time is that
of the node for a task that it made, with all that this took.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from benchmarks.bench import RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line, quantile
from benchmarks.loads import OCCURRING, SCHEDULES
from benchmarks.processor_time import Followed
from benchmarks.records import Execution, wall_s
from hourhand import SchedulerClient, Settings, Task
from hourhand.actors.model.values.instant import from_millis

MEASURES = ("recurring_500", "unique", "debounce")

_EVERY_MS = 1_000
_SET_S = 4.0
"""From naming the first time until all schedules are set and have run twice."""
_TIMEOUT_S = 60.0
_SETTLE_S = 1.5
"""The windows of calls have ended by then, and what follows them was done."""
_WINDOW = timedelta(seconds=1)
_SHARES = {"p50": (0.5, 2.0), "p99": (0.99, 20.0)}
_US_MAX = {"recurring_500": 150.0, "unique": 200.0, "debounce": 300.0}


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines: list[Line] = []
    if "recurring_500" in bench.wanted:
        rounds = [_recurring(bench, number) for number in range(1, bench.sizes.rounds + 1)]
        for name, (share, most_ms) in _SHARES.items():
            figure = Figure.of([quantile(late_ms, share) for late_ms, _ in rounds])
            goal = Goal("at most", most_ms, "value")
            lines.append(Line("recurring_500", figure, f"ms, {name}", goal=goal))
        lines += _cpu_lines("recurring_500", [cpu for _, cpu in rounds])
        due = SCHEDULES * int(bench.sizes.lateness_s)
        left_out = Figure.of([float(due - len(late_ms)) for late_ms, _ in rounds])
        goal = Goal("at most", 0.0, "value")
        lines.append(Line("recurring_500", left_out, f"left out of {due:,}", goal=goal))
    for name in ("unique", "debounce"):
        if name in bench.wanted:
            numbers = range(1, bench.sizes.rounds + 1)
            lines += _cpu_lines(name, [_calls(bench, name, number) for number in numbers])
    return lines


def _cpu_lines(name: str, cpu_us: Sequence[dict[str, float]]) -> list[Line]:
    if not all("node" in each for each in cpu_us):
        return []
    figure = Figure.of([each["node"] for each in cpu_us])
    goal = Goal("at most", _US_MAX[name], "value")
    return [Line(name, figure, "µs CPU a task, node", goal=goal)]


def _recurring(bench: Bench, number: int) -> tuple[list[float], dict[str, float]]:
    """Return how late occurrences were, in order, and the processor time of one."""
    with bench.servers.embedded("recurring") as settings:
        seconds = int(bench.sizes.lateness_s)
        slots = 2 * SCHEDULES * int(seconds + 4 * _SET_S)
        with bench.node(settings, slots, OCCURRING) as (node, records):
            first_ms = int(wall_s() + _SET_S) * 1_000
            _set_schedules(settings, first_ms)
            # The first occurrences follow the changes, and are not what is measured.
            from_ms = first_ms + int(_SET_S * 1_000)
            _sleep_until(from_ms)
            if bench.profiler is not None:
                bench.profiler(node.pid)
            followed = Followed()
            with followed.following({"node": node.pid}):
                _sleep_until(from_ms + seconds * 1_000)
            time.sleep(_SETTLE_S)
            executions = list(records)
    late_ms = latenesses_ms(executions, first_ms, from_ms, seconds)
    cpu_us = followed.us_a_task(len(late_ms))
    shown = {name: round(quantile(late_ms, share), 1) for name, (share, _) in _SHARES.items()}
    bench.say(f"round {number}: {len(late_ms):,} occurrences, ms late {shown}, µs {cpu_us}")
    return late_ms, cpu_us


def _set_schedules(settings: Settings, first_ms: int) -> None:
    with SchedulerClient(settings) as client:
        futures = [
            client.schedule_recurring(
                f"s{number}",
                every=timedelta(milliseconds=_EVERY_MS),
                starts=from_millis(first_ms + number * _EVERY_MS // SCHEDULES),
                data={"number": number, "first_ms": first_ms, "every_ms": _EVERY_MS},
            )
            for number in range(SCHEDULES)
        ]
        for each in futures:
            each.result(_TIMEOUT_S)


def latenesses_ms(
    executions: Sequence[Execution], first_ms: int, from_ms: int, seconds: int
) -> list[float]:
    """Return how late the occurrences of some seconds started, in order; raises where one was
    early or came twice.  An occurrence is left out where the one before it had not ended.
    """
    began = (from_ms - first_ms) // _EVERY_MS
    found = {}
    for each in executions:
        turn, number = divmod(each.number, SCHEDULES)
        if began <= turn < began + seconds:
            due_ms = first_ms + turn * _EVERY_MS + number * _EVERY_MS // SCHEDULES
            if each.number in found:
                raise RuntimeError(f"the occurrence {each.number} came twice")
            found[each.number] = each.started_s * 1_000 - due_ms
    if not found:
        raise RuntimeError("no occurrence came")
    late_ms = sorted(found.values())
    if late_ms[0] < 0:
        raise RuntimeError(f"an occurrence started {-late_ms[0]:.3f} ms early")
    return late_ms


def _sleep_until(at_ms: float) -> None:
    time.sleep(max(0.0, at_ms / 1_000 - wall_s()))


def _calls(bench: Bench, name: str, number: int) -> dict[str, float]:
    """Return the processor time of a call that leads to a task."""
    count = bench.sizes.enqueue_tasks // 4
    window: dict[str, Any] = {"unique_for" if name == "unique" else "debounce": _WINDOW}
    with (
        bench.servers.embedded(name) as settings,
        bench.node(settings, count) as (node, records),
        SchedulerClient(settings) as client,
    ):
        if bench.profiler is not None:
            bench.profiler(node.pid)
        followed = Followed()
        with followed.following({"node": node.pid}):
            for each in [client.schedule_task(_task(n), **window) for n in range(count)]:
                each.result(_TIMEOUT_S)
            records.wait_for(count, RUN_S)
            time.sleep(_SETTLE_S)
    cpu_us = followed.us_a_task(count)
    bench.say(f"round {number}: {count:,} calls of {name}, µs {cpu_us}")
    return cpu_us


def _task(number: int) -> Task:
    return Task(
        ordering_id=f"customer-{number}",
        scheduled_time=from_millis(int(wall_s() * 1_000)),
        uniqueness_key=str(number),
        data={"number": number},
    )
