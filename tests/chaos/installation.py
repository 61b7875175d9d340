"""The servers of a chaos run, and the settings that make client and nodes use them.

Decides how many replicas hold what: three brokers and three Cassandra nodes hold everything
three times and answer when two have it; one of each holds it once.
"""

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.topics import topic_warnings
from hourhand.scheduler.configuration.door_settings import OutcomeSettings, RelaySettings
from hourhand.scheduler.configuration.settings import (
    CassandraSettings,
    GroupSettings,
    KafkaSettings,
    TopicSettings,
)
from tests.servers.cassandra import DATACENTER, CassandraServer
from tests.servers.kafka import KafkaServer, keep_session
from tests.servers.links import Links
from tests.servers.machine import Machine, compile_machine

GroupProtocol = Literal["classic", "consumer"]
PARTITIONS = 16
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 250
_GATHERED_FETCHES = {"fetch.min.bytes": "100000", "fetch.wait.max.ms": "200"}
"""Records of 200 ms are fetched together: with a few at a time, ten processes on two cores would
spend their time on waking each other."""


_LEADERS_STAY = {"auto.leader.rebalance.enable": "false"}
"""A broker that came back is given its partitions again, minutes later, in the middle of another
fault: the group's coordinator moves then, and all sessions begin again.  Only the plan strikes."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Servers that run, and a topic and a keyspace that nobody else uses."""

    kafka: KafkaServer
    cassandra: CassandraServer
    settings: Settings
    links: Links | None = None
    """The proxy that stands before them; none stands before servers that others use, too."""
    library: Path | None = None
    """Library that gives a process a clock and a disk of its own."""
    broker_machines: Sequence[Machine] = ()
    store_machines: Sequence[Machine] = ()


@contextlib.contextmanager
def open_servers(
    folder: Path, brokers: int, store_nodes: int, protocol: GroupProtocol
) -> Iterator[Installation]:
    """Start servers of our own, and end them at once: nobody needs their data any more.

    Raises CannotPreload where this machine cannot give them clocks and disks of their own.
    """
    folder.mkdir()
    library = compile_machine(folder)
    machines = [
        Machine(library, folder / f"machine-{number}", folder)
        for number in range(brokers + store_nodes)
    ]
    kafka = KafkaServer(
        folder / "kafka",
        brokers=brokers,
        properties=_LEADERS_STAY,
        proxied=True,
        machines=machines[:brokers],
    )
    cassandra = CassandraServer(
        folder / "cassandra", nodes=store_nodes, proxied=True, machines=machines[brokers:]
    )
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        links = stack.enter_context(Links())
        links.open(*kafka.fronts, *cassandra.fronts)
        for process in (*kafka.brokers, *cassandra.nodes):
            stack.callback(process.kill)
        for started in [pool.submit(kafka.start), pool.submit(cassandra.start)]:
            started.result()
        yield replace(
            install(kafka, cassandra, protocol),
            links=links,
            library=library,
            broker_machines=machines[:brokers],
            store_machines=machines[brokers:],
        )


def install(
    kafka: KafkaServer, cassandra: CassandraServer, protocol: GroupProtocol = "classic"
) -> Installation:
    """Make topics and keyspace on servers that run.

    Fails where several brokers would acknowledge what only one of them holds.
    """
    name = f"chaos-{uuid.uuid4().hex[:8]}"
    settings = Settings(
        log="kafka",
        store="cassandra",
        topic=TopicSettings(
            name=name,
            dead_letter=f"{name}-dead-letter",
            partitions=PARTITIONS,
            replication=len(kafka.brokers),
        ),
        group=GroupSettings(
            id=name,
            protocol=protocol,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        ),
        kafka=KafkaSettings(
            bootstrap_servers=kafka.bootstrap_servers,
            consumer_properties=_GATHERED_FETCHES,
        ),
        relay=RelaySettings(
            in_topic=f"{name}-in", out_topic=f"{name}-out", group_id=f"{name}-relay"
        ),
        outcomes=OutcomeSettings(topic=f"{name}-outcomes"),
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra.addresses),
            port=cassandra.port,
            keyspace=name.replace("-", "_"),
            replication={DATACENTER: len(cassandra.nodes)},
        ),
    )
    wiring.migrate(settings)
    for group_id in (name, settings.relay.group_id):
        group = settings.group.model_copy(update={"id": group_id})
        keep_session(kafka.bootstrap_servers, group)
    _make_known(kafka, settings)
    return Installation(kafka, cassandra, settings)


def _make_known(kafka: KafkaServer, settings: Settings) -> None:
    """Wait until every broker knows the topics, those of the relay too."""
    for topic in (settings.topic.name, settings.topic.dead_letter, settings.outcomes.topic):
        assert topic is not None, "a run has a topic of outcomes"
        kafka.wait_until_known(topic)
    warnings = topic_warnings(settings)
    assert not warnings, warnings
    wiring.create_relay_topics(settings)
    for topic in (settings.relay.in_topic, settings.relay.out_topic):
        kafka.wait_until_known(topic)


def node_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that give a node these settings."""
    return {
        "HOURHAND_LOG": settings.log,
        "HOURHAND_STORE": settings.store,
        **{
            f"HOURHAND_{group}__{name}".upper(): value
            if isinstance(value, str)
            else json.dumps(value)
            for group in ("topic", "group", "kafka", "cassandra", "relay", "outcomes")
            for name, value in getattr(settings, group)
            .model_dump(mode="json", exclude_defaults=True)
            .items()
        },
    }
