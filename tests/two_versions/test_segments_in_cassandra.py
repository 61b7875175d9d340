"""Nodes that do not read completion segments beside nodes that write them, and the way back."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hourhand import SchedulerClient, Settings, Task
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.runtime.every_node import LOOK_MS, SETTLED_MS
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.tidy.source import ROOT
from tests.two_versions.versions import BEFORE_SEGMENTS, NodeProcess, notes_in, unpacked, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.long]

BURST = 600
_PAST_THE_START_S = (SETTLED_MS + 2 * LOOK_MS) / 1000
_OPENS_WITHIN_S = 60.0


class Bursts:
    """Schedules many tasks that are due at once, and waits until they ran."""

    def __init__(self, client: SchedulerClient, folder: Path) -> None:
        self._client, self._folder = client, folder
        self.tasks: list[Task] = []

    def run(self) -> None:
        """Schedule one more burst."""
        now, first = datetime.now(UTC), len(self.tasks)
        self.tasks += [
            Task(
                ordering_id=f"customer-{number}",
                scheduled_time=now,
                uniqueness_key=f"{number:05d}",
                data={"key": f"{number:05d}"},
            )
            for number in range(first, first + BURST)
        ]
        self._client.schedule_tasks(self.tasks[first:]).raise_if_rejected()
        wait_for(self._folder, [task.uniqueness_key for task in self.tasks[first:]])

    def run_until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Run bursts until something holds, or for a time."""
        give_up_s = time.monotonic() + timeout_s
        while not holds() and time.monotonic() < give_up_s:
            self.run()


class Keyspace:
    """What the test looks at, and does, by CQL."""

    def __init__(self, settings: Settings) -> None:
        self._connection = open_connection(settings.cassandra)
        self._keyspace = settings.cassandra.keyspace

    def has_segments(self) -> bool:
        """True if any node wrote one."""
        return bool(self._ask("SELECT hour FROM {}.completion_segment LIMIT 1"))

    def forget_old_reports(self) -> None:
        """Remove what nodes reported that say nothing of segments, as ten minutes of time do."""
        for node, body in self._ask("SELECT node, body FROM {}.node_report WHERE shard = 0"):
            if b"readsSegments" not in bytes(body):
                self._ask("DELETE FROM {}.node_report WHERE shard = 0 AND node = %s", node)

    def close(self) -> None:
        """Disconnect."""
        self._connection.cluster.shutdown()

    def _ask(self, cql: str, *values: str) -> list[tuple[Any, ...]]:
        return list(self._connection.session.execute(cql.format(self._keyspace), values))


def test_segments_begin_when_the_last_old_node_is_gone_and_end_before_one_comes_back(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    """A rolling upgrade and the way back: no task runs twice, as no old node misses that it ran."""
    old = unpacked(tmp_path / "old", BEFORE_SEGMENTS)
    settings = _migrated(kafka_server, cassandra_server)
    with SchedulerClient(settings) as client, ExitStack() as undo:
        bursts, keyspace = Bursts(client, tmp_path), Keyspace(settings)
        undo.callback(keyspace.close)

        def start(name: str, source: Path) -> NodeProcess:
            return undo.enter_context(NodeProcess(name, source, settings, tmp_path))

        before = start("old", old)
        bursts.run()
        new = start("new", ROOT)
        bursts.run_until(keyspace.has_segments, _PAST_THE_START_S)
        before.stop()
        bursts.run()
        assert not keyspace.has_segments(), "written while a report of the old node stands"

        keyspace.forget_old_reports()
        bursts.run_until(keyspace.has_segments, _OPENS_WITHIN_S)
        assert keyspace.has_segments(), "not written although all nodes read them"
        new.stop()

        _turn_into_rows(settings)
        assert not keyspace.has_segments()
        client.schedule_tasks(bursts.tasks).raise_if_rejected()
        back = start("back", old)
        bursts.run()
        back.stop()

    ran = [note.key for note in notes_in(tmp_path)]
    assert sorted(ran) == [task.uniqueness_key for task in bursts.tasks]
    assert {note.node for note in notes_in(tmp_path)} == {"old", "new", "back"}


def _migrated(kafka: KafkaServer, cassandra: CassandraServer) -> Settings:
    """Make an installation, by what an operator runs before the upgrade."""
    patient = {"grace_ms": 600_000}
    settings = own_settings(
        kafka, cassandra, "segments", partitions=2, group=QUICK_GROUP, client=patient
    )
    wiring.migrate(settings)
    return settings


def _turn_into_rows(settings: Settings) -> None:
    """Do what the page on upgrades says of the way back."""
    cassandra = settings.cassandra.model_copy(update={"completion_segments": "off"})
    wiring.migrate(settings.model_copy(update={"cassandra": cassandra}))
