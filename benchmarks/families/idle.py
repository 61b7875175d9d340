"""idle: what partitions without a task cost the node that owns them, Kafka and Cassandra."""

import contextlib
import time
from collections.abc import Mapping
from http.client import HTTPConnection

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.bench import READY_S, Bench
from benchmarks.figures import Figure, Line
from benchmarks.processor_time import cpu_s
from tests.servers.ports import free_ports

MEASURES = ("idle",)
_PARTITIONS = (16, 256, 1_024)
_SETTLE_S = 15.0
"""First loads and reports after an assignment are over by then."""
_WATCHED_S = 30.0


def run(bench: Bench) -> list[Line]:
    """Take the measure if it is wanted."""
    if "idle" not in bench.wanted:
        return []
    return [line for count in _PARTITIONS for line in _watched(bench, count)]


def _watched(bench: Bench, partitions: int) -> list[Line]:
    (port,) = free_ports(1)
    with (
        bench.servers.installation(
            "idle", topic={"partitions": partitions}, observe={"port": port}
        ) as settings,
        bench.node(settings, 1) as (node, _),
    ):
        pids = bench.servers.pids(settings) | {"node": node.pid}
        time.sleep(_SETTLE_S)
        cpu, calls = {name: cpu_s(pid) for name, pid in pids.items()}, _calls(port)
        time.sleep(_WATCHED_S)
        spent = {name: (cpu_s(pid) or 0.0) - (cpu[name] or 0.0) for name, pid in pids.items()}
        made = {name: count - calls.get(name, 0.0) for name, count in _calls(port).items()}
    rates = {name: round(count / _WATCHED_S, 3) for name, count in made.items() if count}
    bench.say(f"{partitions:,} idle partitions: calls a second {rates}")
    lines = [
        Line(
            "idle",
            Figure.of([seconds / _WATCHED_S * 100]),
            f"% of a core, {name}, {partitions:,} partitions",
        )
        for name, seconds in spent.items()
    ]
    calls_line = Line(
        "idle",
        Figure.of([sum(rates.values())]),
        f"calls/s of the node, {partitions:,} partitions",
        detail={"calls_per_s": rates},
    )
    return [*lines, calls_line]


def _calls(port: int) -> Mapping[str, float]:
    """Return how many requests to store and log the node has made, by name."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=READY_S)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return {
        f"{sample.name.split('_')[1]} {sample.labels['call']}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in {"hourhand_store_call_seconds_count", "hourhand_log_call_seconds_count"}
    }
