"""Hostile records through real Kafka and Cassandra, with a real node beside them.

Good tasks run once, and what cannot be read is in the dead-letter topic, each record once.
"""

import random
import threading
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import Event, TreeRebuilt
from hourhand.actors.model.task.codec import LogRecord, decode_record, encode_task
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.scheduler import wiring
from tests.fuzz.records import corpus, hostile_record
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import own_settings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RECORDS = 2_000
PARTITIONS = 3
GOOD = 50
STRAY_GOOD = 20
WAIT_S = 120.0
SEED = 7


class Events:
    """Keeps whether a tree was rebuilt; implements ``Telemetry``."""

    def __init__(self) -> None:
        self.rebuilt: list[Event] = []

    def emit(self, event: Event) -> None:
        """Keep the event where it is one."""
        if isinstance(event, TreeRebuilt):
            self.rebuilt.append(event)


def _write(settings: Settings) -> int:
    """Write the hostile records; return how many of them must become dead letters."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    rng = random.Random(SEED)
    made = [*corpus(), *(hostile_record(rng, number, PARTITIONS) for number in range(RECORDS))]
    poison = 0
    for each in made:
        # The broker judges a record's own time; the unit tests give it any.
        producer.produce(
            settings.topic.name,
            partition=each.partition,
            key=each.key,
            value=each.value,
            headers=list(each.headers),
        )
        producer.poll(0)
        record = LogRecord(each.partition, 0, 0, each.key, each.value)
        try:
            decode_record(record)
        except PoisonRecord:
            poison += 1
    assert producer.flush(WAIT_S) == 0
    return poison


def _places(settings: Settings, expected: int) -> Counter[tuple[object, object]]:
    """Read where the dead letters stood, until ``expected`` are there."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([settings.topic.dead_letter])
    found: Counter[tuple[object, object]] = Counter()
    try:
        while found.total() < expected and (message := consumer.poll(WAIT_S)) is not None:
            assert message.error() is None, message.error()
            headers = dict(message.headers() or ())
            assert headers["hourhandReason"]
            found[headers["hourhandPartition"], headers["hourhandOffset"]] += 1
    finally:
        consumer.close()
    return found


def test_p10_hostile_records_harm_nothing_on_real_servers(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """Two thousand of them, before and beside the good tasks."""
    settings, ran, enough = (
        own_settings(kafka_server, cassandra_server, "hostile", partitions=PARTITIONS),
        list[str](),
        threading.Event(),
    )

    class Noting(TaskExecutor):
        def execute(self, task: Task) -> None:
            """Note the good ones."""
            if task.ordering_id.startswith("good-"):
                ran.append(task.uniqueness_key)
                if len(ran) >= GOOD:
                    enough.set()

    wiring.migrate(settings)
    poison = _write(settings)
    events = Events()
    with Scheduler(settings, executor=Noting, telemetry=events) as scheduler:
        for number in range(GOOD):
            at = datetime.now(UTC) + timedelta(seconds=2)
            task = Task(
                ordering_id=f"good-{number}",
                scheduled_time=at,
                uniqueness_key=f"good-{number}",
                data={},
            )
            scheduler.schedule_task(task).result(timeout=WAIT_S)
        assert enough.wait(WAIT_S), f"{len(ran)} of {GOOD} good tasks ran"
        places = _places(settings, poison)

    assert sorted(ran) == sorted(f"good-{number}" for number in range(GOOD))
    assert places.total() == poison
    assert set(places.values()) == {1}
    assert not events.rebuilt


def _strays(settings: Settings) -> int:
    """Write misplaced records that are too large to be produced again; return how many."""
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "compression.type": "lz4",
            "message.max.bytes": 10_000_000,
        }
    )
    at = datetime.now(UTC) + timedelta(seconds=1)
    # Above the client's own limit, and far above it but small as its producer packs it.
    sizes = [settings.client.record_bytes_max + 50_000, 3_000_000]
    for number, size in enumerate(sizes):
        task = Task(
            ordering_id="astray",
            scheduled_time=at,
            uniqueness_key=f"astray-{number}",
            data={"x": "y" * size},
        )
        own = partition_of("astray", PARTITIONS)
        producer.produce(
            settings.topic.name, partition=(own + 1) % PARTITIONS, value=encode_task(task)
        )
    assert producer.flush(WAIT_S) == 0
    return len(sizes)


def test_p10_a_stray_that_is_too_large_stops_no_node(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """It becomes a dead letter, whole or without its value; the good tasks run meanwhile."""
    settings = own_settings(kafka_server, cassandra_server, "astray", partitions=PARTITIONS)
    ran, enough, events = list[str](), threading.Event(), Events()

    class Noting(TaskExecutor):
        def execute(self, task: Task) -> None:
            """Note it."""
            ran.append(task.uniqueness_key)
            if len(ran) >= STRAY_GOOD:
                enough.set()

    wiring.migrate(settings)
    strays = _strays(settings)
    with Scheduler(settings, executor=Noting, telemetry=events) as scheduler:
        for number in range(STRAY_GOOD):
            task = Task(
                ordering_id=f"good-{number}",
                scheduled_time=datetime.now(UTC) + timedelta(seconds=1),
                uniqueness_key=f"good-{number}",
                data={},
            )
            scheduler.schedule_task(task).result(timeout=WAIT_S)
        assert enough.wait(WAIT_S), f"{len(ran)} of {STRAY_GOOD} good tasks ran"
        places = _places(settings, strays)

    assert sorted(ran) == sorted(f"good-{number}" for number in range(STRAY_GOOD))
    assert places.total() == strays and set(places.values()) == {1}
    assert not events.rebuilt
