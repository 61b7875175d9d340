"""``TopicReader`` on a Kafka consumer that joins no group and commits nothing.

The caller decides the range and keeps the offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.adapters.kafka.closing import close_client
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    bounds_of,
    describe_topic,
    opened,
    shared_properties,
    translated,
)
from hourhand.scheduler.adapters.kafka.fetching import record_of
from hourhand.scheduler.configuration.settings import Settings

_RECORDS_MAX = 5_000
_WAIT_S = 1.0


class KafkaTopicReader:
    """Reads one topic; raises TopicMissing if it does not exist."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._last_error = LastError()
        self._consumer: Any = opened(Consumer, self._properties())

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        admin = admin_client(self._settings, self._last_error)
        described = describe_topic(self._settings, self._topic, admin, self._last_error)
        return {
            each.id: bounds_of(
                self._consumer, self._settings, self._topic, each.id, self._last_error
            )
            for each in described.partitions
        }

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        if start >= end:
            return
        self._consumer.assign([TopicPartition(self._topic, partition, start)])
        silent_s = 0.0
        while start < end:
            messages = self._consumer.consume(_RECORDS_MAX, _WAIT_S)
            silent_s = 0.0 if messages else silent_s + _WAIT_S
            if silent_s * 1000 > self._settings.kafka.connect_timeout_ms:
                raise LogUnavailable(
                    f"Kafka at {self._settings.kafka.bootstrap_servers} gave no record of"
                    f" {self._topic!r}, partition {partition}, from offset {start} on: see whether"
                    " the partition has a leader, then read again"
                )
            records, start = self._taken(messages, start, end)
            if records:
                yield records
        self._consumer.unassign()

    def close(self) -> None:
        close_client(self._consumer)

    def _taken(self, messages: Sequence[Any], start: int, end: int) -> tuple[list[LogRecord], int]:
        """Return the requested records, and the next expected offset."""
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                if message.offset() < end:
                    records.append(record_of(message))
                start = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The rest before the end are offsets without a record.
                start = max(start, message.offset())
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise LogUnavailable(
                    f"{self._topic!r}, partition {message.partition()}, has no offset {start} any"
                    f" more: {error.str()}; records expired before they were read"
                )
            elif error.fatal():
                raise self._failure(error)
        return records, start

    def _failure(self, error: KafkaError) -> Exception:
        return translated(
            error, self._settings, self._last_error, f"reading {self._topic!r}", self._topic
        )

    def _properties(self) -> dict[str, Any]:
        chosen = {"fetch.wait.max.ms": "100", **self._settings.kafka.consumer_properties}
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            # The driver requires a name; nothing is subscribed or committed.
            "group.id": f"{self._settings.group.id}-reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
