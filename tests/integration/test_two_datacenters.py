"""Two Cassandra data centres, one of which is lost for good; what docs/multi-data-centre.md says.

One node stands for each data centre.  Kafka survives in both tests: it is spread over the same
places by its own means.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from actors.model.errors import HourhandError, StoreUnavailable
from actors.model.key import TaskKey
from actors.task_executor import TaskExecutor
from scheduler import Scheduler, SchedulerClient, Settings, Task, wiring
from scheduler.inspector import Inspector
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.running import running
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

EAST, WEST = "east", "west"
PARTITIONS = 4
TASKS = 40
eventually = partial(until, timeout_s=120.0, look_s=0.5)
EXPIRY = timedelta(seconds=6)
"""A node throws away what reaches it later than its write_request_timeout, 2 s by default."""


class Noting(TaskExecutor):
    """Notes what ran; a test makes a subclass of its own."""

    ran: ClassVar[set[TaskKey]]

    def execute(self, task: Task) -> None:
        """Note the task."""
        self.ran.add(task.key)


@pytest.fixture
def two_sites(tmp_path: Path) -> Iterator[CassandraServer]:
    """Two data centres of one node each, which keep no hints for each other.

    With hints a short delay mends itself: what is lost here is what had not been sent when a
    site went, whatever the reason.
    """
    yield from running(
        lambda: CassandraServer(
            tmp_path / "sites",
            nodes=2,
            datacenters=(EAST, WEST),
            configuration={"hinted_handoff_enabled": False},
        )
    )


def settings_at(
    site: str, kafka: KafkaServer, cassandra: CassandraServer, name: str, consistency: str
) -> Settings:
    """Return the settings of a node that stands at a site, of an installation over both."""
    return Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead", "partitions": PARTITIONS},
        group={"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        cassandra={
            "contact_points": (cassandra.addresses[(EAST, WEST).index(site)],),
            "port": cassandra.port,
            "datacenter": site,
            "replication": {EAST: 1, WEST: 1},
            "keyspace": name,
            "consistency": consistency,
            "request_timeout_ms": 3_000,
        },
    )


def tasks_due_in(due_in: timedelta, part: str) -> list[Task]:
    """Return tasks of a few ordering ids."""
    return [
        Task(
            ordering_id=f"customer-{number % 7}",
            scheduled_time=datetime.now(UTC) + due_in,
            uniqueness_key=f"{part}-{number}",
            data={},
        )
        for number in range(TASKS)
    ]


def stored_at(settings: Settings, tasks: list[Task]) -> set[TaskKey]:
    """Return the keys whose row the settings' own data centre answers with."""
    stores = wiring.open_stores(settings)
    try:
        inspector = Inspector(stores, partition_count=PARTITIONS)
        return {task.key for task in tasks if inspector.show(task.key).task is not None}
    finally:
        stores.close()


def claim_at(settings: Settings) -> None:
    """Claim a partition as a node does that is given it."""
    stores = wiring.open_stores(settings)
    try:
        stores.ownership.claim(0, 0).result(60)
    finally:
        stores.close()


def accept(settings: Settings, tasks: list[Task]) -> None:
    """Give tasks to the log, durably."""
    with SchedulerClient(settings) as client:
        client.schedule_tasks(tasks).raise_if_rejected()


def an_executor() -> type[Noting]:
    """Return an executor that shares nothing with another test's."""
    return type("OneTestsNoting", (Noting,), {"ran": set()})


def test_each_quorum_loses_nothing_with_a_site(
    two_sites: CassandraServer, kafka_server: KafkaServer
) -> None:
    """Every row that a node told of is at both sites; while one is lost, nothing is stored."""
    name = f"sites_{uuid.uuid4().hex[:8]}"
    east = settings_at(EAST, kafka_server, two_sites, name, "EACH_QUORUM")
    west = settings_at(WEST, kafka_server, two_sites, name, "EACH_QUORUM")
    wiring.migrate(east)
    tasks = tasks_due_in(timedelta(seconds=75), "waits")
    with Scheduler(east, executor=an_executor()):
        accept(east, tasks)
        eventually(lambda: len(stored_at(east, tasks)) == TASKS, "all tasks stored")

    two_sites.nodes[0].kill()

    with pytest.raises(StoreUnavailable):
        claim_at(west)
    alone = settings_at(WEST, kafka_server, two_sites, name, "LOCAL_QUORUM")
    assert stored_at(alone, tasks) == {task.key for task in tasks}
    executor = an_executor()
    with Scheduler(alone, executor=executor):
        eventually(lambda: len(executor.ran) == TASKS, "all tasks run at the other site")
    assert executor.ran == {task.key for task in tasks}


def test_local_quorum_loses_what_was_not_replicated_and_the_audit_names_it(
    two_sites: CassandraServer, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    """The log still has it: read again from an offset before the loss, everything is stored."""
    pytest.importorskip("pyspark", reason="no Spark here: make venv-pipeline")
    name = f"sites_{uuid.uuid4().hex[:8]}"
    east = settings_at(EAST, kafka_server, two_sites, name, "LOCAL_QUORUM")
    west = settings_at(WEST, kafka_server, two_sites, name, "LOCAL_QUORUM")
    wiring.migrate(east)
    kept, late = (tasks_due_in(timedelta(hours=2), part) for part in ("kept", "late"))
    with Scheduler(east, executor=an_executor()):
        accept(east, kept)
        eventually(lambda: len(stored_at(west, kept)) == TASKS, "replicated to the other site")
        # From now on nothing reaches the other site, and nothing is kept to be sent later.
        two_sites.nodes[1].stop()
        accept(east, late)
        eventually(lambda: len(stored_at(east, late)) == TASKS, "stored at one site")
    two_sites.nodes[0].kill()
    two_sites.start_node(2)
    eventually(lambda: _answers(west), "the other site answers again")

    found = _audit(west, [*kept, *late], tmp_path)

    assert found == {f"late-{number}" for number in range(TASKS)}
    _rewind(kafka_server, name)
    with Scheduler(west, executor=an_executor()):
        eventually(lambda: len(stored_at(west, late)) == TASKS, "read again from the log")
    assert _audit(west, [*kept, *late], tmp_path) == set()


def _answers(settings: Settings) -> bool:
    try:
        wiring.open_stores(settings).close()
    except HourhandError:
        return False
    return True


def _audit(settings: Settings, expected: list[Task], folder: Path) -> set[str]:
    """Run the pipeline's audit over what a site has; return the keys it misses."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from scheduler.pipeline.audit import AuditPlan, run_audit
    from tests.pipeline.moving_world import job_on

    keys = folder / "expected.parquet"
    pq.write_table(
        pa.table(
            {
                "scheduled_time": [task.scheduled_time for task in expected],
                "ordering_id": [task.ordering_id for task in expected],
                "uniqueness_key": [task.uniqueness_key for task in expected],
            }
        ),
        keys,
    )
    findings = folder / f"findings-{uuid.uuid4().hex}"
    summary = run_audit(job_on(settings), AuditPlan(expected=str(keys), findings=str(findings)))
    rows = pq.read_table(findings).to_pylist()
    assert summary["found"] == ({"missing": len(rows)} if rows else {})
    return {row["uniqueness_key"] for row in rows}


def _rewind(kafka: KafkaServer, group: str) -> None:
    """Let the group, which has no member, begin at the log's beginning again."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    starts = [TopicPartition(group, partition, 0) for partition in range(PARTITIONS)]
    request = [ConsumerGroupTopicPartitions(group, starts)]
    for future in admin.alter_consumer_group_offsets(request).values():
        future.result(60)
