"""The whole engine on real Kafka and Cassandra, and what an operator is told when it cannot be.

The main job, with nodes that die, is the demo's; here is one node, and every way to start it
wrongly.
"""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from hourhand import Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.values.errors import (
    LogUnavailable,
    PartitionCountChanged,
    SchemaMissing,
    StoreUnavailable,
    TopicMissing,
)
from hourhand.scheduler import wiring
from hourhand.scheduler.tasks.inspector import Inspector
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings

pytestmark = pytest.mark.integration

WAIT_S = 60.0


class Recorder(TaskExecutor):
    """Notes what it ran; each test makes a subclass, so that tests share nothing."""

    ran: list[Task]
    enough: threading.Event
    expected: int

    def execute(self, task: Task) -> None:
        """Note the task, and say when all are there."""
        self.ran.append(task)
        if len(self.ran) >= self.expected:
            self.enough.set()


def a_recorder(expected: int) -> type[Recorder]:
    """Make a recorder of its own for one test."""
    members = {"ran": [], "enough": threading.Event(), "expected": expected}
    return type("OneTestsRecorder", (Recorder,), members)


@pytest.fixture
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """Name a topic, a group and a keyspace that no other test has."""
    return own_settings(kafka_server, cassandra_server, "engine", group=QUICK_GROUP)


@pytest.fixture
def migrated(settings: Settings) -> Settings:
    """Make the topics and tables first."""
    wiring.migrate(settings)
    return settings


def a_task(number: int, *, due_in_s: float = 1.0) -> Task:
    """Return the ``number``-th task of three ordering ids."""
    return Task(
        ordering_id=f"customer-{number % 3}",
        scheduled_time=datetime.now(UTC) + timedelta(seconds=due_in_s),
        uniqueness_key=f"invoice-{number}",
        data={"number": number},
    )


def test_tasks_run_once_in_order_and_are_closed_in_the_store(migrated: Settings) -> None:
    """The main job on one node."""
    recorder = a_recorder(60)
    tasks = [a_task(number, due_in_s=1 + number / 100) for number in range(60)]

    with Scheduler(migrated, executor=recorder) as scheduler:
        for future in [scheduler.schedule_task(task) for task in tasks]:
            future.result(timeout=WAIT_S)
        assert recorder.enough.wait(WAIT_S)

    assert sorted(task.key for task in recorder.ran) == sorted(task.key for task in tasks)
    for customer in range(3):
        keys = [t.key for t in recorder.ran if t.ordering_id == f"customer-{customer}"]
        assert keys == sorted(keys)
    stores = wiring.open_stores(migrated)
    try:
        inspector = Inspector(stores, partition_count=4)
        results = {inspector.show(task.key).completion for task in tasks}
        assert {c.result for c in results if c is not None} == {CompletionResult.SUCCESS}
        assert None not in results
    finally:
        stores.close()


def test_what_waits_survives_a_stop_and_is_run_by_the_next_node(migrated: Settings) -> None:
    """Also a task that fell due while no node was there."""
    recorder = a_recorder(2)
    with Scheduler(migrated, executor=recorder) as scheduler:
        scheduler.schedule_task(a_task(1, due_in_s=3_600)).result(timeout=WAIT_S)
    with SchedulerClient(migrated) as client:
        client.schedule_task(a_task(2, due_in_s=0)).result(timeout=WAIT_S)
        client.schedule_task(a_task(3, due_in_s=0)).result(timeout=WAIT_S)

    with Scheduler(migrated, executor=recorder):
        assert recorder.enough.wait(WAIT_S)

    assert sorted(task.data["number"] for task in recorder.ran) == [2, 3]  # type: ignore[type-var]


def test_commands_have_outcomes(migrated: Settings) -> None:
    """They travel through the log and are decided by the node."""
    recorder = a_recorder(1)
    cancelled, hurried = a_task(1, due_in_s=3_600), a_task(2, due_in_s=3_600)
    with Scheduler(migrated, executor=recorder) as scheduler:
        for task in (cancelled, hurried):
            scheduler.schedule_task(task).result(timeout=WAIT_S)
        cancel = scheduler.cancel_task(cancelled.key).result(timeout=WAIT_S)
        hurry = scheduler.run_task_now(hurried.key).result(timeout=WAIT_S)
        again = scheduler.cancel_task(hurried.key).result(timeout=WAIT_S)
        assert recorder.enough.wait(WAIT_S)

    with SchedulerClient(migrated) as client:
        outcomes = [client.outcome(receipt) for receipt in (cancel, hurry, again)]
    assert [o.outcome for o in outcomes if o is not None] == [
        CommandOutcome.APPLIED,
        CommandOutcome.APPLIED,
        CommandOutcome.ALREADY_CLOSED,
    ]
    assert [task.data["number"] for task in recorder.ran] == [2]


def test_a_missing_keyspace_names_the_command_that_makes_it(settings: Settings) -> None:
    """``hourhand migrate`` was forgotten."""
    with pytest.raises(SchemaMissing, match="hourhand migrate"):
        wiring.open_stores(settings)


def test_a_missing_topic_names_the_command_that_makes_it(settings: Settings) -> None:
    """The topic is not made by accident, with some default number of partitions."""
    with pytest.raises(TopicMissing, match="hourhand migrate"):
        SchedulerClient(settings)


def test_another_number_of_partitions_is_refused(migrated: Settings) -> None:
    """The store was begun with four."""
    with Scheduler(migrated, executor=a_recorder(1)):
        pass
    name = f"{migrated.topic.name}-wide"
    topic = migrated.topic.model_copy(update={"name": name, "partitions": 6})
    wider = migrated.model_copy(update={"topic": topic})
    wiring.migrate(wider)

    with pytest.raises(PartitionCountChanged, match=r"6 partitions.*begun with 4"):
        Scheduler(wider, executor=a_recorder(1))


def test_a_wrong_broker_address_is_named_in_bounded_time(migrated: Settings) -> None:
    """Nothing listens on port 1."""
    kafka = migrated.kafka.model_copy(
        update={"bootstrap_servers": "127.0.0.1:1", "connect_timeout_ms": 1_500}
    )

    with pytest.raises(LogUnavailable, match=r"127\.0\.0\.1:1"):
        Scheduler(migrated.model_copy(update={"kafka": kafka}), executor=a_recorder(1))


def test_a_wrong_store_address_is_named_in_bounded_time(migrated: Settings) -> None:
    """Nothing listens on port 1."""
    cassandra = migrated.cassandra.model_copy(update={"port": 1, "connect_timeout_ms": 1_500})

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        Scheduler(migrated.model_copy(update={"cassandra": cassandra}), executor=a_recorder(1))
