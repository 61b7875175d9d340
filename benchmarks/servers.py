"""The servers of one call, and the settings of installations that share nothing but them.

Every measure has a topic, a group and a keyspace of its own, removed when it is done, so that
none pays for what another left behind.
"""

import contextlib
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks.rivals import graphile_worker
from benchmarks.rivals.rival import RivalMissing
from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.configuration.settings_dicts import ClientSettingsDict
from tests.servers.cassandra import CassandraServer, cassandra_jars
from tests.servers.kafka import KafkaServer, kafka_jars
from tests.servers.postgres import BENCHMARK_OPTIONS, PostgresMissing, PostgresServer
from tests.servers.process import ServerFailed

PARTITIONS = 16
CLIENT: ClientSettingsDict = {"grace_ms": 600_000}
"""All tasks of a drain are due at its beginning, however long scheduling them takes."""
SEGMENTS_VARIABLE = "HOURHAND_CASSANDRA__COMPLETION_SEGMENTS"
"""Set to ``off``, a call measures without completion segments in Cassandra."""
KAFKA_OF_SHORT_PAUSES = ("-XX:+UseSerialGC", "-Xmn24m")
_CASSANDRA_OF_SHORT_PAUSES = ("-XX:+UseSerialGC", "-Xmn48m", "-Xms4g", "-Xmx4g")
"""With the collector that Java chooses on two cores a server stands still for tens of milliseconds
every few seconds: where the last thousandth is measured, that is the last thousandth.  Cassandra's
own scripts take a quarter of the memory for its heap; one of 1 GiB is full every other minute, and
collecting all of it takes half a second."""


@dataclass
class Servers:
    """The servers of a call; one is started when it is first asked for."""

    folder: Path
    kafka: KafkaServer
    cassandra: CassandraServer
    postgres: PostgresServer | None = None
    templates: set[str] = field(default_factory=set)
    """Databases that rivals made once, to be copied."""
    missing: set[str] = field(default_factory=set)
    """Rivals that cannot be run here although PostgreSQL is there, by name."""
    _names: Iterator[int] = field(default_factory=itertools.count)

    def name(self, what: str) -> str:
        """Return a name nobody else of this call has."""
        return f"{what}_{next(self._names)}"

    def pids(self, settings: Settings) -> dict[str, int]:
        """Return the processes an installation is served by, by name."""
        if settings.log != "kafka":
            return {}
        found = {"Kafka": self.kafka.brokers[0].pid, "Cassandra": self.cassandra.nodes[0].pid}
        return {name: pid for name, pid in found.items() if pid is not None}

    @contextlib.contextmanager
    def installation(self, what: str, **groups: dict[str, Any]) -> Iterator[Settings]:
        """Make topics and keyspace, and remove them; ``groups`` are added to the settings."""
        name = self.name(what)
        settings = self._settings(name, groups)
        wiring.migrate(settings)
        try:
            yield settings
        finally:
            self._remove(settings)

    @contextlib.contextmanager
    def of_short_pauses(self) -> Iterator["Servers"]:
        """Start a Kafka and a Cassandra whose collectors stop them for a moment only."""
        folder = self.folder / self.name("short-pauses")
        with (
            KafkaServer(folder / "kafka", java_options=KAFKA_OF_SHORT_PAUSES) as kafka,
            CassandraServer(
                folder / "cassandra", java_options=_CASSANDRA_OF_SHORT_PAUSES
            ) as cassandra,
        ):
            yield replace(self, kafka=kafka, cassandra=cassandra)

    @contextlib.contextmanager
    def as_up(self) -> Iterator["Servers"]:
        """Start a Kafka and a Cassandra as ``make up`` does."""
        folder = self.folder / self.name("as-up")
        with (
            KafkaServer(folder / "kafka") as kafka,
            CassandraServer(folder / "cassandra") as cassandra,
        ):
            yield replace(self, kafka=kafka, cassandra=cassandra)

    @contextlib.contextmanager
    def embedded(self, what: str, **groups: Any) -> Iterator[Settings]:
        """Name a folder for the embedded default, and remove it."""
        folder = self.folder / self.name(what)
        try:
            yield Settings(embedded={"folder": folder}, client=CLIENT, **groups)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _settings(self, name: str, groups: dict[str, Any]) -> Settings:
        group: Any = {"id": name, **groups.get("group", {})}
        topic: Any = {
            "name": name,
            "dead_letter": f"{name}-dead-letter",
            "partitions": PARTITIONS,
            **groups.get("topic", {}),
        }
        # As nodes do after half a minute by themselves, which these do not live for.
        segments: Any = os.environ.get(SEGMENTS_VARIABLE, "on")
        return Settings(
            log="kafka",
            store="cassandra",
            topic=topic,
            observe=groups.get("observe", {}),
            group=group,
            kafka={"bootstrap_servers": self.kafka.bootstrap_servers},
            cassandra={
                "contact_points": tuple(self.cassandra.addresses),
                "port": self.cassandra.port,
                "keyspace": name,
                "completion_segments": segments,
            },
            client=CLIENT,
            tree=groups.get("tree", {}),
        )

    def _remove(self, settings: Settings) -> None:
        admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
        topics = [settings.topic.name, settings.topic.dead_letter]
        for removed in admin.delete_topics(topics, operation_timeout=30).values():
            removed.result(30)
        connection = open_connection(settings.cassandra)
        try:
            keyspace = settings.cassandra.keyspace
            connection.session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}", timeout=60)
        finally:
            connection.cluster.shutdown()


@contextlib.contextmanager
def open_servers(folder: Path, *, cluster: bool = True, rivals: bool = True) -> Iterator[Servers]:
    """Start what is needed and stop it; without PostgreSQL there are no rivals, loudly."""
    shutil.rmtree(folder, ignore_errors=True)
    # Measured servers keep Java's own options, the optimising compiler among them.
    kafka = KafkaServer(folder / "kafka", java_options=())
    cassandra = CassandraServer(folder / "cassandra", java_options=())
    servers = Servers(folder, kafka, cassandra)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if rivals:
            servers.postgres = _rivals_server(folder, stack)
        if servers.postgres is not None:
            servers.missing |= missing_rivals()
        if cluster:
            # One after the other: two first runs of Maven would fetch the same plugin twice.
            kafka_jars()
            cassandra_jars()
            stack.callback(kafka.stop)
            stack.callback(cassandra.stop)
            with ThreadPoolExecutor(2) as pool:
                for started in [pool.submit(kafka.start), pool.submit(cassandra.start)]:
                    started.result()
        yield servers


def _rivals_server(folder: Path, stack: contextlib.ExitStack) -> PostgresServer | None:
    try:
        server = PostgresServer(folder / "postgres", BENCHMARK_OPTIONS)
        stack.callback(server.stop)
        server.start()
    except (PostgresMissing, ServerFailed) as error:
        sys.stderr.write(f"\n*** WITHOUT RIVALS: {error}\n*** Nothing is compared with them.\n\n")
        return None
    return server


def missing_rivals() -> set[str]:
    """Return the rivals that PostgreSQL is not enough for, and that are not there, by name."""
    try:
        graphile_worker.install()
    except RivalMissing as error:
        name = graphile_worker.NAME
        sys.stderr.write(f"\n*** WITHOUT {name}: {error}\n*** Nothing is compared with it.\n\n")
        return {name}
    return set()
