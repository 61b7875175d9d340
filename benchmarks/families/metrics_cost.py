"""metrics_cost: what counting, measuring and being scraped take from a node's throughput.

The same drain with metrics and without, by turns in one run, so that both meet the same machine.
On the embedded default: what a server's driver takes differs from drain to drain by more than
counting does.  The processor's time a task says the same with less noise, as it does not depend
on who else runs here.
"""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench import Bench
from benchmarks.durable import Completions
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.processor_time import Followed
from hourhand import Settings
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from tests.servers.ports import free_ports

MEASURES = ("metrics_cost",)
COST_MAX = 0.03
_SCRAPE_EVERY_S = 1.0
_PAIRS_A_ROUND = 4


def run(bench: Bench) -> list[Line]:
    """Take turns, whoever begins."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1, bench.sizes.rounds * _PAIRS_A_ROUND + 1):
        for counted in (False, True) if number % 2 else (True, False):
            rate, cpu_us = _drain(bench, counted=counted)
            rates[counted].append(rate)
            costs[counted].append(cpu_us)
            what = "with metrics" if counted else "without"
            bench.say(f"round {number}: {what} {rate:,.0f} tasks/s, {cpu_us:.1f} µs CPU a task")
    scraped = {"scraped_every_s": _SCRAPE_EVERY_S}
    return [
        Line(
            "metrics_cost",
            Figure.of(rates[True]),
            "tasks/s",
            "no metrics",
            Figure.of(rates[False]),
            Goal("at least", 1 - COST_MAX),
            scraped,
        ),
        Line(
            "metrics_cost",
            Figure.of(costs[True]),
            "µs CPU a task",
            "no metrics",
            Figure.of(costs[False]),
            Goal("at most", 1 + COST_MAX),
            scraped,
        ),
    ]


def _drain(bench: Bench, *, counted: bool) -> tuple[float, float]:
    """Return tasks a second, and the node's processor time a task in microseconds."""
    load, followed = Load(bench.sizes.drain_tasks, bench.sizes.drain_ids), Followed()
    with bench.servers.embedded("metrics") as plain:
        port = free_ports(1)[0] if counted else None
        settings = plain.model_copy(update={"observe": ObserveSettings(port=port)})
        with (
            Completions(settings) as completions,
            bench.node(settings, load.count) as (node, records),
            _scraping(settings),
            followed.following({"node": node.pid}),
        ):
            load, began_s, executions = bench.drained(settings, load, records)
            ended_s = completions.wait_for(load, executions)
    return load.count / (ended_s - began_s), followed.us_a_task(load.count)["node"]


@contextmanager
def _scraping(settings: Settings) -> Iterator[None]:
    """Read the metrics every second while inside, where they are served."""
    ended = threading.Event()

    def scrape() -> None:
        url = f"http://127.0.0.1:{settings.observe.port}/metrics"
        while not ended.wait(_SCRAPE_EVERY_S):
            with urllib.request.urlopen(url, timeout=30) as answer:
                answer.read()

    if settings.observe.port is None:
        yield
        return
    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
