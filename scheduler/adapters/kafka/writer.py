"""``LogWriter`` on one idempotent Kafka producer, and ``AppendGroup`` and ``MessageWriter`` on it.

The caller names the partition, or the driver finds it by Kafka's default rule, which is set
explicitly because the driver's own default differs.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Producer

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import HourhandError, LogUnavailable, TaskTooLarge
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AppendListener, Position
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    describe_topic,
    opened,
    shared_properties,
    translated,
)
from hourhand.scheduler.adapters.kafka.serving import ANY_PARTITION, ServedProducer
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.dead_letters import LEFT_OUT, letter_headers
from hourhand.scheduler.runtime.light_future import LightFuture, failed, then
from hourhand.scheduler.runtime.steps import Steps, begun

logger = logging.getLogger("hourhand.kafka")

_CLOSE_TIMEOUT_S = 10.0
_HELD_BYTES_MAX = 10_000
"""Larger records of a group soon fill a request, and a thousand of them need much memory."""
_GIVEN_UP = frozenset(
    {
        KafkaError._FATAL,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        # A report has only its code: the driver's idempotent producer gives up with these.
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
_DRIVER_RECORD_BYTES_MAX = 110_000_000
"""``client.record_bytes_max`` and the broker limit sizes; the driver's own limit must admit a dead
letter for a record of another producer."""


class KafkaGroup:
    """Records of one thread, in one topic; the driver finds each one's partition.

    All records share one callback, which counts; each record creates only its bytes. After a
    failure the failed records are found by their bytes; of several with equal bytes any one may be
    reported.
    """

    def __init__(
        self,
        producer: ServedProducer,
        topic: str,
        refuse_large: Callable[[bytes, bytes], None],
        failure: Callable[[KafkaError, str], HourhandError],
    ) -> None:
        """``refuse_large`` raises TaskTooLarge for a key and value above the limit."""
        self._producer = producer
        self._topic = topic
        self._refuse_large = refuse_large
        self._failure = failure
        self._values: list[bytes] = []
        self._reported = 0
        self._failed: list[tuple[bytes, HourhandError]] = []
        self._refused: list[tuple[bytes, HourhandError]] = []
        """Records that the driver never got; any thread may add one at any time."""

    def append(self, ordering_id: str, value: bytes) -> None:
        key = ordering_id.encode()
        self._refuse_large(key, value)
        if len(value) < _HELD_BYTES_MAX:
            self._producer.hold(self._topic, value, key, self._delivered, self._take_refusal)
        else:
            self._producer.produce(self._topic, value, key, ANY_PARTITION, self._delivered)
        self._values.append(value)

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait for the reports of all records, which the driver's own timeout bounds."""
        # An error here is also reported for each record that it affects.
        with suppress(HourhandError):
            self._producer.hand_over()
        self._producer.serve_until(self._is_told)
        failed = self._failed + self._refused
        if not failed:
            return {}
        places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for number, value in enumerate(self._values):
            places[value].append(number)
        return {places[value].popleft(): error for value, error in failed}

    def _is_told(self) -> bool:
        return self._reported + len(self._refused) >= len(self._values)

    def _take_refusal(self, value: bytes, error: HourhandError) -> None:
        self._refused.append((value, error))

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        """Count a report; called by the driver, once a record, by one thread at a time."""
        self._reported += 1
        if error is not None:
            self._failed.append((message.value(), self._failure(error, self._topic)))


