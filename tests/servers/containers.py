"""The same servers as ``kafka`` and ``cassandra``, in containers, through testcontainers.

A container stands in for a server process: it is started, paused, killed and stopped by the same
calls, so a fixture may hand out either.  One broker and one node; clusters of three are started
from jars.  Each container is removed when its server stops, with its data.
"""

import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.servers.cassandra import CassandraServer
from tests.servers.engine import require_engine
from tests.servers.images import chosen_images
from tests.servers.kafka import KafkaServer
from tests.servers.process import ServerFailed, ServerProcess

_CLIENT_PORT = {"kafka": 9092, "cassandra": 9042}
_START_TIMEOUT_S = 180.0
_TAIL_LINES = 25

# testcontainers has a container of its own clear away what a killed test run left behind, from an
# image that must be pulled: where no registry answers, no test could start.
if "TESTCONTAINERS_RYUK_DISABLED" not in os.environ:
    testcontainers_config.ryuk_disabled = True

_PROTOCOLS = "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT"


class ServerContainer(ServerProcess):
    """One server in a container, published on a port of this machine that is chosen here."""

    def __init__(
        self,
        name: str,
        folder: Path,
        image: str,
        *,
        environment: Mapping[str, str],
        ports: Mapping[int, int],
    ) -> None:
        """``ports`` maps those of the container to those of this machine."""
        super().__init__(name, folder)
        self._image = image
        self._environment = dict(environment)
        self._ports = dict(ports)
        self._running: DockerContainer | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the container's first process while it is alive, else None."""
        if self._running is None:
            return None
        try:
            wrapped = self._running.get_wrapped_container()
            wrapped.reload()
        except OSError:
            # The client's errors are all of this kind; somebody else removed the container.
            return None
        return int(wrapped.attrs["State"]["Pid"]) or None

    def start(
        self, command: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """Run the image; a no-op while the container is alive.  A command is the image's."""
        if self.pid is not None:
            return
        self._remove()
        container = DockerContainer(self._image).with_envs(
            **self._environment, **(environment or {})
        )
        for inside, outside in self._ports.items():
            container.with_bind_ports(inside, outside)
        try:
            self._running = container.start()
        except OSError as error:
            raise ServerFailed(f"{self.name} cannot be started: {error}") from None

    def stop(self, timeout_s: float = 30.0) -> None:
        """End it, at first politely, and remove the container with what it stored."""
        super().stop(timeout_s)
        self._remove()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its first process; a no-op where it is not alive."""
        if self._running is not None and self.pid is not None:
            self._running.get_wrapped_container().kill(signal=int(number))

    def pause(self) -> None:
        """Freeze all of the container; when it returns, nothing in it runs."""
        # Its threads may be those of another machine, which nobody here can look at.
        if self._running is not None and self.pid is not None:
            self._running.get_wrapped_container().pause()

    def resume(self) -> None:
        """Let a frozen container go on; a no-op where it is not frozen."""
        if self._running is None or self.pid is None:
            return
        wrapped = self._running.get_wrapped_container()
        wrapped.reload()
        if wrapped.status == "paused":
            wrapped.unpause()

    def log_tail(self) -> str:
        """Return the last lines the container printed."""
        if self._running is None:
            return ""
        printed = self._running.get_wrapped_container().logs(tail=_TAIL_LINES)
        return f"--- {self._image}\n{printed.decode(errors='replace')}"

    def _remove(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None


class KafkaContainerServer(KafkaServer):
    """One broker in a container, with the properties that one from jars has."""

    def __init__(self, folder: Path) -> None:
        require_engine()
        _quieten()
        super().__init__(folder)
        (port,) = self._ports
        self.brokers: list[ServerProcess] = [
            ServerContainer(
                "Kafka broker in a container",
                folder,
                chosen_images()["KAFKA_IMAGE"],
                environment={"CLUSTER_ID": self._cluster_id, **self._variables(port)},
                ports={_CLIENT_PORT["kafka"]: port},
            )
        ]

    def start(self) -> None:
        """Start the container and wait until the broker answers."""
        self.start_broker(1)
        self.wait_until_ready(_START_TIMEOUT_S)

    def start_broker(self, number: int) -> None:
        """Start the broker without waiting for it; a no-op while it runs."""
        self.brokers[number - 1].start(())

    def _variables(self, port: int) -> dict[str, str]:
        """Return the image's variables for what a broker from jars has in its properties."""
        inside = _CLIENT_PORT["kafka"]
        properties = {
            **self._configuration(1),
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": f"PLAINTEXT://:{inside},INSIDE://:9094,CONTROLLER://:9093",
            # Clients are told where the port is published, and find it there.  The broker, which
            # marks the ends of transactions over a connection to itself, would not.
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},INSIDE://localhost:9094",
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": "INSIDE",
            "log.dirs": "/var/lib/kafka/data",
        }
        return {
            "KAFKA_" + name.replace(".", "_").upper(): value for name, value in properties.items()
        }


class CassandraContainerServer(CassandraServer):
    """One node in a container, in the data centre that one from jars is in."""

    def __init__(self, folder: Path) -> None:
        require_engine()
        _quieten()
        super().__init__(folder)
        self.nodes: list[ServerProcess] = [
            ServerContainer(
                "Cassandra node in a container",
                folder,
                chosen_images()["CASSANDRA_IMAGE"],
                environment={
                    "CASSANDRA_CLUSTER_NAME": "hourhand-tests",
                    "MAX_HEAP_SIZE": "1G",
                    "HEAP_NEWSIZE": "640M",
                    # One node has nobody to hear of before it starts.
                    "JVM_EXTRA_OPTS": "-Dcassandra.ring_delay_ms=0"
                    " -Dcassandra.skip_wait_for_gossip_to_settle=0",
                },
                ports={_CLIENT_PORT["cassandra"]: self.port},
            )
        ]

    def start_node(self, number: int) -> None:
        """Start the container without waiting for it; a no-op while it runs."""
        self.nodes[number - 1].start(())


def _quieten() -> None:
    """Keep each start off the console: fixtures say themselves what could not be started."""
    logging.getLogger("testcontainers").setLevel(logging.WARNING)
