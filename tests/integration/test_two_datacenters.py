"""Two Cassandra data centres, one of which is lost for good; what docs/multi-data-centre.md says.

One node stands for each data centre.  Kafka survives in both tests: it is spread over the same
places by its own means.
"""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from hourhand import Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import HourhandError, StoreUnavailable
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app
from hourhand.scheduler.tasks.inspector import Inspector
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, set_options
from tests.servers.running import running
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

EAST, WEST = "east", "west"
PARTITIONS = 4
TASKS = 40
eventually = partial(until, timeout_s=120.0, look_s=0.5)
SOON = timedelta(seconds=1)


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
    group: Any = {"id": name, **QUICK_GROUP}
    store: Any = {
        "contact_points": (cassandra.addresses[(EAST, WEST).index(site)],),
        "port": cassandra.port,
        "datacenter": site,
        "replication": {EAST: 1, WEST: 1},
        "keyspace": name,
        "consistency": consistency,
        "request_timeout_ms": 3_000,
    }
    return Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead", "partitions": PARTITIONS},
        group=group,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        cassandra=store,
        # The watermark follows the clock closely.
        tree={"watermark": {"interval_ms": 1_000, "lag_ms": 1_000}},
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


def test_local_quorum_loses_what_was_not_replicated_and_a_rewind_brings_it_back(
    two_sites: CassandraServer, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    """The audit names it, though the watermark went on: it crossed again once the cut healed."""
    pytest.importorskip("pyspark", reason="no Spark here: make venv-pipeline")
    name = f"sites_{uuid.uuid4().hex[:8]}"
    east = settings_at(EAST, kafka_server, two_sites, name, "LOCAL_QUORUM")
    west = settings_at(WEST, kafka_server, two_sites, name, "LOCAL_QUORUM")
    wiring.migrate(east)
    before_loss = format_instant(round(datetime.now(UTC).timestamp() * 1000))
    kept = tasks_due_in(SOON, "kept")
    executor = an_executor()
    with Scheduler(east, executor=executor):
        accept(east, kept)
        eventually(lambda: _mark_ms(west) > _last_ms(kept), "done, as the other site knows too")
        # Nothing reaches the other site now, and nothing is kept to be sent later.
        two_sites.nodes[1].stop()
        late, ahead = tasks_due_in(SOON, "late"), tasks_due_in(timedelta(hours=2), "ahead")
        accept(east, [*late, *ahead])
        eventually(lambda: _mark_ms(east) > _last_ms(late), "done at one site")
        eventually(lambda: len(stored_at(east, ahead)) == TASKS, "stored at one site")
        two_sites.start_node(2)
        two_sites.wait_until_ready(2)
        eventually(lambda: _mark_ms(west) > _last_ms(late), "the watermark crosses again")
    assert executor.ran == _keys(kept, late)
    two_sites.nodes[0].kill()
    eventually(lambda: _answers(west), "the other site answers alone")

    expected = [*kept, *late, *ahead]
    assert _audit(west, expected, tmp_path) == {key.uniqueness_key for key in _keys(late, ahead)}
    _rewind(west, before_loss, tmp_path)
    again = an_executor()
    with Scheduler(west, executor=again):
        eventually(lambda: again.ran >= _keys(late), "what was lost below the watermark runs again")
        eventually(lambda: len(stored_at(west, ahead)) == TASKS, "what was lost above is stored")
    assert again.ran == _keys(late)
    assert _audit(west, expected, tmp_path) == set()


def _keys(*parts: list[Task]) -> set[TaskKey]:
    return {task.key for part in parts for task in part}


def _last_ms(tasks: list[Task]) -> int:
    return max(task.key.scheduled_ms for task in tasks)


def _mark_ms(settings: Settings) -> int:
    """Return the lowest watermark that the settings' own data centre has."""
    stores = wiring.open_stores(settings)
    try:
        found = [stores.ownership.find_watermark(each).result(30) for each in range(PARTITIONS)]
    finally:
        stores.close()
    return min(0 if each is None else each.watermark.watermark_ms for each in found)


def _answers(settings: Settings) -> bool:
    try:
        wiring.open_stores(settings).close()
    except HourhandError:
        return False
    return True


def _rewind(settings: Settings, to: str, folder: Path) -> None:
    """Have the log read again from a moment, as an operator does: every place is set back."""
    asked = ["rewind", "--to", to, "--reason", "the east is lost", "--yes", "-o", "json"]
    done = CliRunner().invoke(app, [*asked, *set_options(settings, folder)])
    assert done.exit_code == 0, done.output
    moves = json.loads(done.stdout)["moves"]
    assert {each["after"] for each in moves} == {0}
    assert sum(each["before"] for each in moves) == 3 * TASKS


def _audit(settings: Settings, expected: list[Task], folder: Path) -> set[str]:
    """Run the pipeline's audit over what a site has; return the keys it misses."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hourhand.scheduler.pipeline.audit import AuditPlan, run_audit
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