class KafkaWriter:
    """Appends to ``settings.topic``; usable from any thread, and right after construction."""

    linger_ms = 2
    """Time for which a record waits for others of its partition; a batch costs the broker about as
    much as a record."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._topic = settings.topic.name
        self._last_error = LastError()
        self._partition_count: int | None = None
        room_timeout_s = settings.kafka.delivery_timeout_ms / 1000
        self._producer = ServedProducer(self._open_driver, self.failure, room_timeout_s, clock)

    def partition_count(self) -> int:
        """Return the topic's number of partitions, which is read once."""
        if self._partition_count is None:
            topic = self._settings.topic.name
            admin = admin_client(self._settings, self._last_error)
            described = describe_topic(self._settings, topic, admin, self._last_error)
            self._partition_count = len(described.partitions)
        return self._partition_count

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        if partition < 0:
            raise ValueError(
                f"partition {partition} is not a partition: Kafka would choose one itself"
            )
        try:
            self._refuse_large(key, value)
        except TaskTooLarge as error:
            return failed(error)
        return self._produce(self._topic, value, key, partition, headers)

    def append_for(
        self, appended: AppendListener, partition: int, key: bytes, value: bytes
    ) -> None:
        """Append a record without headers, and call ``appended`` with the result."""
        try:
            self._refuse_large(key, value)
            reported = partial(self._reported, appended)
            self._producer.produce(self._topic, value, key, partition, reported)
        except HourhandError as error:
            # Their traces refer to the frames of this call, which refer to the future with the
            # error.
            if error.__cause__ is not None:
                error.__cause__.with_traceback(None)
            appended.set_exception(error.with_traceback(None))

    def _reported(self, appended: AppendListener, error: KafkaError | None, message: Any) -> None:
        """Report a record's result; called by the driver, once."""
        if error is None:
            appended.set_result(Position(message.partition(), message.offset()))
        else:
            appended.set_exception(self.failure(error, message.topic()))

    def begin_group(self) -> KafkaGroup:
        """Return a group whose records share one callback."""
        return KafkaGroup(self._producer, self._topic, self._refuse_large, self.failure)

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append a record to the dead-letter topic.

        If the broker finds it too large, a letter without key and value is written instead, because
        a record that cannot be put aside would block its partition.
        """
        return begun(
            self._letter(record, letter_headers(self._settings.topic.name, record, reason))
        )

    def _letter(self, record: LogRecord, noted: Headers) -> Steps[Position]:
        topic = self._settings.topic.dead_letter
        whole, short = [*record.headers, *noted], [*noted, *LEFT_OUT]
        # The new letter gets the time of its writing: with the record's own, which may be years
        # off, the broker could refuse it or remove it at once.
        try:
            at: Position = yield self._produce(topic, record.value, record.key, headers=whole)
        except TaskTooLarge:
            at = yield self._produce(topic, None, None, headers=short)
        return at

    def flush(self, timeout_ms: int) -> int:
        """Wait for acknowledgements; return the number that is missing."""
        return self._producer.flush(timeout_ms / 1000)

    def close(self) -> None:
        """Flush for up to ten seconds; unacknowledged records then fail."""
        self._producer.close(_CLOSE_TIMEOUT_S)

    def _produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int = ANY_PARTITION,
        headers: Headers = (),
    ) -> "Future[Position]":
        future = _ReportedAppend(self)
        try:
            self._producer.produce(topic, value, key, partition, future.delivered, headers)
        except HourhandError as error:
            future.set_exception(error)
        return future

    def _refuse_large(self, key: bytes, value: bytes) -> None:
        size_bytes = len(key) + len(value)
        limit_bytes = self._settings.client.record_bytes_max
        if size_bytes > limit_bytes:
            raise TaskTooLarge(
                f"the record has {size_bytes} bytes, client.record_bytes_max allows"
                f" {limit_bytes}; keep large data elsewhere and schedule a reference to it"
            )

    def failure(self, error: KafkaError, topic: str) -> HourhandError:
        """Return the error to fail a record of ``topic`` with."""
        if error.fatal() or error.code() in _GIVEN_UP:
            return LogUnavailable(
                "the producer was closed, or given up by the driver, before Kafka acknowledged the"
                " record, which may be stored or not; schedule it again, the same key runs once"
                f" ({error.name()}: {error.str()})"
            )
        return translated(error, self._settings, self._last_error, f"appending to {topic!r}", topic)

    def _open_driver(self) -> Producer:
        return opened(Producer, self._properties())

    def _properties(self) -> dict[str, Any]:
        kafka = self._settings.kafka
        chosen = {
            "linger.ms": str(self.linger_ms),
            "compression.type": "lz4",
            # A broker refuses a batch as a whole, so small batches separate small records from one
            # that is too large.
            "batch.size": "262144",
            "queue.buffering.max.kbytes": "65536",
            "partitioner": "murmur2_random",
            **kafka.producer_properties,
        }
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": kafka.delivery_timeout_ms,
            "message.max.bytes": _DRIVER_RECORD_BYTES_MAX,
        }


class _ReportedAppend(LightFuture[Position]):
    """A record's future, which gets the driver's report itself."""

    def __init__(self, writer: KafkaWriter) -> None:
        self._writer = writer

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """Resolve the future; called by the driver, once."""
        if error is None:
            self.set_result(Position(message.partition(), message.offset()))
        else:
            self.set_exception(self._writer.failure(error, message.topic()))


def open_writer(settings: Settings) -> KafkaWriter:
    """Open a producer for the log; no request is sent yet."""
    return KafkaWriter(settings, SystemClock())


def open_messages(settings: Settings) -> "KafkaMessages":
    """Open a producer for topics of others; no request is sent yet."""
    return KafkaMessages(settings, SystemClock())


class KafkaMessages(KafkaWriter):
    """The same producer for topics of others; no request is sent before a message."""

    linger_ms = 5

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message; an empty list of headers equals none in Kafka."""
        produced = self._produce(topic, value, key, headers=headers)
        return then(produced, lambda _position: None)
