"""The task topic is deleted and made again while its store stays: what it accepts runs, once.

On real servers; the broker tells the two topics apart by its own id.
"""

import logging
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar

import pytest
import tenacity

from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskKey
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.model.values.log_offset import era_of
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.connection import LastError, admin_client
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.waiting import until

pytestmark = pytest.mark.integration

WAIT_S = 60.0
eventually = partial(until, timeout_s=WAIT_S, look_s=0.1)


class Noting(TaskExecutor):
    """Notes what ran; a test makes a subclass of its own."""

    ran: ClassVar[list[str]]

    def execute(self, task: Task) -> None:
        """Note the task."""
        self.ran.append(task.uniqueness_key)


@pytest.fixture
def executor() -> type[Noting]:
    """Return an executor with notes of its own."""

    class Own(Noting):
        ran: ClassVar[list[str]] = []

    return Own


@pytest.fixture
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """Name an installation of its own, with one partition, so that all offsets collide."""
    settings = own_settings(
        kafka_server,
        cassandra_server,
        "anew",
        partitions=1,
        group=QUICK_GROUP,
        tree={"watermark": {"interval_ms": 1_000, "lag_ms": 1_000}},
    )
    wiring.migrate(settings)
    return settings


def make_topic_anew(settings: Settings) -> None:
    """Delete the task topic and make it again; a broker forgets it a moment after it said so."""
    name = settings.topic.name
    admin = admin_client(settings, LastError())
    admin.delete_topics([name])[name].result(WAIT_S)
    tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda done: name not in done),
        stop=tenacity.stop_after_delay(WAIT_S),
        wait=tenacity.wait_fixed(0.2),
        sleep=tenacity.sleep_using_event(threading.Event()),
    )(wiring.migrate, settings)


def task(name: str, in_s: float = 0.5) -> Task:
    """Return a task of an ordering id of its own."""
    at = datetime.now(UTC) + timedelta(seconds=in_s)
    return Task(ordering_id=f"of {name}", uniqueness_key=name, scheduled_time=at)


def schedule(client: SchedulerClient, names: list[str]) -> None:
    """Have tasks accepted, each after the one before."""
    for future in [client.schedule_task(task(name)) for name in names]:
        future.result(30)


def next_offset(settings: Settings) -> int:
    """Return what the store keeps of the partition."""
    stores = wiring.open_stores(settings)
    try:
        claim = stores.ownership.read_watermark(0).result(30)
    finally:
        stores.close()
    return 0 if claim is None else claim.watermark.next_offset or 0


@pytest.mark.parametrize("count", [10, 40])
def test_what_a_new_topic_accepted_while_no_node_ran_runs(
    settings: Settings,
    executor: type[Noting],
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    """Shorter or longer than the one before; and commands reach what was scheduled before."""
    waiting = task("waiting", 3_600)
    with Scheduler(settings, executor=executor) as scheduler:
        schedule(scheduler, [f"old-{number}" for number in range(25)])
        scheduler.schedule_task(waiting).result(30)
        eventually(lambda: len(executor.ran) == 25, "the old topic's tasks run")
        eventually(lambda: next_offset(settings) == 26, "the store keeps where it was read")

    make_topic_anew(settings)
    new = {f"new-{number}" for number in range(count)}
    with SchedulerClient(settings) as client:
        schedule(client, sorted(new))
        receipt = client.cancel_task(waiting.key).result(30)
    with caplog.at_level(logging.WARNING), Scheduler(settings, executor=executor) as scheduler:
        eventually(lambda: new <= set(executor.ran), "the new topic's tasks run")
        told = scheduler.wait_outcome(receipt, timeout=WAIT_S)

    assert len(executor.ran) == 25 + count
    assert told.outcome is CommandOutcome.APPLIED
    assert "the topic was recreated" in caplog.text
    assert era_of(next_offset(settings)) == 1


def test_a_command_is_never_answered_with_that_of_another_topic(
    settings: Settings, executor: type[Noting]
) -> None:
    """Both stand at offset 1 of their topic."""
    with Scheduler(settings, executor=executor) as scheduler:
        old = scheduler.schedule_task(task("old", 3_600)).result(30)
        receipt = scheduler.cancel_task(old.key).result(30)
        assert scheduler.wait_outcome(receipt, timeout=WAIT_S).key == old.key

    make_topic_anew(settings)
    with SchedulerClient(settings) as client:
        new = client.schedule_task(task("new", 15)).result(30)
        again = client.cancel_task(new.key).result(30)
        assert (again.partition, again.offset) == (receipt.partition, receipt.offset)
        assert client.outcome(again) is None
        with Scheduler(settings, executor=executor):
            told = client.wait_outcome(again, timeout=WAIT_S)
            assert (told.outcome, told.key) == (CommandOutcome.APPLIED, new.key)
            later = task("later", 16)
            client.schedule_task(later).result(30)
            eventually(lambda: "later" in executor.ran, "the time of the cancelled one is over")

    assert executor.ran == ["later"]


def test_a_topic_made_anew_under_a_running_node_is_read_from_its_beginning(
    settings: Settings, executor: type[Noting], caplog: pytest.LogCaptureFixture
) -> None:
    """And again by the next node, from where this one stood: nothing of the old one is left."""
    names = [f"old-{number}" for number in range(60)]
    with caplog.at_level(logging.WARNING), Scheduler(settings, executor=executor) as scheduler:
        schedule(scheduler, names)
        eventually(lambda: len(executor.ran) == 60, "the old topic's tasks run")
        make_topic_anew(settings)
        _accepted(scheduler, "new")
        eventually(lambda: "new" in executor.ran, "the new topic's task runs")
        eventually(lambda: era_of(next_offset(settings)) == 1, "the store keeps the new topic")
        assert "was recreated" in caplog.text
    down = {f"down-{number}" for number in range(60)}
    with SchedulerClient(settings) as client:
        schedule(client, sorted(down))

    with Scheduler(settings, executor=executor):
        eventually(lambda: down <= set(executor.ran), "what came while no node ran, runs")

    assert len(executor.ran) == len(set(executor.ran)) == 121


def _accepted(client: SchedulerClient, name: str) -> TaskKey:
    """Schedule until the topic is there: its producer may know the old one for a moment."""
    trying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(HourhandError),
        stop=tenacity.stop_after_delay(WAIT_S),
        wait=tenacity.wait_fixed(0.2),
        sleep=tenacity.sleep_using_event(threading.Event()),
    )
    return trying(lambda: client.schedule_task(task(name)).result(30)).key
