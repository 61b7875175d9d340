"""The servers of a run, and its own parts of them: two topics and a keyspace.

Servers named by the environment come first, then those of ``make up``, else one of each is
started and stopped again.  Everything made on servers that stay is removed at the end.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from cassandra.cluster import Cluster
from confluent_kafka.admin import AdminClient

from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import (
    CassandraSettings,
    GroupSettings,
    KafkaSettings,
    TopicSettings,
)
from tests.servers.__main__ import STATE_FILE, environment
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

Assignor = Literal["cooperative-sticky", "range", "roundrobin"]

PARTITIONS = 16
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 250
_SERVERS = "HOURHAND_KAFKA__BOOTSTRAP_SERVERS"
_POINTS = "HOURHAND_CASSANDRA__CONTACT_POINTS"
_PORT = "HOURHAND_CASSANDRA__PORT"


@contextlib.contextmanager
def open_installation(
    folder: Path, assignor: Assignor, say: Callable[[str], None]
) -> Iterator[Settings]:
    """Yield settings of topics and a keyspace that nobody else uses."""
    with _servers(folder, say) as variables:
        settings = _settings(variables, assignor)
        wiring.migrate(settings)
        try:
            yield settings
        finally:
            remove(settings)


@contextlib.contextmanager
def _servers(folder: Path, say: Callable[[str], None]) -> Iterator[Mapping[str, str]]:
    if _SERVERS in os.environ and _POINTS in os.environ:
        say("servers: those of the environment")
        yield os.environ
        return
    if STATE_FILE.is_file():
        say("servers: those of `make up`")
        yield json.loads(STATE_FILE.read_text())["environment"]
        return
    say("servers: starting Kafka and Cassandra (half a minute; `make up` keeps them running)")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        kafka, cassandra = KafkaServer(folder / "kafka"), CassandraServer(folder / "cassandra")
        stack.callback(kafka.stop)
        stack.callback(cassandra.stop)
        for started in [pool.submit(kafka.start), pool.submit(cassandra.start)]:
            started.result()
        yield environment(kafka, cassandra)


def _settings(variables: Mapping[str, str], assignor: Assignor) -> Settings:
    name = f"demo-{uuid.uuid4().hex[:8]}"
    return Settings(
        log="kafka",
        store="cassandra",
        topic=TopicSettings(
            name=name, dead_letter=f"{name}-dead-letter", partitions=PARTITIONS, replication=1
        ),
        group=GroupSettings(
            id=name,
            assignor=assignor,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        ),
        kafka=KafkaSettings(bootstrap_servers=variables[_SERVERS]),
        cassandra=CassandraSettings(
            contact_points=tuple(json.loads(variables[_POINTS])),
            port=int(variables.get(_PORT, "9042")),
            keyspace=name.replace("-", "_"),
        ),
    )


def node_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that give a node these settings."""
    return {
        "HOURHAND_LOG": settings.log,
        "HOURHAND_STORE": settings.store,
        "HOURHAND_TOPIC__NAME": settings.topic.name,
        "HOURHAND_TOPIC__DEAD_LETTER": settings.topic.dead_letter,
        "HOURHAND_TOPIC__PARTITIONS": str(settings.topic.partitions),
        "HOURHAND_GROUP__ID": settings.group.id,
        "HOURHAND_GROUP__ASSIGNOR": settings.group.assignor,
        "HOURHAND_GROUP__SESSION_TIMEOUT_MS": str(settings.group.session_timeout_ms),
        "HOURHAND_GROUP__HEARTBEAT_INTERVAL_MS": str(settings.group.heartbeat_interval_ms),
        _SERVERS: settings.kafka.bootstrap_servers,
        _POINTS: json.dumps(settings.cassandra.contact_points),
        _PORT: str(settings.cassandra.port),
        "HOURHAND_CASSANDRA__KEYSPACE": settings.cassandra.keyspace,
    }


@contextlib.contextmanager
def open_cassandra(settings: Settings) -> Iterator[Cluster]:
    """Yield the driver's own cluster: the audit does not look through the engine's eyes."""
    cluster = Cluster(list(settings.cassandra.contact_points), port=settings.cassandra.port)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def remove(settings: Settings) -> None:
    """Delete what these settings name: two topics and a keyspace."""
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for future in admin.delete_topics([settings.topic.name, settings.topic.dead_letter]).values():
        future.result(timeout=30)
    with open_cassandra(settings) as cluster:
        cluster.connect().execute(f"DROP KEYSPACE {settings.cassandra.keyspace}", timeout=60)
