"""``PartitionTransactions`` on a transactional producer whose id follows the partition.

Decides which of the driver's errors mean a refused record, a new owner, or an unknown outcome.
Target records keep the producer's default partitioner of Kafka.

The driver sends a request again after a lost connection, and both copies may arrive: a late one
would end, or change, a later transaction. So a producer that lost a connection, or waited too long
for an answer, begins no further transaction: the next one has a new epoch.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    driver_logger,
    opened,
    security_advice,
    shared_properties,
)
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.kafka.tails import TailReader
from hourhand.scheduler.kafka_only.kafka.targets import TargetTopics
from hourhand.scheduler.kafka_only.ports import Fenced, Outgoing, Refused
from hourhand.scheduler.runtime.pause import pause

logger = logging.getLogger("hourhand.buckets")

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_REFUSED = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
    }
)
"""Errors of a single record, for which a retry cannot help."""
_TRIES = 5
_AGAIN_S = 0.05
_QUEUE_FULL_WAIT_S = 0.01
_OFFSETS_EVERY_MS = 200.0
"""Time between two commits of the group's offset where markers are written: a marker holds more,
and the offset costs further round trips."""
_RECORD_BYTES_MAX = 110_000_000
_RETRY_MS = 2
"""The driver's pause while the broker still ends the previous transaction."""
_TAKEN_SHARE = 0.5
_ENDED_SHARE = 0.4
"""Shares of the transaction's time: ``_TAKEN_SHARE`` until its records are acknowledged, and
``_ENDED_SHARE`` for its end. Each is shorter than the driver's request timeout, after which it
would close the connection."""
_SOCKET_MARGIN_MS = 100
_DROPPED_S = 1.0
TELLING = {"log_level": "6", "log.connection.close": "true", "connections.max.idle.ms": "30000"}
"""Driver properties that log each connection lost with a request under way. The driver logs nothing
about connections that were idle for a minute, nor about the next similar loss: so it must close
idle ones itself before that."""
_NEVER_UP = "in state CONNECT"
"""Part of the driver's line about a connection over which nothing was sent."""
_LOST = "FAIL"
"""The driver's mark of lines about failed connections."""


class Losses:
    """The connections that one client lost while a request may have been under way.

    The driver sends a request again over a new connection and reports that nowhere; its line about
    the lost connection is the only sign. This class takes the driver's lines in a logger's place,
    while the driver is polled, and decides nothing.
    """

    def __init__(self) -> None:
        self.lost = ""
        """The line about the first lost connection that may have had a request under way."""

    def log(self, level: int, form: str, *arguments: str) -> None:
        """Pass a line on and check it for a loss; the arguments are its mark, the client, its
        text.
        """
        driver_logger.log(level, form, *arguments)
        if arguments[0] == _LOST and _NEVER_UP not in arguments[-1]:
            self.lost = self.lost or arguments[-1]


