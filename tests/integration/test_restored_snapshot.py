"""A store that is lost and put back from a snapshot: what docs/operations/backup.md says.

Step by step as the page has it, with Cassandra's and Kafka's own tools, on a server of its own.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest

from hourhand import Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.tasks.task_state import TaskState
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer, kafka_tool
from tests.servers.nodetool import management, nodetool
from tests.servers.ports import free_ports
from tests.servers.process import SHORT_LIVED
from tests.servers.running import running
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

PARTITIONS = 4
TASKS = 20
NOW, LATER = timedelta(), timedelta(hours=2)
LONG_S = 180.0
"""For an executor that is held; the test lets it go long before."""
eventually = partial(until, timeout_s=180.0, look_s=0.5)


class Noting(TaskExecutor):
    """Notes what began, and holds what the test wants held; a test makes a subclass of its own."""

    begun: ClassVar[set[TaskKey]]
    let_go: ClassVar[Event]

    def execute(self, task: Task) -> None:
        """Note the task; one whose data says so ends when the test lets it."""
        self.begun.add(task.key)
        if task.data == {"held": True}:
            assert self.let_go.wait(LONG_S)


@dataclass(frozen=True)
class Site:
    """A Cassandra node with its operator's port, and the disasters that may befall it."""

    server: CassandraServer
    port: int
    settings: Settings
    folder: Path
    """Where snapshots are copied to: away from what may be lost."""
    tables: set[str] = field(default_factory=set)

    def snapshot(self) -> None:
        """Let the node write one, while it works, and copy it away."""
        keyspace = self.settings.cassandra.keyspace
        nodetool(self.port, "snapshot", "--tag", "kept", keyspace)
        data = self.server.nodes[0].folder / "data" / keyspace
        for snapshot in data.glob("*/snapshots/kept"):
            table = snapshot.parts[-3].partition("-")[0]
            shutil.copytree(snapshot, self.folder / table)
            self.tables.add(table)

    def lose_the_machine(self) -> None:
        """Put an empty one in its place."""
        self.server.stop()
        shutil.rmtree(self.server.nodes[0].folder)
        self.server.start()

    def lose_the_keyspace(self) -> None:
        """Somebody dropped it, and the machine is well."""
        self._change(f"DROP KEYSPACE {self.settings.cassandra.keyspace}")

    def restore(self) -> None:
        """Make the tables as the snapshot describes them and give each its files back."""
        keyspace = self.settings.cassandra.keyspace
        self._change(
            f"CREATE KEYSPACE {keyspace} WITH replication ="
            " {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
        )
        for table in sorted(self.tables):
            self._change((self.folder / table / "schema.cql").read_text())
        for table in sorted(self.tables):
            nodetool(self.port, "import", "--copy-data", keyspace, table, str(self.folder / table))

    def _change(self, cql: str) -> None:
        connection = open_connection(self.settings.cassandra)
        try:
            connection.session.execute(cql, timeout=60)
        finally:
            connection.cluster.shutdown()


@pytest.fixture
def site(tmp_path: Path, kafka_server: KafkaServer) -> Iterator[Site]:
    """A node of its own, as the tests take it away; the log is the one everybody uses."""
    (port,) = free_ports(1)
    name = f"restored_{uuid.uuid4().hex[:8]}"
    options = (*SHORT_LIVED, management(port))
    for server in running(lambda: CassandraServer(tmp_path / "site", java_options=options)):
        settings = Settings(
            log="kafka",
            store="cassandra",
            topic={"name": name, "dead_letter": f"{name}-dead", "partitions": PARTITIONS},
            group={"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
            kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
            cassandra={
                "contact_points": tuple(server.addresses),
                "port": server.port,
                "keyspace": name,
            },
        )
        yield Site(server, port, settings, tmp_path / "kept")


@dataclass(frozen=True)
class Tasks:
    """Tasks by what becomes of them."""

    done: list[Task]
    held: list[Task]
    waiting: list[Task]
    late_done: list[Task]
    late_waiting: list[Task]
    meanwhile: list[Task]


def accept(settings: Settings, part: str, due_in: timedelta, data: dict[str, Any]) -> list[Task]:
    """Give tasks of a few ordering ids to the log, durably, and return them."""
    tasks = [
        Task(
            ordering_id=f"{part}-{number % 4}",
            scheduled_time=datetime.now(UTC) + due_in,
            uniqueness_key=f"{part}-{number}",
            data=data,
        )
        for number in range(TASKS)
    ]
    with SchedulerClient(settings) as client:
        client.schedule_tasks(tasks).raise_if_rejected()
    return tasks


def wait_for(settings: Settings, tasks: list[Task], state: TaskState) -> None:
    """Wait until the store says so of every task."""
    stores = wiring.open_stores(settings)
    try:
        inspector = Inspector(stores, partition_count=PARTITIONS)
        eventually(
            lambda: {inspector.show(task.key).state for task in tasks} == {state},
            f"{tasks[0].ordering_id} and the like were never all {state}",
        )
    finally:
        stores.close()


def an_executor() -> type[Noting]:
    """Return an executor that shares nothing with another one."""
    return type("OneTestsNoting", (Noting,), {"begun": set(), "let_go": Event()})


def keys(*tasks: list[Task]) -> set[TaskKey]:
    """Return the keys of all."""
    return {task.key for each in tasks for task in each}


def until_the_disaster(site: Site) -> Tasks:
    """Run some, keep a snapshot while others run, run more; end with all nodes stopped."""
    settings, executor = site.settings, an_executor()
    wiring.migrate(settings)
    with Scheduler(settings, executor=executor):
        done = accept(settings, "done", NOW, {})
        wait_for(settings, done, TaskState.SUCCESS)
        held = accept(settings, "held", NOW, {"held": True})
        waiting = accept(settings, "waiting", LATER, {})
        wait_for(settings, waiting, TaskState.PENDING)
        wait_for(settings, held, TaskState.PENDING)
        eventually(lambda: keys(held) & executor.begun, "none of those held has begun")

        site.snapshot()

        executor.let_go.set()
        wait_for(settings, held, TaskState.SUCCESS)
        late_done = accept(settings, "late-done", NOW, {})
        late_waiting = accept(settings, "late-waiting", LATER, {})
        wait_for(settings, late_done, TaskState.SUCCESS)
        wait_for(settings, late_waiting, TaskState.PENDING)
    # The log is well, so clients go on while the store is away.
    return Tasks(done, held, waiting, late_done, late_waiting, accept(settings, "new", NOW, {}))


@pytest.mark.parametrize(
    "disaster", [Site.lose_the_machine, Site.lose_the_keyspace], ids=["machine", "keyspace"]
)
def test_a_snapshot_and_the_log_bring_everything_back(
    site: Site, kafka_server: KafkaServer, disaster: Callable[[Site], None]
) -> None:
    """What the snapshot knows as done stays done; all that came or ran after it runs."""
    tasks = until_the_disaster(site)
    disaster(site)

    site.restore()
    assert wiring.migrate(site.settings) == [], "the snapshot knows which changes it had"
    kafka_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        kafka_server.bootstrap_servers,
        "--delete",
        "--group",
        site.settings.group.id,
    )
    executor = an_executor()
    executor.let_go.set()
    with Scheduler(site.settings, executor=executor):
        wait_for(
            site.settings, [*tasks.held, *tasks.late_done, *tasks.meanwhile], TaskState.SUCCESS
        )
        wait_for(site.settings, [*tasks.waiting, *tasks.late_waiting], TaskState.PENDING)

    assert executor.begun == keys(tasks.held, tasks.late_done, tasks.meanwhile)
