"""Exact counts of pops through everything that can happen to the nodes, on real servers."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from examples.demo_doors.timers import POPS, READY_LINE, VARIABLES, Asked, Endpoint, make_timers
from examples.demo_doors.timing import wall_s
from examples.demo_stage.installation import node_variables
from examples.demo_stage.stage import Stage
from hourhand.scheduler import wiring
from hourhand.scheduler.demo.node import NodeProcess
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings

pytestmark = [pytest.mark.integration, pytest.mark.long]

TIMERS = 100 // POPS
INTERVAL_S = 6
"""Long enough that pops are left for each thing that happens."""
WAIT_S = 100.0
COMMAND = ("timers", "--port", "0")
IN_FLIGHT_S = 20.0
"""A callback is in flight from its start until its completion is durable, on a busy machine."""


@pytest.fixture
def stage(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> Iterator[Stage]:
    """An installation of its own, and no node left behind."""
    settings = own_settings(kafka_server, cassandra_server, "pops", group=QUICK_GROUP)
    wiring.migrate(settings)
    stage = Stage(Console(quiet=True), tmp_path, node_variables(settings))
    yield stage
    stage.stop_all()


def test_a_hundred_pops_come_whatever_happens_to_the_nodes(stage: Stage) -> None:
    """Scale-up, scale-down, loss of a node, loss of all: each (timer, number) comes, and again
    only where its callback was in flight at a kill, with the same number.
    """
    endpoint = Endpoint()
    kills_s: list[float] = []

    def seen() -> int:
        return len({(pop.opaque, pop.number) for pop in endpoint.pops})

    def wait_for(distinct: int) -> None:
        came = stage.wait_until(lambda: seen() >= distinct, WAIT_S)
        assert came, f"{seen()} of {distinct} pops came"

    def kill(node: NodeProcess) -> None:
        kills_s.append(wall_s())
        stage.kill(node)

    def start(count: int) -> None:
        stage.start(count, COMMAND, VARIABLES, READY_LINE)

    try:
        start(1)
        asked = make_timers(stage.nodes, endpoint.uri, TIMERS, (INTERVAL_S,), change=False)
        assert len(asked.due_s) == 100
        start(1)
        wait_for(25)
        stage.stop(stage.nodes[0])
        start(1)
        wait_for(45)
        kill(stage.nodes[0])
        wait_for(65)
        for node in tuple(stage.nodes):
            kill(node)
        start(1)
        wait_for(100)
    finally:
        endpoint.close()

    _judge(endpoint, asked, kills_s)


def _judge(endpoint: Endpoint, asked: Asked, kills_s: list[float]) -> None:
    """Find each pop, none early, and none again that no kill explains."""
    counted = Counter((pop.opaque, pop.number) for pop in endpoint.pops)
    assert counted.keys() == asked.due_s.keys()
    first_s: dict[tuple[str, int], float] = {}
    for opaque, number, at_s in endpoint.pops:
        first_s.setdefault((opaque, number), at_s)
        assert at_s >= asked.due_s[opaque, number]
    for repeated in (each for each, times in counted.items() if times > 1):
        hit = [kill for kill in kills_s if kill - IN_FLIGHT_S <= first_s[repeated] <= kill + 1]
        assert hit, f"{repeated} came {counted[repeated]} times, and no kill explains it"
