"""A real Kafka, one broker or several, in KRaft mode, from its Maven jars.

Each broker is controller too and keeps data, log and pid file in a folder of its own, so a
cluster survives ``stop`` and ``start`` with its topics.  The version is pinned here.
"""

import base64
import json
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from hourhand.scheduler.configuration.settings import GroupSettings
from tests.servers.link_proxy import Front
from tests.servers.machine import Machine
from tests.servers.maven import class_path, fetch_jars, require_tool
from tests.servers.ports import free_ports
from tests.servers.process import (
    SHORT_LIVED,
    ServerFailed,
    ServerProcess,
    accepts_connections,
)
from tests.waiting import until

KAFKA_VERSION = "4.1.0"
_LOG4J_VERSION = "2.24.3"
_HOST = "127.0.0.1"
_START_TIMEOUT_S = 180.0
_TOOL_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 2.0
_STATE_FILE = "kafka.json"
_LOG4J_CONFIGURATION = Path(__file__).with_name("log4j2.properties")


def kafka_jars() -> Path:
    """Return the folder with Kafka's jars, fetching them the first time."""
    return fetch_jars(
        "kafka",
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J_VERSION}",
            f"org.apache.logging.log4j:log4j-core:{_LOG4J_VERSION}",
        ),
    )


def kafka_tool(
    tool: str, *arguments: str, standard_input: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run one of Kafka's own tools, named by its Java class, and return what it printed.

    For example ``kafka_tool("org.apache.kafka.tools.ConsoleProducer", "--topic", …)``.
    Raises CalledProcessError where it fails and TimeoutExpired after a minute.
    """
    jars = kafka_jars()
    return subprocess.run(
        [require_tool("java"), "-Xmx256m", *SHORT_LIVED, "-cp", class_path(jars), tool, *arguments],
        input=standard_input if standard_input is not None else "",
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT_S,
        check=True,
    )


def keep_session(bootstrap_servers: str, group: GroupSettings) -> None:
    """Have brokers keep a group's session and heartbeats as its settings say, under KIP-848."""
    configure(
        bootstrap_servers,
        ResourceType.GROUP,
        group.id,
        {
            "consumer.session.timeout.ms": str(group.session_timeout_ms),
            "consumer.heartbeat.interval.ms": str(group.heartbeat_interval_ms),
        },
    )


def configure(
    bootstrap_servers: str, kind: ResourceType, name: str, values: Mapping[str, str]
) -> None:
    """Change what a topic or a group is configured as; when it returns, the broker goes by it.

    Raises AssertionError where it does not within a minute.
    """
    entries = [
        ConfigEntry(each, value, incremental_operation=AlterConfigOpType.SET)
        for each, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(_TOOL_TIMEOUT_S)
    # The controller has answered; the broker learns of it a moment later.
    until(lambda: values.items() <= _configured(admin, resource).items(), f"{name} stays as it was")


def _configured(admin: AdminClient, resource: ConfigResource) -> dict[str, Any]:
    told = admin.describe_configs([resource])[resource].result(_TOOL_TIMEOUT_S)
    return {name: entry.value for name, entry in told.items()}


class KafkaServer:
    """A cluster of ``brokers`` brokers in ``folder``; a context manager that starts and stops it.

    ``properties`` are added to every broker's.  ``listeners`` are further doors of broker 1, by
    name (letters only), each with its security protocol; ``address`` says where one is.
    Of a ``proxied`` cluster, clients and brokers know the ports of ``fronts`` alone.
    Each broker runs on one of ``machines``, where there are any.
    A folder that holds a cluster already is taken up as it is: same ports, same data, and
    brokers that still run are not started twice.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        java_options: Sequence[str] = SHORT_LIVED,
        proxied: bool = False,
        machines: Sequence[Machine] = (),
    ) -> None:
        self._machines = machines
        self._java_options = tuple(java_options)
        self._folder = folder.resolve()
        self._properties = dict(properties or {})
        self._listeners = dict(listeners or {})
        state = self._taken_up() or self._new_state(brokers, proxied=proxied)
        self._listener_ports: dict[str, int] = state.get("listener_ports", {})
        self._cluster_id: str = state["cluster_id"]
        self._ports: list[int] = state["ports"]
        self._controller_ports: list[int] = state["controller_ports"]
        self._known_ports: list[int] = state.get("proxy_ports", self._ports)
        self._known_controller_ports = state.get("proxy_controller_ports", self._controller_ports)
        self.brokers = [
            ServerProcess(
                f"Kafka broker {number}",
                self._broker_folder(number),
                logs=(self._broker_folder(number) / "server.log",),
            )
            for number in range(1, len(self._ports) + 1)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, as a client's ``bootstrap.servers``."""
        return ",".join(f"{_HOST}:{port}" for port in self._known_ports)

    @property
    def fronts(self) -> list[Front]:
        """Ports that have to listen before a proxied cluster, by the name of the broker."""
        pairs = (
            *zip(self._known_ports, self._ports, strict=True),
            *zip(self._known_controller_ports, self._controller_ports, strict=True),
        )
        return [
            Front(f"broker {place % len(self._ports) + 1}", _HOST, known, _HOST, port)
            for place, (known, port) in enumerate(pairs)
            if known != port
        ]

    def address(self, listener: str) -> str:
        """Return where one of the further listeners is, as ``bootstrap.servers``."""
        return f"{_HOST}:{self._listener_ports[listener]}"

    def start(self) -> None:
        """Start what does not run yet and wait until all brokers answer as one cluster."""
        java = require_tool("java")
        jars = kafka_jars()
        for number in range(1, len(self.brokers) + 1):
            self._format(java, jars, number)
        for number in range(1, len(self.brokers) + 1):
            self.start_broker(number)
        for broker in self.brokers:
            broker.wait_until(self._answers, _START_TIMEOUT_S)

    def start_broker(self, number: int) -> None:
        """Start broker ``number`` (from 1) without waiting for it; a no-op while it runs."""
        folder = self._broker_folder(number)
        self.brokers[number - 1].start(
            [
                require_tool("java"),
                "-Xms512m",
                "-Xmx512m",
                *self._java_options,
                f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
                f"-Dserver.log={folder / 'server.log'}",
                "-cp",
                class_path(kafka_jars()),
                "kafka.Kafka",
                str(folder / "server.properties"),
            ],
            self._machines[number - 1].variables if self._machines else None,
        )

    def wait_until_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until all brokers are in the cluster again, bounded; raises ServerFailed."""
        for broker in self.brokers:
            broker.wait_until(self._answers, timeout_s)

    def wait_until_in_sync(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until every replica of every topic is in sync, bounded; raises ServerFailed."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        self.brokers[0].wait_until(partial(_holds, _is_in_sync, admin), timeout_s)

    def wait_until_members(self, group: str, count: int, timeout_s: float) -> None:
        """Wait until a consumer group has so many members, bounded; raises ServerFailed."""

        def complete(admin: AdminClient) -> bool:
            described = admin.describe_consumer_groups([group], request_timeout=_ANSWER_TIMEOUT_S)
            return len(described[group].result(_TOOL_TIMEOUT_S).members) == count

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        self.brokers[0].wait_until(partial(_holds, complete, admin), timeout_s)

    def coordinator_of(self, group: str) -> int:
        """Return the number of the broker that coordinates a consumer group."""
        admin = self._admin()
        described = admin.describe_consumer_groups([group], request_timeout=_TOOL_TIMEOUT_S)
        return int(described[group].result(_TOOL_TIMEOUT_S).coordinator.id)

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic; when it returns, every broker knows it and who leads its partitions."""
        admin = self._admin()
        admin.create_topics([topic])[topic.topic].result(_TOOL_TIMEOUT_S)
        self.wait_until_known(topic.topic)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; when it returns, no broker knows it."""
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(_TOOL_TIMEOUT_S)
        self._wait_until_all(lambda admin: _leaders(admin, topic) is None)

    def wait_until_known(self, topic: str) -> None:
        """Wait until every broker knows a topic and who leads each of its partitions.

        The controller answers before they do.
        """
        self._wait_until_all(lambda admin: -1 not in (_leaders(admin, topic) or [-1]))

    def stop(self) -> None:
        """Stop every broker; data stays.  A no-op where none runs."""
        for broker in self.brokers:
            broker.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _admin(self) -> AdminClient:
        """Open a client; what it was asked fails when it is freed."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def _wait_until_all(self, holds: Callable[[AdminClient], bool]) -> None:
        """Wait until something holds at every broker."""
        for broker, port in zip(self.brokers, self._ports, strict=True):
            # A client that knows one address asks that broker, and connects to no other.
            admin = AdminClient({"bootstrap.servers": f"{_HOST}:{port}", "log_level": 0})
            broker.wait_until(partial(_holds, holds, admin), _START_TIMEOUT_S)

    def _answers(self) -> bool:
        if not all(accepts_connections(_HOST, port) for port in self._ports):
            return False
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            known = admin.list_topics(timeout=_ANSWER_TIMEOUT_S).brokers
        except KafkaException:
            return False
        return len(known) == len(self.brokers)

    def _broker_folder(self, number: int) -> Path:
        return self._folder / f"broker-{number}"

    def _taken_up(self) -> Any:
        path = self._folder / _STATE_FILE
        return json.loads(path.read_text()) if path.is_file() else None

    def _new_state(self, brokers: int, *, proxied: bool) -> dict[str, Any]:
        ports = free_ports(2 * brokers + len(self._listeners))
        proxies = free_ports(2 * brokers) if proxied else []
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        state = {
            # The storage tool takes a leading dash for an option.
            "cluster_id": cluster_id.replace("-", "A"),
            "ports": ports[:brokers],
            "controller_ports": ports[brokers : 2 * brokers],
            "listener_ports": dict(zip(self._listeners, ports[2 * brokers :], strict=True)),
        }
        if proxied:
            state["proxy_ports"] = proxies[:brokers]
            state["proxy_controller_ports"] = proxies[brokers:]
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _STATE_FILE).write_text(json.dumps(state))
        return state

    def _format(self, java: str, jars: Path, number: int) -> None:
        """Write the broker's configuration and, once, the cluster's identity to its storage."""
        folder = self._broker_folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(_LOG4J_CONFIGURATION.read_text())
        properties = folder / "server.properties"
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._configuration(number).items())
        )
        if (folder / "data" / "meta.properties").exists():
            return
        formatted = subprocess.run(
            [
                java,
                *SHORT_LIVED,
                f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
                f"-Dserver.log={folder / 'server.log'}",
                "-cp",
                class_path(jars),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                self._cluster_id,
                "-c",
                str(properties),
            ],
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=False,
        )
        if formatted.returncode:
            raise ServerFailed(f"Kafka's storage tool failed:\n{formatted.stderr[-2000:]}")

    def _configuration(self, number: int) -> dict[str, str]:
        replicas = min(3, len(self._ports))
        addresses, protocols = self._doors(number, self._ports)
        advertised, _ = self._doors(number, self._known_ports)
        controller_port = self._controller_ports[number - 1]
        voters = ",".join(
            f"{node}@{_HOST}:{each}" for node, each in enumerate(self._known_controller_ports, 1)
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{addresses},CONTROLLER://{_HOST}:{controller_port}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._broker_folder(number) / "data"),
            "auto.create.topics.enable": "false",
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.replication.factor": str(replicas),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
            "transaction.state.log.num.partitions": "4",
            # Tests watch memberships expire; the broker's own floor of 6 s would slow them.
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.initial.rebalance.delay.ms": "0",
            **self._properties,
        }

    def _doors(self, number: int, ports: Sequence[int]) -> tuple[str, str]:
        """Return the listeners clients may use, and the protocol of each, as Kafka writes them."""
        doors = {"PLAINTEXT": (ports[number - 1], "PLAINTEXT")}
        if number == 1:
            doors |= {
                name: (self._listener_ports[name], protocol)
                for name, protocol in self._listeners.items()
            }
        addresses = ",".join(f"{name}://{_HOST}:{port}" for name, (port, _) in doors.items())
        return addresses, ",".join(f"{name}:{protocol}" for name, (_, protocol) in doors.items())


def _holds(holds: Callable[[AdminClient], bool], admin: AdminClient) -> bool:
    try:
        return holds(admin)
    except KafkaException:
        return False


def _is_in_sync(admin: AdminClient) -> bool:
    topics = admin.list_topics(timeout=_ANSWER_TIMEOUT_S).topics.values()
    return all(
        len(each.isrs) == len(each.replicas)
        for topic in topics
        for each in topic.partitions.values()
    )


def _leaders(admin: AdminClient, topic: str) -> list[int] | None:
    """Return who leads each partition, -1 where nobody does; None where the topic is not known."""
    # The broker is asked for all topics: the driver remembers for a while the one it was asked for.
    found = admin.list_topics(timeout=_ANSWER_TIMEOUT_S).topics.get(topic)
    if found is None or found.error is not None:
        return None
    return [partition.leader for partition in found.partitions.values()]
