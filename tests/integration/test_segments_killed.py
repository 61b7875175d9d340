"""Nodes on Kafka and Cassandra that write segments and rows in turn, and are killed as they do."""

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from hourhand import SchedulerClient, Settings, Task
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.ports.bulk import BulkStore, BulkTable
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.tidy.source import ROOT
from tests.two_versions.versions import NodeProcess, notes_in, wait_for
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]

TASKS = 12_000
KILLED_AFTER = (500, 4_000)
"""Completions that are stored when a node is killed."""


def test_what_was_recorded_before_a_kill_never_runs_again(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    """Whichever way it was recorded, and whichever way the next node records (P5, P8)."""
    settings = own_settings(
        kafka_server,
        cassandra_server,
        "killed",
        partitions=2,
        group=QUICK_GROUP,
        client={"grace_ms": 600_000},
    )
    wiring.migrate(settings)
    keys = _schedule(settings)

    recorded: list[set[str]] = []
    with closing(wiring.open_bulk(settings)) as bulk:
        for number, enough in enumerate(KILLED_AFTER):
            with _node(f"killed-{number}", settings, tmp_path, ("on", "off")[number % 2]):
                until(partial(_has_recorded, bulk, enough), "too few tasks were recorded")
            recorded.append(set(_recorded(bulk)))
        with _node("last", settings, tmp_path, "on") as node:
            wait_for(tmp_path, keys)
            node.stop()
        assert _recorded(bulk) == Counter(keys), "a key is read once, in the version that stands"

    assert all(_rows_of(settings)), "one of the two tables was never written to"
    ran = notes_in(tmp_path)
    for number, before in enumerate(recorded):
        names = {"last", *(f"killed-{later}" for later in range(number + 1, len(recorded)))}
        assert not before & {note.key for note in ran if note.node in names}


def _schedule(settings: Settings) -> list[str]:
    """Schedule tasks that are due at once; return their uniqueness keys, sorted."""
    now = datetime.now(UTC)
    tasks = [
        Task(ordering_id=f"c-{number}", scheduled_time=now, uniqueness_key=f"{number:05d}", data={})
        for number in range(TASKS)
    ]
    with SchedulerClient(settings) as client:
        client.schedule_tasks(tasks).raise_if_rejected()
    return [task.uniqueness_key for task in tasks]


def _node(name: str, settings: Settings, folder: Path, when: Literal["on", "off"]) -> NodeProcess:
    """Return a node that is killed when its block ends."""
    cassandra = settings.cassandra.model_copy(update={"completion_segments": when})
    chosen = settings.model_copy(update={"cassandra": cassandra})
    return NodeProcess(name, ROOT, chosen, folder)


def _has_recorded(bulk: BulkStore, completions: int) -> bool:
    """Return whether so many completions are stored."""
    return _recorded(bulk).total() >= completions


def _recorded(bulk: BulkStore) -> Counter[str]:
    """Return how often each uniqueness key is read as completed."""
    found: Counter[str] = Counter()
    for page in bulk.scan_part(BulkTable.STATUSES, 0, 1, ["uniqueness_key"]):
        found.update(map(str, page["uniqueness_key"]))
    return found


def _rows_of(settings: Settings) -> list[bool]:
    """Return whether the tables of rows and of segments hold any."""
    connection = open_connection(settings.cassandra)
    look = "SELECT hour FROM {}.{} LIMIT 1"
    try:
        return [
            bool(connection.session.execute(look.format(settings.cassandra.keyspace, table)).one())
            for table in ("task_status", "completion_segment")
        ]
    finally:
        connection.cluster.shutdown()
