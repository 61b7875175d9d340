"""A real Cassandra, one node or up to three, from its Maven jars.

Nodes listen on 127.0.0.1, 127.0.0.2 and 127.0.0.3 with the same ports; each keeps data, log
and pid file in a folder of its own, so a cluster survives ``stop`` and ``start`` with its
tables.  The version is pinned here.  It never touches a process it did not start.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cassandra import DriverException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import WhiteListRoundRobinPolicy

from tests.servers.link_proxy import Front
from tests.servers.machine import Machine
from tests.servers.maven import class_path, fetch_jars, require_tool
from tests.servers.ports import free_ports
from tests.servers.process import (
    CALM_TIMERS,
    SHORT_LIVED,
    ServerProcess,
    accepts_connections,
)

CASSANDRA_VERSION = os.environ.get("TEST_CASSANDRA_VERSION", "5.0.5")
"""Another one is named to try it: ``make test-cassandra-old``."""
DATACENTER = "datacenter1"
_NODES_MAX = 3
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 120.0
"""One that is killed forgets what it answered last, and a busy machine lets it stop slowly."""
_CONNECT_TIMEOUT_S = 5.0
_STATE_FILE = "cassandra.json"
_PATIENCE = dict.fromkeys(
    (
        "read_request_timeout",
        "range_request_timeout",
        "write_request_timeout",
        "cas_contention_timeout",
    ),
    "30s",
)
"""A node alone waits for itself.  By default it gives up a write after two seconds, which a busy
machine takes for one of 15 MB; nodes of a cluster keep that, as some of them are killed."""
# Much memory for what is new: a collection stops a node for as long as others keep the cores busy.
_SHORT_LIVED = (*SHORT_LIVED, "-Xmn640m")
NEVER_KILLED = (*_SHORT_LIVED, "-Dcassandra.test.flush_local_schema_changes=false")
"""Java options of a node that no test kills: it does not write the tables of its schema to disk at
each change, which took most of the time of a migration.  One that is killed would not know its
tables afterwards."""

_EXPORTS = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
JAVA_OPTIONS = (
    "-Djdk.attach.allowAttachSelf=true",
    *(f"--add-exports={each}=ALL-UNNAMED" for each in _EXPORTS),
    *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENS),
)
"""What Java must be told wherever Cassandra runs."""

_LOGBACK = """\
<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d{{ISO8601}} %-5level %logger{{0}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def cassandra_jars() -> Path:
    """Return the folder with Cassandra's jars, fetching them the first time."""
    return fetch_jars("cassandra", (f"org.apache.cassandra:cassandra-all:{CASSANDRA_VERSION}",))


class CassandraServer:
    """A cluster of ``nodes`` nodes in ``folder``; a context manager that starts and stops it.

    A folder that holds a cluster already is taken up as it is: same ports, same data, and
    nodes that still run are not started twice.  ``configuration`` is added to every node's,
    and ``client`` to what the driver is told when a node is asked whether it is ready.
    ``datacenters`` names that of each node, where they are not all in one.
    ``java_options`` are for a measured server: the default spares a busy machine.
    Of a ``proxied`` cluster, clients and nodes know the addresses of ``fronts`` alone.
    Each node runs on one of ``machines``, where there are any.
    Raises ServerFailed where a node does not come up within three minutes, with the end of
    its log.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        datacenters: Sequence[str] = (),
        configuration: Mapping[str, object] | None = None,
        client: Mapping[str, Any] | None = None,
        java_options: Sequence[str] = _SHORT_LIVED,
        proxied: bool = False,
        machines: Sequence[Machine] = (),
    ) -> None:
        self._machines = machines
        self._java_options = tuple(java_options)
        self._datacenters = tuple(datacenters)
        self._added = dict(configuration or {})
        self._client = dict(client or {})
        if not 1 <= nodes <= _NODES_MAX:
            raise ValueError(f"{nodes} nodes asked for, 1 to {_NODES_MAX} fit on one machine")
        self._folder = folder.resolve()
        state = self._taken_up() or self._new_state(nodes)
        self.port: int = state["port"]
        """Where clients connect, on every address."""
        self._storage_port: int = state["storage_port"]
        numbers = range(1, state["nodes"] + 1)
        self._own_addresses = [f"127.0.0.{number}" for number in numbers]
        self.addresses = [f"127.0.{int(proxied)}.{number}" for number in numbers]
        """The nodes' addresses, as a client's contact points."""
        self.nodes = [
            ServerProcess(
                f"Cassandra node {address}",
                self._node_folder(number),
                logs=(self._node_folder(number) / "system.log",),
            )
            for number, address in enumerate(self.addresses, 1)
        ]

    @property
    def fronts(self) -> list[Front]:
        """Ports that have to listen before a proxied cluster, by the name of the node."""
        pairs = enumerate(zip(self.addresses, self._own_addresses, strict=True), 1)
        return [
            Front(f"Cassandra {number}", known, port, own, port)
            for number, (known, own) in pairs
            for port in (self.port, self._storage_port)
            if known != own
        ]

    def start(self) -> None:
        """Start what does not run yet, one node after another, until all know each other."""
        for number in range(1, len(self.nodes) + 1):
            self.start_node(number)
            self.wait_until_ready(number)

    def start_node(self, number: int) -> None:
        """Start node ``number`` (from 1) without waiting for it; a no-op while it runs."""
        folder = self._node_folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "logback.xml").write_text(_LOGBACK.format(log=folder / "system.log"))
        if self._datacenters:
            where = f"dc={self._datacenters[number - 1]}\nrack=rack1\n"
            (folder / "cassandra-rackdc.properties").write_text(where)
        # JSON is YAML, and needs no quoting rules for paths.
        (folder / "cassandra.yaml").write_text(json.dumps(self._configuration(number), indent=1))
        variables = self._machines[number - 1].variables if self._machines else None
        self.nodes[number - 1].start(self._command(number), variables)

    def wait_until_ready(self, number: int, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until node ``number`` answers and knows ``number`` nodes or more, bounded."""
        self.nodes[number - 1].wait_until(lambda: self._nodes_seen_by(number) >= number, timeout_s)

    def stop(self) -> None:
        """Stop every node; data stays.  A no-op where none runs."""
        for node in self.nodes:
            node.stop(_STOP_TIMEOUT_S)

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

    def _nodes_seen_by(self, number: int) -> int:
        """Return how many nodes that node knows; 0 where it does not answer yet."""
        address = self.addresses[number - 1]
        if not accepts_connections(self._own_addresses[number - 1], self.port):
            return 0
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([address]))
        cluster = Cluster(
            [address],
            port=self.port,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=_CONNECT_TIMEOUT_S,
            **self._client,
        )
        try:
            with _silenced("cassandra"):
                session = cluster.connect()
                rows = (
                    session.execute("SELECT peer FROM system.peers_v2").all()
                    if (len(self.nodes) > 1)
                    else []
                )
            return 1 + len(rows)
        except (DriverException, NoHostAvailable):
            return 0
        finally:
            cluster.shutdown()

    def _node_folder(self, number: int) -> Path:
        return self._folder / f"node-{number}"

    def _taken_up(self) -> Any:
        path = self._folder / _STATE_FILE
        return json.loads(path.read_text()) if path.is_file() else None

    def _new_state(self, nodes: int) -> dict[str, int]:
        port, storage_port = free_ports(2)
        state = {"nodes": nodes, "port": port, "storage_port": storage_port}
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _STATE_FILE).write_text(json.dumps(state))
        return state

    def _command(self, number: int) -> list[str]:
        folder, jars = self._node_folder(number), cassandra_jars()
        # Nodes that join need to hear of the others first; the first one has nobody to hear.
        gossip = ["-Dcassandra.ring_delay_ms=0", "-Dcassandra.skip_wait_for_gossip_to_settle=0"]
        if number > 1:
            gossip = ["-Dcassandra.ring_delay_ms=3000"]
        return [
            *CALM_TIMERS,
            require_tool("java"),
            "-Xms1g",
            "-Xmx1g",
            *self._java_options,
            f"-javaagent:{next(jars.glob('jamm-*.jar'))}",
            f"-Dcassandra.config={(folder / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={folder}",
            f"-Dlogback.configurationFile={folder / 'logback.xml'}",
            *gossip,
            *JAVA_OPTIONS,
            "-cp",
            class_path(jars, folder),
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def _configuration(self, number: int) -> dict[str, object]:
        # A seed in each data centre, so that one can start again without the other.
        firsts = {each: self._datacenters.index(each) for each in self._datacenters} or {"": 0}
        seeds = [f"{self.addresses[first]}:{self._storage_port}" for first in firsts.values()]
        return {
            **cassandra_configuration(self._node_folder(number), ",".join(seeds)),
            "listen_address": self._own_addresses[number - 1],
            "broadcast_address": self.addresses[number - 1],
            "rpc_address": self._own_addresses[number - 1],
            "broadcast_rpc_address": self.addresses[number - 1],
            "storage_port": self._storage_port,
            "native_transport_port": self.port,
            "endpoint_snitch": "GossipingPropertyFileSnitch"
            if self._datacenters
            else "SimpleSnitch",
            **(_PATIENCE if len(self.addresses) == 1 else {}),
            **self._added,
        }


def cassandra_configuration(folder: Path, seeds: str) -> dict[str, object]:
    """Return what cassandra.yaml needs of a node in ``folder``, except for its own addresses."""
    return {
        "cluster_name": "hourhand-tests",
        "num_tokens": 16,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "data_file_directories": [str(folder / "data")],
        "commitlog_directory": str(folder / "commitlog"),
        "hints_directory": str(folder / "hints"),
        "saved_caches_directory": str(folder / "saved_caches"),
        "cdc_raw_directory": str(folder / "cdc"),
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": seeds}],
            }
        ],
        "auto_snapshot": False,
    }


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    """Keep a logger quiet: a node that does not answer yet is what is being waited for."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
