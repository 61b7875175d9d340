"""``LogTail`` on Kafka: the group's offsets and members, and records read outside the group.

Decides where a node would go on reading, as a node does, and never joins or commits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from actors.model.codec import LogRecord
from scheduler.adapters.kafka.closing import close_client
from scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    answer_within,
    opened,
    shared_properties,
    translated,
)
from scheduler.adapters.kafka.position import Found, chosen_position
from scheduler.adapters.kafka.reading import KafkaTopicReader
from scheduler.configuration.settings import Settings
from scheduler.ports.transfer import Span


class KafkaTail:
    """``settings.topic.name`` as the group ``settings.group.id`` left it; TopicMissing."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_error = LastError()
        self._reader = KafkaTopicReader(settings, settings.topic.name)

    def spans(self, stored: Mapping[int, int | None]) -> Mapping[int, Span]:
        bounds = self._reader.bounds()
        committed = self._committed(sorted(bounds))
        return {
            each: Span(first, chosen_position(each, stored.get(each), found), end)
            for each, (first, end) in bounds.items()
            for found in [Found(committed[each], first, end)]
        }

    def members(self) -> int:
        group = self._settings.group.id
        admin = admin_client(self._settings, self._last_error)
        future = admin.describe_consumer_groups(
            [group], request_timeout=self._settings.kafka.connect_timeout_ms / 1000
        )[group]
        what = f"asking who is in group {group!r}"
        described: Any = answer_within(future, self._settings, admin, self._last_error, what)
        return len(described.members)

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        return self._reader.read(partition, start, end)

    def close(self) -> None:
        self._reader.close()

    def _committed(self, partitions: Sequence[int]) -> Mapping[int, int | None]:
        asking = opened(Consumer, self._properties())
        topic = self._settings.topic.name
        try:
            answers = asking.committed(
                [TopicPartition(topic, each) for each in partitions],
                timeout=self._settings.kafka.connect_timeout_ms / 1000,
            )
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            what = f"asking for the offsets of group {self._settings.group.id!r}"
            raise translated(error.args[0], self._settings, self._last_error, what) from error
        finally:
            close_client(asking)
        return {each.partition: each.offset if each.offset >= 0 else None for each in answers}

    def _properties(self) -> dict[str, Any]:
        chosen = self._settings.kafka.consumer_properties
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            "group.id": self._settings.group.id,
            "enable.auto.commit": False,
        }
