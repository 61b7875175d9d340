"""A task topic that was given more partitions: everybody finds what is stored, and can move on.

On real servers: partitions cannot be taken away again, so moving is the only way out.
"""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from hourhand import Receipt, Scheduler, SchedulerClient, Settings, Task, TaskState
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.values.errors import PartitionCountChanged
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app
from tests.pipeline.moving_world import Noting, wait_until
from tests.pipeline.test_transfer_servers import on_servers, run
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import set_options

pytestmark = [pytest.mark.integration, pytest.mark.long]

OLD, NEW = 3, 7
WAIT_S = 60.0


class Worked(NamedTuple):
    """What an installation was left with."""

    done: list[Receipt]
    waiting: list[Receipt]
    closed: list[Receipt]
    """Of the cancels."""
    told: list[CommandOutcome]


def task(name: str, in_s: float) -> Task:
    """Return a task of an ordering id of its own."""
    at = datetime.now(UTC) + timedelta(seconds=in_s)
    return Task(ordering_id=f"of {name}", uniqueness_key=name, scheduled_time=at)


def raise_partitions(settings: Settings) -> None:
    """Do to the topic what an operator did to every other one."""
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    topic = settings.topic.name
    admin.create_partitions([NewPartitions(topic, NEW)])[topic].result(WAIT_S)
    wait_until(lambda: len(admin.list_topics(topic, WAIT_S).topics[topic].partitions) == NEW)


def states(settings: Settings, receipts: list[Receipt]) -> list[TaskState]:
    """Return what a client that begins now finds."""
    with SchedulerClient(settings) as client:
        return [client.find_task(each.key).state for each in receipts]


def worked(source: Settings) -> Worked:
    """Leave tasks that ran, tasks that wait, and two of these cancelled."""
    with Scheduler(source, executor=Noting) as node:
        done = [node.schedule_task(task(f"done-{n}", 0.5)).result(WAIT_S) for n in range(8)]
        waiting = [node.schedule_task(task(f"waits-{n}", 3_600)).result(WAIT_S) for n in range(8)]
        closed = [node.cancel_task(each.key).result(WAIT_S) for each in waiting[:2]]
        wait_until(lambda: all(node.find_task(e.key).state is TaskState.SUCCESS for e in done))
        told = [node.wait_outcome(each, timeout=WAIT_S).outcome for each in closed]
    return Worked(done, waiting, closed, told)


def check_moved(target: Settings, expected: Mapping[Receipt, TaskState], again: Receipt) -> None:
    """Have the new installation know all, and take commands."""
    with Scheduler(target, executor=Noting) as node:
        wait_until(lambda: len(node.partitions) == NEW)
        assert states(target, list(expected)) == list(expected.values())
        cancelled = node.cancel_task(again.key).result(WAIT_S)
        outcome = node.wait_outcome(cancelled, timeout=WAIT_S).outcome
        assert outcome is CommandOutcome.APPLIED


def test_a_topic_with_more_partitions_is_read_by_the_stores_number_and_moved(
    spark: SparkSession,
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
    tmp_path: Path,
) -> None:
    """What ended, what waits and what was accepted since: all of it is in the new installation."""
    assert spark.version
    name = f"raised-{uuid.uuid4().hex[:6]}"
    source = on_servers(kafka_server, cassandra_server, name, OLD)
    target = on_servers(kafka_server, cassandra_server, f"{name}-new", NEW)
    wiring.migrate(source)
    done, waiting, closed, told = worked(source)
    before = states(source, done + waiting)

    raise_partitions(source)
    with SchedulerClient(source) as client:
        late = [client.schedule_task(task(f"late-{n}", 3_600)).result(WAIT_S) for n in range(8)]
        assert [client.wait_outcome(each, timeout=5).outcome for each in closed] == told
        lost = next(e for e in waiting[2:] if partition_of(e.key.ordering_id, NEW) >= OLD)
        with pytest.raises(PartitionCountChanged, match="repartition"):
            client.outcome(client.cancel_task(lost.key).result(WAIT_S))
    shown = CliRunner().invoke(app, ["show", str(done[0].key), *set_options(source, tmp_path)])
    with pytest.raises(PartitionCountChanged, match="pipeline repartition"):
        Scheduler(source, executor=Noting)
    options = ["--to", str(NEW), "--into", f"topic.name={name}-new", "--into"]
    options += [f"cassandra.keyspace={target.cassandra.keyspace}", "--into", f"group.id={name}-new"]
    moved = run("repartition", source, *options, "--into", f"topic.dead_letter={name}-new-dead")

    assert set(told) == {CommandOutcome.APPLIED}
    assert states(source, done + waiting) == before
    assert (shown.exit_code, "success" in shown.stdout) == (0, True)
    assert (moved["from"], moved["to"]) == (OLD, NEW)
    assert moved["log"]["records"] + moved["log"]["elsewhere"] == len(late) + 1
    expected = dict(zip(done + waiting, before, strict=True))
    expected |= {lost: TaskState.CANCELLED} | dict.fromkeys(late, TaskState.PENDING)
    check_moved(target, expected, late[0])
