"""The topics as others see them: Kafka's own console producer, and a plain consumer.

Nothing here is Hourhand's, so what is read back proves where records really lie.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from hourhand import Settings
from tests.servers.kafka import kafka_tool

_TIMEOUT_S = 60.0
_POLL_S = 0.5


def write_by_console(settings: Settings, records: Iterable[tuple[str, str]]) -> None:
    """Write keys and values with ``kafka-console-producer``, partitioned as it likes."""
    kafka_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        settings.kafka.bootstrap_servers,
        "--topic",
        settings.topic.name,
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=\t",
        standard_input="".join(f"{key}\t{value}\n" for key, value in records),
    )


def write_raw(settings: Settings, records: Iterable[tuple[int, str, str]]) -> None:
    """Write keys and values into the partitions named."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for partition, key, value in records:
        producer.produce(
            settings.topic.name,
            key=key,
            value=value,
            partition=partition,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    if producer.flush(_TIMEOUT_S) or failures:
        raise RuntimeError(f"Kafka did not take every record: {failures}")


@dataclass(frozen=True, slots=True)
class Found:
    """One record as it lies in a topic."""

    partition: int
    offset: int
    key: str
    value: str
    headers: Mapping[str, str]


def read_all(settings: Settings, topic: str) -> list[Found]:
    """Return every record that is in a topic right now."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            # Never a member of the nodes' group: reading must not disturb them.
            "group.id": f"{settings.group.id}-audit",
            "enable.auto.commit": False,
        }
    )
    try:
        ends: dict[int, int] = {}
        for partition in range(settings.topic.partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT_S)
            if high > low:
                ends[partition] = high
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        return _read_until(consumer, ends)
    finally:
        consumer.close()


def _read_until(consumer: Consumer, ends: dict[int, int]) -> list[Found]:
    found: list[Found] = []
    idle_s = 0.0
    while ends:
        messages = consumer.consume(1_000, _POLL_S)
        idle_s = 0.0 if messages else idle_s + _POLL_S
        if idle_s > _TIMEOUT_S:
            raise RuntimeError(f"the topic was not read to its end: {ends}")
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(f"the topic cannot be read: {message.error()}")
            found.append(_found(message))
            if found[-1].offset + 1 >= ends.get(found[-1].partition, 2**63):
                del ends[found[-1].partition]
    return found


def _found(message: Any) -> Found:
    return Found(
        message.partition(),
        message.offset(),
        (message.key() or b"").decode(),
        (message.value() or b"").decode(),
        {name: (text or b"").decode() for name, text in message.headers() or ()},
    )


def committed_offsets(settings: Settings) -> dict[int, int]:
    """Return the offsets the nodes' group has committed, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": settings.group.id,
        }
    )
    try:
        wanted = [TopicPartition(settings.topic.name, n) for n in range(settings.topic.partitions)]
        return {each.partition: each.offset for each in consumer.committed(wanted, _TIMEOUT_S)}
    finally:
        consumer.close()


def partitions_by_key(records: Iterable[Found]) -> dict[str, set[int]]:
    """Return the partitions each key was found in."""
    partitions: dict[str, set[int]] = defaultdict(set)
    for record in records:
        partitions[record.key].add(record.partition)
    return dict(partitions)