@contextlib.contextmanager
def fatal_errors_told() -> Iterator[None]:
    """Raise the driver's fatal error instead of Python's SystemError about a callback.

    The driver sets the error while it is polled and then runs its callbacks, so Python blames a
    callback: SystemError, caused by the KafkaException.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


class KafkaTransactions:
    """The transactions of one partition; used from one thread."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        partition: int,
        marker_topic: str | None,
        membership: Callable[[], Any],
        targets: TargetTopics,
    ) -> None:
        """``settings`` name the topic read; ``membership`` returns the group's current
        membership.
        """
        self._settings = settings
        self._clock = clock
        self._place = TopicPartition(settings.topic.name, partition)
        self._marker_topic = marker_topic
        self._membership = membership
        self._targets = targets
        self._last_error = LastError()
        timeout_s = settings.buckets.transaction_timeout_ms / 1000
        self._taken_s, self._ended_s = _TAKEN_SHARE * timeout_s, _ENDED_SHARE * timeout_s
        self._producer: Any = None
        self._losses = Losses()
        self._failed: tuple[int, KafkaError] | None = None
        self._untaken: dict[int, Outgoing] = {}
        """Produced records without an acknowledgement, by number."""
        self._dropped: dict[int, tuple[str, int]] = {}
        """Topic and partition of records that the driver gave up, by number."""
        self._partitions_known: dict[str, int] = {}
        self._offsets_sent_ms = -math.inf

    def begin(self) -> bytes | None:
        """Fence earlier owners, wait until no transaction of this id is under way, read the last
        marker.
        """
        self.close()
        self._losses = Losses()
        self._producer = opened(Producer, self._properties(), self._losses)
        self._partitions_known.clear()
        try:
            self._producer.init_transactions(self._settings.kafka.delivery_timeout_ms / 1000)
        except KafkaException as error:
            raise self._unknown("beginning", error.args[0]) from error
        if self._marker_topic is None:
            return None
        with closing(TailReader(self._settings, self._marker_topic)) as reader:
            return reader.last(self._place.partition)

    def commit(self, outgoing: Sequence[Outgoing], next_offset: int, marker: bytes | None) -> None:
        """Produce, record the progress, commit; a transaction that the broker aborts is retried."""
        for tries_left in range(_TRIES, 0, -1):
            self._refuse_missing(outgoing)
            try:
                with fatal_errors_told():
                    self._check_losses("before a transaction")
                    self._try(outgoing, next_offset, marker)
            except KafkaException as error:
                failure = error.args[0]
                self._judge(failure)
                if tries_left == 1:
                    raise self._unknown("committing", failure) from error
                logger.info("%s: retried: %s", self._place, failure.str())
                # Usually a rebalance is under way, whose result the polling thread learns.
                pause(_AGAIN_S)
            else:
                self._check_losses("committing")
                return

    def close(self) -> None:
        """Close the producer; the broker ends an open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with contextlib.suppress(KafkaException):
                # It was fenced: no error remains to be reported.
                producer.flush(0)

    def _try(self, outgoing: Sequence[Outgoing], next_offset: int, marker: bytes | None) -> None:
        producer, self._failed = self._producer, None
        self._untaken.clear()
        self._dropped.clear()
        producer.begin_transaction()
        for number, each in enumerate(outgoing):
            self._produce(each, number)
        if marker is not None and self._marker_topic is not None:
            partition = self._place.partition
            key = b"%d" % partition
            self._produce(Outgoing(self._marker_topic, partition, key, marker), len(outgoing))
        now_ms = self._clock.monotonic_ms()
        if marker is None or now_ms - self._offsets_sent_ms >= _OFFSETS_EVERY_MS:
            place = TopicPartition(self._place.topic, self._place.partition, next_offset)
            producer.send_offsets_to_transaction([place], self._membership(), self._taken_s)
            self._offsets_sent_ms = now_ms
        if producer.flush(self._taken_s):
            raise self._give_up(len(outgoing) + (marker is not None))
        producer.commit_transaction(self._ended_s)

    def _give_up(self, count: int) -> LogUnavailable:
        """Record which targets did not acknowledge while others did; return the error to raise."""
        untaken = dict(self._untaken)
        # The driver reports each dropped record, and so the partition of each.
        self._producer.purge()
        self._producer.flush(_DROPPED_S)
        if len(untaken) < count:
            for number, each in untaken.items():
                if each.partition is None and number in self._dropped:
                    topic, partition = self._dropped[number]
                    self._targets.note_away(topic, partition)
        topics = ", ".join(sorted({each.topic for each in untaken.values()})[:5])
        return LogUnavailable(
            f"partition {self._place.partition} of {self._place.topic!r}: {topics} did not take"
            f" {len(untaken)} of {count} records within {self._taken_s:g} s; its owner begins again"
        )

    def _produce(self, each: Outgoing, number: int) -> None:
        partition = each.partition
        if partition is None:
            partition = self._targets.partition_for(each.topic, each.key)
        self._look_for(each.topic, partition)
        while True:
            try:
                self._producer.produce(
                    each.topic,
                    each.value,
                    each.key,
                    partition,
                    on_delivery=partial(self._delivered, number),
                    headers=list(each.headers),
                )
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT_S)
            except KafkaException as error:
                self._failed = self._failed or (number, error.args[0])
                raise
            else:
                self._untaken[number] = each
                return

    def _delivered(self, number: int, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._untaken.pop(number, None)
            self._targets.note_taken(message.topic(), message.partition())
        elif error.code() in _REFUSED:
            self._failed = self._failed or (number, error)
        else:
            self._dropped[number] = message.topic(), message.partition()

    def _judge(self, error: KafkaError) -> None:
        """Leave the transaction; raise the error unless the same transaction can be retried."""
        if error.code() in _FENCED:
            raise Fenced(f"{self._place}: {error.str()}")
        if not error.txn_requires_abort() and self._failed is None:
            # After a timeout, a lost connection or a conflict it is unknown what the broker did or
            # will do, so nothing more is requested under this epoch.
            raise self._unknown("in a transaction", error)
        try:
            self._producer.abort_transaction(self._ended_s)
        except KafkaException as failed:
            if failed.args[0].code() in _FENCED:
                raise Fenced(f"{self._place}: {failed.args[0].str()}") from failed
            raise self._unknown("aborting", failed.args[0]) from failed
        self._check_losses("aborting")
        if self._failed is not None and self._failed[1].code() in _REFUSED:
            raise Refused(self._failed[0], self._failed[1].str())

    def _check_losses(self, doing: str) -> None:
        """Raise LogUnavailable if the driver may have sent a request twice."""
        self._producer.poll(0)
        if self._losses.lost:
            raise LogUnavailable(
                f"partition {self._place.partition} of {self._place.topic!r}, {doing}: a request"
                f" may arrive twice ({self._losses.lost}); its owner begins again"
            )

    def _refuse_missing(self, outgoing: Sequence[Outgoing]) -> None:
        for number, each in enumerate(outgoing):
            if each.partition is None and not self._targets.exists(each.topic):
                raise Refused(number, f"topic {each.topic!r} does not exist")

    def _look_for(self, topic: str, partition: int) -> None:
        """Make the driver request metadata about a partition that may be new to it."""
        if partition < self._partitions_known.get(topic, 0):
            return
        found = self._producer.list_topics(topic, self._taken_s)
        self._partitions_known[topic] = len(found.topics[topic].partitions)

    def _unknown(self, doing: str, error: KafkaError) -> LogUnavailable:
        advice = security_advice(self._settings.kafka, error.code(), error.str())
        return LogUnavailable(
            f"partition {self._place.partition} of {self._place.topic!r}, {doing}:"
            f" {error.name()}: {error.str()}; its owner begins again"
            + (f". {advice}" if advice else "")
        )

    def _properties(self) -> dict[str, Any]:
        settings = self._settings
        timeout_ms = settings.buckets.transaction_timeout_ms
        chosen = {
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.kbytes": "65536",
            **settings.kafka.producer_properties,
        }
        return {
            **shared_properties(settings, chosen, self._last_error),
            "transactional.id": f"{settings.group.id}.{self._place.topic}.{self._place.partition}",
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": timeout_ms - _SOCKET_MARGIN_MS,
            **TELLING,
            # Long enough to batch the records of a transaction; its end flushes them.
            "linger.ms": 2,
            "retry.backoff.ms": _RETRY_MS,
            "retry.backoff.max.ms": 10 * _RETRY_MS,
            "message.max.bytes": _RECORD_BYTES_MAX,
            "topic.metadata.propagation.max.ms": 5_000,
        }
