"""Binds the message suite to a real broker."""

import random
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.topics import create_topics
from hourhand.scheduler.adapters.kafka.writer import KafkaMessages
from hourhand.scheduler.configuration.settings import Settings
from tests.conformance import messages as suite
from tests.conformance.messages import Found, MessageSuite, Read
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration

WAIT_S = 60.0


@pytest.fixture
def messages(kafka_server: KafkaServer) -> "Iterator[_OwnTopic]":
    """Return a writer, and give the test a topic of its own."""
    name = f"messages_{uuid.uuid4().hex[:12]}"
    settings = Settings(
        log="kafka",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 3},
        kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
    )
    create_topics(settings)
    writer = _OwnTopic(settings)
    yield writer
    writer.close()


class _OwnTopic(KafkaMessages):
    """Writes what the suite means for its topic to the test's own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, SystemClock())
        self.own = settings.topic.name
        self.servers = settings.kafka.bootstrap_servers

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce to the test's topic."""
        return super().produce(self.own if topic == suite.TOPIC else topic, key, value, headers)


@pytest.fixture
def read(messages: _OwnTopic) -> Iterator[Read]:
    """Return what was written."""
    consumer = Consumer(
        {
            "bootstrap.servers": messages.servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([messages.own])

    def first(count: int) -> list[Found]:
        found: list[Found] = []
        while len(found) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{len(found)} of {count} messages"
            headers: Any = message.headers() or []
            found.append((message.key(), message.value(), list(headers)))
        return found

    yield first
    consumer.close()


class TestKafkaMessages(MessageSuite):
    """On a broker."""


def test_a_message_above_the_topics_size_fails_by_itself(messages: _OwnTopic, read: Read) -> None:
    """Those around it are written."""
    # Random, or the driver would make it small.
    long = random.Random(7).randbytes(20_000_000)
    futures = [messages.produce(suite.TOPIC, b"k", value, ()) for value in (b"1", long, b"2")]

    assert futures[0].exception(WAIT_S) is None
    assert isinstance(futures[1].exception(WAIT_S), TaskTooLarge)
    assert futures[2].exception(WAIT_S) is None
    assert [value for _, value, _ in read(2)] == [b"1", b"2"]
