"""One group of nodes of both versions, on real servers: a rolling upgrade, then kinds."""

from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand import SchedulerClient, Task
from hourhand.scheduler import wiring
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.tidy.source import ROOT
from tests.two_versions.versions import NodeProcess, notes_in, unpacked, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.long]

KINDS = ("", "mail", "charge")


class Producer:
    """Schedules tasks of eight ordering ids, and knows which kind each has."""

    def __init__(self, client: SchedulerClient) -> None:
        self._client = client
        self.kinds: dict[str, str] = {}

    def schedule(self, kinds: Iterable[str], due_in_s: float) -> list[str]:
        """Schedule 40 tasks, of these kinds in turn; return their uniqueness keys."""
        chosen, at = list(kinds), datetime.now(UTC) + timedelta(seconds=due_in_s)
        keys = [f"{len(self.kinds) + number:04d}" for number in range(40)]
        tasks = []
        for number, key in enumerate(keys):
            self.kinds[key] = chosen[number % len(chosen)]
            tasks.append(
                Task(
                    ordering_id=f"customer-{number % 8}",
                    scheduled_time=at,
                    uniqueness_key=key,
                    data={"key": key},
                    kind=self.kinds[key] or None,
                )
            )
        self._client.schedule_tasks(tasks).raise_if_rejected()
        return keys


def test_nodes_first_then_kinds_loses_nothing_and_runs_nothing_by_another_executor(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    """The order that the page on upgrades names, with tasks due before, during and after."""
    old = unpacked(tmp_path / "old")
    settings = own_settings(kafka_server, cassandra_server, "versions", group=QUICK_GROUP)
    wiring.migrate(settings)
    with SchedulerClient(settings) as client, ExitStack() as nodes:

        def start(name: str, source: Path, kinds: str = "") -> NodeProcess:
            return nodes.enter_context(NodeProcess(name, source, settings, tmp_path, kinds))

        producer = Producer(client)
        first, second = start("old-1", old), start("old-2", old)
        wait_for(tmp_path, producer.schedule([""], 0))
        across = producer.schedule([""], 30)
        started = [start("new-1", ROOT, "mail,charge")]
        wait_for(tmp_path, producer.schedule([""], 0))
        first.stop()
        wait_for(tmp_path, producer.schedule([""], 0))
        started.append(start("new-2", ROOT, "mail,charge"))
        second.stop()
        wait_for(tmp_path, [*producer.schedule(KINDS, 0), *producer.schedule(KINDS, 5), *across])
        for node in started:
            node.stop()

    notes = notes_in(tmp_path)
    assert {note.key: note.executor for note in notes} == producer.kinds
    assert {note.node for note in notes} == {"old-1", "old-2", "new-1", "new-2"}
    assert not [note for note in notes if note.executor and note.node.startswith("old")]
    assert all(note.data == {"key": note.key} for note in notes)
    assert len(notes) == len(producer.kinds), "each ran once: no node died"
