"""The client refuses what cannot be done, places what can, and never holds too much of it."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from hourhand.actors.model.operations.events import LogCalled, TaskEnqueued
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.errors import (
    InvalidKey,
    InvalidTask,
    LogUnavailable,
    NodeStopped,
    TaskInThePast,
    TaskTooLarge,
)
from hourhand.actors.ports.log import Position
from hourhand.scheduler.client.client import Receipt
from tests.builders import NOW, a_key, a_task
from tests.unit.scheduler.client.client_world import PARTITIONS, HeldWriter, World, acknowledge


def test_the_receipt_comes_with_the_acknowledgement_and_not_before() -> None:
    """P1: accepted is what the log acknowledged."""
    world = World(HeldWriter())

    future = world.client.schedule_task(a_task())

    assert not future.done()
    world.writer.futures[0].set_result(Position(2, 40))
    assert future.result(timeout=1) == Receipt(a_task().key, 2, 40)
    assert [type(event) for event in world.telemetry.events] == [TaskEnqueued]


def test_the_partition_is_the_ordering_ids_own() -> None:
    """Set explicitly, with the ordering id as the record's key."""
    world = World(HeldWriter())

    for number in range(20):
        world.client.schedule_task(a_task(ordering_id=f"id-{number}"))

    assert [record[0] for record in world.writer.records] == [
        partition_of(f"id-{number}", PARTITIONS) for number in range(20)
    ]
    assert world.writer.records[3][1] == b"id-3"


def test_exactly_the_grace_window_is_accepted_and_a_millisecond_more_is_not() -> None:
    """P11: and nothing is sent of what is refused."""
    world = World(HeldWriter(), grace_ms=10_000)

    world.client.schedule_task(a_task(due_in_ms=-10_000))
    refused = world.client.schedule_task(a_task(due_in_ms=-10_001))

    assert isinstance(refused.exception(timeout=1), TaskInThePast)
    assert len(world.writer.records) == 1


def test_a_record_above_the_limit_is_refused_with_both_sizes() -> None:
    """The message says how large the record was and what the limit is."""
    world = World(HeldWriter(), record_bytes_max=1_000)

    error = world.client.schedule_task(a_task(data={"x": "y" * 2_000})).exception(timeout=1)

    assert isinstance(error, TaskTooLarge)
    assert "1000" in str(error)
    assert world.writer.records == []


def test_data_that_became_no_json_is_refused() -> None:
    """A task is immutable, but the dict inside it is the caller's."""
    world = World(HeldWriter())
    task = a_task(data={"x": 1})
    task.data["x"] = float("nan")

    assert isinstance(world.client.schedule_task(task).exception(timeout=1), InvalidTask)
    assert world.writer.records == []


def test_a_failing_log_fails_the_future() -> None:
    """With the log's own error."""
    world = World(HeldWriter())
    future = world.client.schedule_task(a_task())

    world.writer.futures[0].set_exception(LogUnavailable("no broker"))

    assert isinstance(future.exception(timeout=1), LogUnavailable)
    assert world.telemetry.events == [LogCalled("append", 0.0, "log-unavailable")]


def test_commands_travel_in_the_partition_of_their_ordering_id() -> None:
    """P12: so they are ordered with the schedule records of their key."""
    world = World(HeldWriter(acknowledge))
    key = a_key()

    world.client.cancel_task(key)
    world.client.reschedule_task(key, NOW + timedelta(hours=1))
    world.client.run_task_now(key)
    world.client.drop_task(key)
    world.client.retry_task(key)

    sent = [json.loads(value) for _, _, value in world.writer.records]
    kinds = [record["command"] for record in sent]
    assert kinds == ["cancel", "reschedule", "run_now", "drop", "retry"]
    assert sent[1]["to"] == "2026-02-09T02:41:12.959Z"
    assert {partition for partition, _, _ in world.writer.records} == {
        partition_of(key.ordering_id, PARTITIONS)
    }


def test_a_reschedule_into_the_past_or_without_a_zone_is_refused() -> None:
    """The new time obeys the rules of a task's time."""
    world = World(HeldWriter())

    past = world.client.reschedule_task(a_key(), NOW - timedelta(minutes=1))
    naive = world.client.reschedule_task(a_key(), NOW.replace(tzinfo=None))
    west = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
    late = world.client.reschedule_task(a_key(), west).exception(timeout=1)

    assert isinstance(past.exception(timeout=1), TaskInThePast)
    assert isinstance(naive.exception(timeout=1), InvalidTask)
    assert str(late).endswith("is not within the years 1 to 9999 in UTC")
    assert world.writer.records == []


@pytest.mark.parametrize(
    "key",
    [
        a_key(ordering_id=""),
        a_key(ordering_id="x" * 40_000),
        a_key(uniqueness_key="é" * 20_000),
        a_key(due_in_ms=10**18),
    ],
)
def test_a_command_for_a_key_no_task_can_have_is_refused(key: TaskKey) -> None:
    """A node could only dead-letter it."""
    world = World(HeldWriter())

    assert isinstance(world.client.cancel_task(key).exception(timeout=1), InvalidKey)
    assert world.writer.records == []


def test_a_cancel_says_by_a_truth_value_whether_it_ends_what_runs() -> None:
    """A text such as "no" counted as yes."""
    world = World(HeldWriter())

    not_a_truth: Any = "no"
    for named in (a_key(), ("customer-7", "invoice-1")):
        refused = world.client.cancel_task(named, running=not_a_truth).exception(1)
        assert isinstance(refused, InvalidTask) and "running is True or False" in str(refused)
    assert world.writer.records == []


def test_an_outcome_is_read_where_the_receipt_points() -> None:
    """None while no node has decided."""
    world = World(HeldWriter())
    receipt = Receipt(a_key(), 1, 7)
    recorded = RecordedOutcome(CommandOutcome.APPLIED, a_key())

    assert world.client.outcome(receipt) is None
    world.stores.ownership.insert_outcome(1, 7, recorded, 1).result(timeout=1)

    assert world.client.outcome(receipt) == recorded


def test_a_closed_client_refuses_everything_and_closes_once() -> None:
    """And says so, instead of blaming the log."""
    world = World(HeldWriter(acknowledge))
    with world.client as client:
        client.schedule_task(a_task()).result(timeout=1)
    client.close()

    assert isinstance(client.schedule_task(a_task()).exception(timeout=1), NodeStopped)
    assert isinstance(client.cancel_task(a_key()).exception(timeout=1), NodeStopped)
    with pytest.raises(NodeStopped):
        client.outcome(Receipt(a_key(), 0, 0))
    assert world.writer.closed == 1
