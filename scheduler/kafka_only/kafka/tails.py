"""The last committed record of a partition, read outside every group.

A marker or a layout replaces all earlier ones, so its last record is enough.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.adapters.kafka.closing import close_client
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    bounds_of,
    opened,
    shared_properties,
    translated,
)
from hourhand.scheduler.configuration.settings import Settings

_OFFSETS = 64
"""Number of offsets read first, from the end; about half of them are records, the others end
transactions."""
_WIDER = 16
_POLL_S = 0.5


@contextmanager
def open_marks(settings: Settings) -> Iterator[Callable[[int], bytes | None]]:
    """Yield a function that reads the last marker of a partition; it raises LogUnavailable."""
    with closing(TailReader(settings, settings.buckets.marker_topic)) as reader:
        yield reader.last


class TailReader:
    """Reads the ends of one topic's partitions; used from one thread at a time."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._last_error = LastError()
        self._consumer: Any = opened(Consumer, self._properties())

    def last(self, partition: int) -> bytes | None:
        """Return the value of the last committed record; None if there is none."""
        first, end = self.bounds(partition)
        span = _OFFSETS
        while first < end:
            start = max(first, end - span)
            if (value := self._last_between(partition, start, end)) is not None or start == first:
                return value
            span *= _WIDER
        return None

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first existing offset and the next one to be written; LogUnavailable."""
        return bounds_of(self._consumer, self._settings, self._topic, partition, self._last_error)

    def committed(self, partitions: int) -> list[int | None]:
        """Return the group's next offset of each partition, None if it has none."""
        asked = [TopicPartition(self._topic, each) for each in range(partitions)]
        timeout_s = self._settings.kafka.connect_timeout_ms / 1000
        try:
            found = self._consumer.committed(asked, timeout=timeout_s)
        except KafkaException as error:
            raise self._failure(error.args[0]) from error
        return [each.offset if each.offset >= 0 else None for each in found]

    def close(self) -> None:
        """Close the connections."""
        close_client(self._consumer)

    def _last_between(self, partition: int, start: int, end: int) -> bytes | None:
        self._consumer.assign([TopicPartition(self._topic, partition, start)])
        try:
            return self._drained(end)
        finally:
            self._consumer.unassign()

    def _drained(self, end: int) -> bytes | None:
        value: bytes | None = None
        silent_s = 0.0
        while silent_s * 1000 <= self._settings.kafka.connect_timeout_ms:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                silent_s += _POLL_S
                continue
            error = message.error()
            if error is None:
                silent_s = 0.0
                value = message.value()
                if message.offset() + 1 >= end:
                    return value
            elif error.code() == KafkaError._PARTITION_EOF:
                # All other offsets have no record, or belong to a transaction under way.
                return value
        raise LogUnavailable(
            f"Kafka at {self._settings.kafka.bootstrap_servers} gave no record of"
            f" {self._topic!r}: see whether its partitions have a leader"
        )

    def _failure(self, error: KafkaError) -> Exception:
        return translated(
            error, self._settings, self._last_error, f"reading {self._topic!r}", self._topic
        )

    def _properties(self) -> dict[str, Any]:
        chosen = {"fetch.wait.max.ms": "50", **self._settings.kafka.consumer_properties}
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            # Only the group's committed offsets are read: nothing is subscribed or committed.
            "group.id": self._settings.buckets.group_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
