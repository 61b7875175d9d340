"""The settings of one test on real servers: topic, group and keyspace that no other test has.

Decides names and addresses; it makes nothing on the servers.
"""

import uuid
from typing import Any

from scheduler import Settings
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

QUICK_GROUP = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 250}
"""Of tests that watch nodes go: the shortest session that brokers take by default."""


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
    return Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": partitions},
        group={"id": name, **(group or {})},
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        cassandra={
            "contact_points": tuple(cassandra.addresses),
            "port": cassandra.port,
            "keyspace": name,
        },
        **others,
    )
