"""Storage with Kafka alone, on Kafka: the parts of ``BucketStorage``."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import Polled, Position, StartPosition
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    describe_topic,
)
from hourhand.scheduler.adapters.kafka.log import KafkaLog
from hourhand.scheduler.adapters.kafka.topics import raise_partitions
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.kafka.pending_topics import delay_covered_ms
from hourhand.scheduler.kafka_only.kafka.tails import TailReader
from hourhand.scheduler.kafka_only.kafka.targets import TargetTopics
from hourhand.scheduler.kafka_only.kafka.transactions import KafkaTransactions
from hourhand.scheduler.kafka_only.ports import (
    BucketAdmin,
    HeldLog,
    PartitionTransactions,
    PendingWriter,
)

_FETCHED_BYTES = 1_000_000
_FETCHED_MS = 30
"""Longest time for which the broker gathers a fetch; a message that is due sooner is delayed by
it."""
_METADATA_MS = 5_000
"""Time between two checks for new partitions of the topic."""


class KafkaHeldLog(KafkaLog):
    """One member of a group whose offsets are committed by transactions alone.

    ``settings`` name topic and group; with ``marker_topic`` each transaction writes a marker.
    """

    def __init__(
        self, settings: Settings, clock: Clock, targets: TargetTopics, marker_topic: str | None
    ) -> None:
        self._targets = targets
        self._marker_topic = marker_topic
        super().__init__(settings, clock)
        self._membership: Any = self._consumer.consumer_group_metadata()

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Serve the group's protocol, keep the membership for transactions, and return records."""
        polled = super().poll(records_max, timeout_ms)
        # Called on the polling thread: on another one it would wait until polling pauses.
        self._membership = self._consumer.consumer_group_metadata()
        return polled

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin at the broker's own offsets, which transactions and markers set."""
        begun = super().start(partition, stored_next_offset, stored_topic_id)
        self._shifts.pop(partition, None)
        return StartPosition(
            broker_offset(begun.next_offset), broker_offset(begun.end_offset), begun.topic_id
        )

    def hold(self, partition: int) -> None:
        """Deliver nothing more of a partition until it is released."""
        self._consumer.pause([TopicPartition(self._topic, partition)])

    def release(self, partition: int) -> None:
        """Continue with a partition where it was held."""
        self._consumer.resume([TopicPartition(self._topic, partition)])

    def transactions(self, partition: int) -> PartitionTransactions:
        """Open the transactions of an assigned partition."""
        return KafkaTransactions(
            self._settings,
            self._clock,
            partition,
            self._marker_topic,
            lambda: self._membership,
            self._targets,
        )

    def _properties(self) -> dict[str, Any]:
        return {
            # Unless the user sets these: without them the broker answers with the records of every
            # single transaction, and each answer costs a round of all members.
            "fetch.min.bytes": _FETCHED_BYTES,
            "fetch.wait.max.ms": _FETCHED_MS,
            **super()._properties(),
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": _METADATA_MS,
        }


class KafkaBucketAdmin:
    """Reads and changes the pending topic; usable from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_error = LastError()
        self._admin = admin_client(settings, self._last_error)
        self._layouts = TailReader(settings, settings.buckets.layout_topic)
        self._pending = TailReader(settings, settings.buckets.topic)
        self._lock = threading.Lock()

    def delay_ms_max(self) -> int:
        """Return the longest delay that retention covers; SettingsInvalid, TopicMissing."""
        return delay_covered_ms(self._settings)

    def layout(self) -> bytes | None:
        """Return the newest layout; TopicMissing, LogUnavailable."""
        with self._lock:
            return self._layouts.last(0)

    def partition_count(self) -> int:
        """Return the broker's number of partitions."""
        return self._count(self._settings.buckets.topic)

    def occupancy(self) -> Mapping[int, int]:
        """Return the number of offsets between the group's offset and the end of each partition."""
        with self._lock:
            waiting = {}
            for partition, committed in enumerate(self._pending.committed(self.partition_count())):
                first, end = self._pending.bounds(partition)
                waiting[partition] = end - max(first, committed or 0)
            return waiting

    def add_partition(self) -> int:
        """Add a partition, to the marker topic first: its owner writes markers from the
        beginning.
        """
        buckets = self._settings.buckets
        count = self.partition_count() + 1
        for topic in (buckets.marker_topic, buckets.topic):
            raise_partitions(self._settings, topic, count, self._admin, self._last_error)
        return count

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._layouts.close()
            self._pending.close()

    def _count(self, topic: str) -> int:
        described = describe_topic(self._settings, topic, self._admin, self._last_error)
        return len(described.partitions)


class KafkaPendingWriter(KafkaWriter):
    """Appends messages to the pending topic, one by one; ``settings`` name it as their topic."""

    def append_message(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[Position]":
        """Append a message byte for byte; TaskTooLarge, LogUnavailable through the future."""
        return self._produce(self._topic, value, key, partition, headers)

    def knows(self, partition: int) -> bool:
        """True if the producer can reach a partition; asks the broker about new ones."""
        timeout_s = self._settings.kafka.connect_timeout_ms / 1000
        try:
            found = self._producer.driver.list_topics(self._topic, timeout_s)
        except KafkaException as error:
            raise self.failure(error.args[0], self._topic) from error
        return partition in found.topics[self._topic].partitions


class KafkaBuckets:
    """Opens the parts; sends no request itself."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._targets = TargetTopics(settings, clock)

    def away_until_ms(self, topic: str, key: bytes | None) -> int | None:
        """Return the time until which a target takes no message of a key."""
        return self._targets.away_until_ms(topic, key)

    def pending_log(self) -> HeldLog:
        """Open the pending topic, with markers."""
        buckets = self._settings.buckets
        settings = _reading(self._settings, buckets.topic, buckets.group_id)
        return KafkaHeldLog(settings, self._clock, self._targets, buckets.marker_topic)

    def in_log(self) -> HeldLog:
        """Open the relay's in-topic, without markers."""
        relay = self._settings.relay
        settings = _reading(self._settings, relay.in_topic, relay.group_id)
        return KafkaHeldLog(settings, self._clock, self._targets, None)

    def admin(self) -> BucketAdmin:
        """Open the port that reads and changes the pending topic."""
        return KafkaBucketAdmin(self._settings)

    def writer(self) -> PendingWriter:
        """Open the writer for clients."""
        buckets = self._settings.buckets
        settings = _reading(self._settings, buckets.topic, buckets.group_id)
        return KafkaPendingWriter(settings, self._clock)


def _reading(settings: Settings, topic: str, group_id: str) -> Settings:
    """Return settings under which a topic is read as the log of its own group."""
    named = settings.topic.model_copy(update={"name": topic})
    # Transactions fence its owners, which was tested with the classic protocol only.
    group = settings.group.model_copy(update={"id": group_id, "protocol": "classic"})
    return settings.model_copy(update={"topic": named, "group": group})
