"""``send_later`` straight into a bucket, and what a client of this storage refuses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.envelope import read_envelope
from hourhand.scheduler.kafka_only.sending import BucketSender
from hourhand.scheduler.services.relay.message import Message
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_key
from tests.unit.scheduler.kafka_only.storage import MemoryBuckets

NOW_MS = 1_767_225_600_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = Settings(log="kafka", store="kafka")


def _no_stores() -> Stores:
    raise AssertionError("there is no store")


@pytest.fixture
def storage() -> MemoryBuckets:
    """Four buckets."""
    return MemoryBuckets(first_layout(1_000, 2.0, 4), 4)


@pytest.fixture
def sender(storage: MemoryBuckets) -> Iterator[BucketSender]:
    """Closed at the end."""
    sender = BucketSender(storage, SETTINGS, VirtualClock())
    yield sender
    sender.close()


def test_a_message_enters_the_bucket_of_its_delay(
    storage: MemoryBuckets, sender: BucketSender
) -> None:
    """The receipt says where, and when it is due."""
    message = Message("target", b"k", b"v", (("h", b"1"),))

    receipt = sender.send(message, NOW_MS + 2_500, NOW_MS).result(0)

    (record,) = storage.writers.appended
    assert (record.partition, receipt.partition, receipt.offset) == (2, 2, 0)
    assert receipt.key.scheduled_ms == NOW_MS + 2_500
    envelope, back = read_envelope(LogRecord(2, 0, 0, record.key, record.value, record.headers))
    assert (back, envelope.due_ms, envelope.lower_ms) == (message, NOW_MS + 2_500, 2_000)


def test_exactly_what_retention_covers_is_accepted(
    storage: MemoryBuckets, sender: BucketSender
) -> None:
    """One millisecond more is refused, and nothing is sent."""
    message = Message("target")

    sender.send(message, NOW_MS + 60_000, NOW_MS).result(0)
    with pytest.raises(InvalidTask, match="cover 60000 ms"):
        sender.send(message, NOW_MS + 60_001, NOW_MS).result(0)

    assert len(storage.writers.appended) == 1


def test_messages_of_one_process_keep_their_order(
    storage: MemoryBuckets, sender: BucketSender
) -> None:
    """What was accepted first is first among those of one time."""
    for _ in range(20):
        sender.send(Message("target", b"k"), NOW_MS, NOW_MS).result(0)

    origins = [
        read_envelope(LogRecord(0, 0, 0, each.key, each.value, each.headers))[0].origin
        for each in storage.writers.appended
    ]
    assert origins == sorted(origins)
    assert len({each.partition for each in storage.writers.appended}) == 1


def test_a_client_of_this_storage_refuses_what_is_no_message(sender: BucketSender) -> None:
    """Tasks and commands need an index."""
    ports = ClientPorts(None, _no_stores, VirtualClock(), RecordingTelemetry(), sender)
    client, key = SchedulerClient(SETTINGS, ports), a_key()
    task = Task(ordering_id="a", scheduled_time=NOON, uniqueness_key="1")

    for refused in (client.schedule_task(task), client.cancel_task(key), client.run_task_now(key)):
        with pytest.raises(InvalidTask, match="messages of send_later and the relay only"):
            refused.result(0)
    with pytest.raises(InvalidTask, match="messages of send_later and the relay only"):
        client.schedule_tasks([task])
    sent = client.send_later(b"k", b"v", "target", timedelta(seconds=1)).result(0)
    assert sent.partition == 1


def test_closing_lets_go_of_everything(storage: MemoryBuckets) -> None:
    """Writer and admin."""
    sender = BucketSender(storage, SETTINGS, VirtualClock())

    sender.close()

    assert storage.writers.closed
    assert storage.admins.closed
