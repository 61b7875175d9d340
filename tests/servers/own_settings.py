"""The settings of one test on real servers: topic, group and keyspace that no other test has.

Decides names and addresses; it makes nothing on the servers.
"""

import uuid
from pathlib import Path
from typing import Any

from hourhand import Settings
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

QUICK_GROUP = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 250}
"""Of tests that kill nodes: the shortest session that brokers take by default."""
PATIENT_GROUP = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 250}
"""Of tests whose nodes go in order: no machine is so busy that one is taken for dead."""


def own_settings(
    kafka: KafkaServer,
    cassandra: CassandraServer,
    prefix: str,
    *,
    partitions: int = 4,
    group: dict[str, Any] | None = None,
    **others: Any,
) -> Settings:
    """Return settings on both servers, every name of them beginning with ``prefix``.

    ``group`` and ``others`` are given as to ``Settings``.
    """
    name = f"{prefix}_{uuid.uuid4().hex[:12]}"
    chosen: Any = {"id": name, **(group or {})}
    return Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": partitions},
        group=chosen,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        cassandra={
            "contact_points": tuple(cassandra.addresses),
            "port": cassandra.port,
            "keyspace": name,
        },
        **others,
    )


def set_options(settings: Settings, folder: Path) -> list[str]:
    """Return what a command line is given to find the installation of such settings.

    ``folder`` is for what the command keeps beside the servers.
    """
    cassandra = settings.cassandra
    lines = {
        "log": "kafka",
        "store": "cassandra",
        "topic.name": settings.topic.name,
        "topic.dead_letter": settings.topic.dead_letter,
        "topic.partitions": str(settings.topic.partitions),
        "group.id": settings.group.id,
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        "cassandra.contact_points": ",".join(cassandra.contact_points),
        "cassandra.port": str(cassandra.port),
        "cassandra.keyspace": cassandra.keyspace,
        "embedded.folder": str(folder),
    }
    if cassandra.datacenter:
        lines["cassandra.datacenter"] = cassandra.datacenter
    return [part for name, value in lines.items() for part in ("--set", f"{name}={value}")]
