"""Connections whose other end has gone without a word: a node is soon at work over new ones.

As after a machine that lost its power, or a firewall that forgot.  The drivers would otherwise wait
for a minute and longer, once for each of their clients.
"""

import os
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourhand import Scheduler, Settings, Task, TaskExecutor
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import (
    CassandraSettings,
    EmbeddedSettings,
    GroupSettings,
    KafkaSettings,
    TopicSettings,
)
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.link_faults import Blight
from tests.servers.link_proxy import Front, Rule
from tests.servers.links import Links
from tests.servers.ports import free_ports
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]

PAST_THE_SESSION_S = 8.0
NOTICED_S = 60.0
"""Each client of Kafka's driver would notice after so long by itself, one after the other."""
STORE_NOTICED_S = 25.0
"""Cassandra's driver would notice after thirty to sixty seconds."""


@pytest.fixture
def links() -> Iterator[Links]:
    """The proxy."""
    with Links() as links:
        yield links


def break_off(links: Links, name: str, lasts_s: float) -> None:
    """Have all connections of this process go dead, and new ones for a while."""
    links.strike(Blight("half-open"), Rule([os.getpid()], [name], ["to", "from"]))
    threading.Event().wait(lasts_s)
    assert links.heal().connections > 0


def test_a_node_soon_works_again_over_new_connections_to_the_brokers(
    links: Links, tmp_path: Path
) -> None:
    """It left the group meanwhile; it joins, asks where partitions begin, reads and sends."""
    ran: set[str] = set()

    class Noting(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.add(task.uniqueness_key)

    kafka = KafkaServer(tmp_path / "kafka", proxied=True)
    links.open(*kafka.fronts)
    settings = Settings(
        log="kafka",
        store="embedded",
        kafka=KafkaSettings(bootstrap_servers=kafka.bootstrap_servers),
        topic=TopicSettings(partitions=2),
        group=GroupSettings(session_timeout_ms=6_000, heartbeat_interval_ms=500),
        embedded=EmbeddedSettings(folder=tmp_path / "folder"),
    )
    with kafka:
        wiring.migrate(settings)
        with Scheduler(settings, executor=Noting) as scheduler:
            scheduler.schedule_task(a_task("before")).result(60)
            until(lambda: "before" in ran, "the node does not work")

            break_off(links, "broker 1", PAST_THE_SESSION_S)

            sent = scheduler.schedule_task(a_task("after"))
            until(lambda: "after" in ran, "the node is stuck", timeout_s=NOTICED_S)
            sent.result(60)


def a_task(name: str) -> Task:
    """Return a task that is due."""
    return Task(ordering_id=name, scheduled_time=datetime.now(UTC), uniqueness_key=name)


def test_a_store_soon_answers_again_over_new_connections(
    links: Links, cassandra_server: CassandraServer
) -> None:
    """Until then requests time out."""
    [port] = free_ports(1)
    server = cassandra_server.addresses[0], cassandra_server.port
    links.open(Front("Cassandra", "127.0.0.1", port, *server))
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=("127.0.0.1",),
            port=port,
            keyspace=f"half_open_{uuid.uuid4().hex[:8]}",
            request_timeout_ms=1_000,
        ),
    )
    patient = settings.cassandra.model_copy(update={"request_timeout_ms": 15_000})
    migrate(settings.model_copy(update={"cassandra": patient}))
    stores = open_stores(settings)

    def answers() -> bool:
        return stores.ownership.find_watermark(0).exception(60) is None

    try:
        until(answers, "it does not answer")
        break_off(links, "Cassandra", 1.0)
        began_s = time.monotonic()
        assert not answers()

        until(answers, "it stays silent")

        assert time.monotonic() - began_s < STORE_NOTICED_S
    finally:
        stores.close()
