"""Storage with Kafka alone on a real broker: topics of its own, nodes, and a committed reader."""

import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from hourhand import SchedulerClient, Settings
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.wiring import create_bucket_topics
from tests.servers.kafka import KafkaServer
from tests.tidy.source import ROOT

WAIT_S = 60.0

_NODE = """
import json, sys
from hourhand.scheduler.cli.bucket_running import BucketRelay
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.configuration.settings import Settings
log_to_stderr("info")
node = BucketRelay(Settings(**json.load(open(sys.argv[1]))))
with node.stopped_by_signals():
    node.start()
    node.wait()
"""


def bucket_settings(kafka: KafkaServer, **buckets: Any) -> Settings:
    """Return settings with topics and groups of their own, and few buckets."""
    name = f"buckets-{uuid.uuid4().hex[:10]}"
    chosen: Any = {
        "topic": f"{name}-pending",
        "group_id": f"{name}-pending",
        "partitions": 5,
        "first_partitions": 2,
        "transaction_timeout_ms": 5_000,
        **buckets,
    }
    return Settings(
        log="kafka",
        store="kafka",
        topic={"name": name, "dead_letter": f"{name}-letters", "partitions": 2},
        group={"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        relay={
            "in_topic": f"{name}-in",
            "out_topic": f"{name}-out",
            "group_id": f"{name}-in",
        },
        buckets=chosen,
    )


@dataclass
class Arrival:
    """A message that a reader of committed records saw, and when."""

    key: bytes | None
    value: bytes | None
    headers: list[Any]
    read_ms: int


@dataclass
class BucketsAtWork:
    """Settings with topics that exist, a client, and what appears on the out-topic."""

    settings: Settings
    arrivals: list[Arrival] = field(default_factory=list)
    due_ms: dict[bytes, int] = field(default_factory=dict)
    _seen: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        create_bucket_topics(self.settings)
        wiring.create_relay_topics(self.settings)
        self.clock = SystemClock()
        self.client = SchedulerClient(self.settings)
        self._producer = Producer(
            {
                "bootstrap.servers": self.settings.kafka.bootstrap_servers,
                "linger.ms": 1,
                "message.max.bytes": 2_000_000,
            }
        )
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, value: bytes, delay_ms: int, key: bytes | None = None) -> None:
        """Send a message later, and note when it is due."""
        when = timedelta(milliseconds=delay_ms)
        sent = self.client.send_later(key, value, self.settings.relay.out_topic, when)
        self.due_ms[value] = sent.result(WAIT_S).key.scheduled_ms

    def put(
        self, value: bytes | None, due_ms: int, key: bytes | None = b"k", headers: Headers = ()
    ) -> None:
        """Produce a message to the in-topic."""
        own: list[tuple[str, bytes | None]] = [
            ("chronosMessageId", uuid.uuid4().hex.encode()),
            ("chronosDeadline", format_instant(due_ms).encode()),
        ]
        self._producer.produce(
            self.settings.relay.in_topic, key=key, value=value, headers=[*own, *headers]
        )
        if value is not None:
            self.due_ms[value] = due_ms

    def flush(self) -> None:
        """Wait until the broker has what was put."""
        assert not self._producer.flush(WAIT_S)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until what was read makes something true."""
        with self._seen:
            assert self._seen.wait_for(holds, WAIT_S), what

    def wait_for_all(self) -> None:
        """Wait until everything sent has appeared."""
        self.wait_until(lambda: not self.missing(), f"{len(self.due_ms)} messages appear")

    def missing(self) -> set[bytes]:
        """Return what was sent and has not appeared."""
        return self.due_ms.keys() - {each.value for each in self.arrivals}

    def judge(self) -> list[int]:
        """Demand that each message appeared once and not early; return how late they were."""
        committed = read_committed(self.settings, self.settings.relay.out_topic)
        counted = Counter(each.value for each in committed)
        assert counted.keys() == self.due_ms.keys()
        assert counted.total() == len(counted), counted.most_common(3)
        late = [each.read_ms - self.due_ms[each.value or b""] for each in self.arrivals]
        assert min(late) >= 0
        return sorted(late)

    def letters(self) -> list[Arrival]:
        """Return the dead letters there are."""
        return read_committed(self.settings, self.settings.topic.dead_letter)

    def close(self) -> None:
        """Let go of everything."""
        self._closed.set()
        self._thread.join()
        self.client.close()

    def _read(self) -> None:
        consumer = _consumer(self.settings)
        consumer.subscribe([self.settings.relay.out_topic])
        while not self._closed.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            with self._seen:
                self.arrivals.append(_arrival(message))
                self._seen.notify_all()
        consumer.close()


def read_committed(settings: Settings, topic: str) -> list[Arrival]:
    """Return every committed record of a topic, from beginning to end."""
    consumer = _consumer(settings)
    partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    found, left = [], set(partitions)
    while left:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{topic!r} is silent"
        error = message.error()
        if error is None:
            found.append(_arrival(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
    consumer.close()
    return found


def _arrival(message: Any) -> Arrival:
    return Arrival(
        message.key(), message.value(), list(message.headers() or ()), SystemClock().now_ms()
    )


def _consumer(settings: Settings) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )


def bucket_process(settings: Settings, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a node as an operator does, its log in a file of the folder."""
    name = uuid.uuid4().hex[:6]
    config = folder / f"{name}.json"
    config.write_text(settings.model_dump_json(exclude_unset=True), encoding="utf-8")
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", _NODE, str(config)], cwd=ROOT, stdout=log, stderr=log
        )
