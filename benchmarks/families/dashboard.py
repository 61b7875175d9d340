"""dashboard: how soon each screen has its answers while very many tasks wait.

A screen's answers are those of all requests that it makes when it is opened, one after the
other as a browser without a second connection would make them.
"""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx

from benchmarks.bench import READY_S, Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line
from benchmarks.program import Program
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.operations.tally import TallyChange
from hourhand.actors.model.values.instant import format_instant, from_millis, to_millis
from hourhand.scheduler import wiring

MEASURES = ("dashboard",)
SCREEN_MS_MAX = 300.0
_ROUNDS = 20
_JUDGED = 19
"""Openings of the twenty that have to be in time: one may meet a pause of a server's JVM."""
_DAY_MS = 86_400_000
_WRITE_TIME = 2
_TIMEOUT_S = 120.0
_SEEN_S = 60.0

Asked = tuple[str, Mapping[str, Any]]


def run(bench: Bench) -> list[Line]:
    """Open every screen again and again; the slowest but one is judged."""
    tasks = bench.sizes.backlog_tasks
    settings = backlog.shared(bench, tasks)
    count_all(settings, tasks)
    admin = settings.admin.model_copy(update={"port": 0, "requests_per_s_max": 0})
    spec = {"settings": settings.model_copy(update={"admin": admin}).model_dump(mode="json")}
    lines: list[Line] = []
    with (
        bench.node(settings, 1),
        Program("benchmarks.programs.admin", spec, bench.folder) as program,
    ):
        port = program.expect("ready", READY_S)["port"]
        base = f"http://127.0.0.1:{port}/api/v1"
        with httpx.Client(base_url=base, timeout=_TIMEOUT_S) as http:
            _wait_until_owned(http)
            for screen, answers in opened(http).items():
                took = sorted(_took_ms(http, answers) for _ in range(_ROUNDS))
                judged, slowest = took[_JUDGED - 1], took[-1]
                bench.say(f"dashboard: {screen}, p95 {judged:.0f} ms, slowest {slowest:.0f} ms")
                goal = Goal("at most", SCREEN_MS_MAX, "value")
                unit = f"ms, p95, {screen}"
                detail = {"requests": len(answers), "pending": tasks, "slowest_ms": slowest}
                lines.append(Line("dashboard", Figure.of([judged]), unit, goal=goal, detail=detail))
        program.say("stop")
        program.expect("stopped", READY_S)
    return lines


def count_all(settings: Settings, tasks: int) -> None:
    """Write the counts of what the backlog wrote past the log, as its owners would have."""
    stores = wiring.open_stores(settings)
    partitions = settings.topic.partitions
    first_ms = int(wall_s() * 1000) + _DAY_MS
    step_ms = backlog.DAYS * _DAY_MS * partitions // tasks
    change = TallyChange()
    change.store(first_ms + number * step_ms for number in range(tasks // partitions))
    try:
        for partition in range(partitions):
            saved = stores.tallies.save(partition, change.hours, 0, _WRITE_TIME)
            saved.result(_TIMEOUT_S)
    finally:
        stores.close()


def opened(http: httpx.Client) -> dict[str, list[Asked]]:
    """Return what each screen asks when it is opened."""
    now = from_millis(int(wall_s() * 1000))

    def window(before: timedelta, after: timedelta) -> dict[str, str]:
        first, last = (format_instant(to_millis(each)) for each in (now - before, now + after))
        return {"from": first, "to": last}

    hour, day, week = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
    far = window(-2 * day, 3 * day)
    page = http.get("/tasks", params={**far, "limit": 50}).json()["tasks"]
    one = page[0]
    key = {"key": one["key"]}
    return {
        "now": [("/whoami", {}), ("/status", {}), ("/history", {})],
        "ahead, minutes": [("/ahead", {"unit": "minute", "bars": 90})],
        "ahead, hours": [("/ahead", {"unit": "hour", "bars": 72})],
        "ahead, days": [("/ahead", {"unit": "day", "bars": 30})],
        "lateness": [("/history", {"partition": 0})],
        "bucket map, week": [("/buckets", window(3 * day, 4 * day))],
        "tasks, an hour around now": [("/tasks", {**window(hour, hour), "limit": 50})],
        "tasks, a week around now": [("/tasks", {**window(week, week), "limit": 50})],
        "tasks, a cell of the map": [
            ("/tasks", {**window(-2 * day, 2 * day + hour), "limit": 50, "partition": 0})
        ],
        "tasks, one ordering id": [
            ("/tasks", {**far, "limit": 50, "orderingId": one["orderingId"]})
        ],
        "task": [("/task", key), ("/attempts", key), ("/waiting", key)],
        "blocked keys": [("/blocked", {}), ("/waiting", key)],
        "dead letters": [("/dead-letters", {"limit": 50})],
        "recurring": [("/recurring", {"limit": 100})],
        "timers": [("/timers", {"limit": 100})],
        "relay": [("/relay/pending", {"limit": 100})],
        "nodes and partitions": [("/nodes", {}), ("/partitions", {})],
        "activity": [("/pauses", {}), ("/audit", {"limit": 100})],
        "settings": [("/settings", {})],
    }


def _took_ms(http: httpx.Client, answers: list[Asked]) -> float:
    began_s = time.perf_counter()
    for path, parameters in answers:
        http.get(path, params=dict(parameters)).raise_for_status()
    return (time.perf_counter() - began_s) * 1000


def _wait_until_owned(http: httpx.Client) -> None:
    ends_s = time.monotonic() + _SEEN_S
    while http.get("/status").json()["partitions"]["unknown"]:
        if time.monotonic() > ends_s:
            raise TimeoutError("no node answered for every partition")
        time.sleep(0.2)
