"""Records on their way from the driver to ``poll``: which are delivered, dropped or kept.

A partition's records are delivered from ``begin`` to ``forget``; records that are fetched earlier,
from its most likely position, are kept aside until then. A batch from the driver may have been
collected before a callback, in the same call, gave the partition up or began it somewhere else;
such a batch is dropped for that partition, which is then read again.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.log import Polled
from hourhand.scheduler.adapters.kafka.connection import UNAUTHORIZED
from hourhand.scheduler.runtime.pause import pause

logger = logging.getLogger("hourhand.kafka")

_AHEAD_RECORDS_MAX = 1_000
_AHEAD_BYTES_MAX = 4_000_000
_AHEAD_STEP_RECORDS = 100
_ENOUGH_RECORDS = 500
"""With this number of records no others are waited for."""
_EXPECTED_RECORDS_MAX = 500
_EXPECTED_BYTES_MAX = 1_000_000
"""Most bytes that are kept aside of a partition while the store has not answered about its
owner."""
_SEEK_ATTEMPTS = 100
_SEEK_PAUSE_S = 0.02


@dataclass(slots=True)
class _Expected:
    """Fetched records of a partition that has not begun."""

    next_offset: int | None
    """The expected begin; None if too much came, and the partition was paused again."""
    kept: list[LogRecord | tuple[int, int]] = field(default_factory=list)
    size_bytes: int = 0


class Fetching:
    """Records that are fetched and not yet delivered; used from the polling thread."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._begun: dict[int, int] = {}
        """By started partition, the offset at which it last began."""
        self._expected: dict[int, _Expected] = {}
        self._moved: set[int] = set()
        """Partitions begun or forgotten since the last call of the driver."""
        self._waiting: deque[LogRecord | tuple[int, int]] = deque()
        """Records, and (partition, next offset) for an end of log, in order of arrival."""
        self._waiting_bytes = 0
        self._paused = False
        self.ends: dict[int, int] = {}
        """By partition that was read up to the last visible record, the offset reached."""

    def begin(self, partition: int, next_offset: int) -> None:
        """Deliver from ``next_offset`` on, and drop earlier fetched records of this partition."""
        expected = self._expected.get(partition)
        self.forget((partition,))
        self._begun[partition] = next_offset
        if expected is None or expected.next_offset != next_offset:
            self._seek(partition, next_offset)
        else:
            for each in expected.kept:
                self._keep(each)
        if expected is not None and self._paused:
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def expect(self, partition: int, next_offset: int) -> None:
        """Fetch from the expected begin of an assigned partition while its owner is being
        settled.
        """
        if partition in self._begun or partition in self._expected or self._paused:
            return
        # Refused while the driver has not begun with the partition: the next call may succeed.
        with contextlib.suppress(KafkaException):
            target = TopicPartition(self._topic, partition, next_offset)
            self._consumer.resume([target])
            self._consumer.seek(target)
            self._expected[partition] = _Expected(next_offset)

    def hold(self, partition: int) -> None:
        """Fetch and deliver nothing of this partition before it is begun again."""
        self.forget((partition,))
        self._consumer.pause([TopicPartition(self._topic, partition)])

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop fetched records of these partitions, and those that still arrive."""
        gone = frozenset(partitions)
        self._moved |= gone
        for partition in gone:
            self._begun.pop(partition, None)
            self._expected.pop(partition, None)
            self.ends.pop(partition, None)
        kept = [each for each in self._waiting if _partition_of(each) not in gone]
        self._waiting.clear()
        self._waiting_bytes = 0
        for each in kept:
            self._keep(each)

    def fetch(self, records_max: int, timeout_s: float, more_s: float) -> None:
        """Collect fetched records; wait ``timeout_s`` for a first one, ``more_s`` for others.

        The driver waits a whole timeout for a batch that is not full, so the waits are short.
        """
        wanted = max(records_max - len(self._waiting), 1)
        if self._paused and not self._waiting:
            self._resume()
        self._collect(wanted, 0.0)
        if not self._waiting:
            self._collect(1, timeout_s)
        missing = min(records_max, _ENOUGH_RECORDS) - len(self._waiting)
        if self._waiting and missing > 0:
            self._collect(missing, more_s)

    def fetch_ahead(self, timeout_s: float) -> None:
        """Serve callbacks; arriving records wait, up to a limit, for the next ``take``."""
        full = len(self._waiting) >= _AHEAD_RECORDS_MAX or self._waiting_bytes >= _AHEAD_BYTES_MAX
        if full and not self._paused:
            self._paused = True
            self._consumer.pause(self._started())
        self._collect(1 if self._paused else _AHEAD_STEP_RECORDS, min(timeout_s, 0.002))
        if timeout_s > 0.002 and not self._moved:
            self._collect(1, timeout_s - 0.002)

    def take(self, records_max: int) -> Polled:
        """Return the oldest waiting records, and the position of each partition."""
        records: list[LogRecord] = []
        reached: dict[int, int] = {}
        waiting = self._waiting
        while waiting and len(records) < records_max:
            each = waiting.popleft()
            if isinstance(each, LogRecord):
                self._waiting_bytes -= len(each.value or b"")
                records.append(each)
                reached[each.partition] = each.offset + 1
            else:
                reached[each[0]] = self.ends[each[0]] = each[1]
        for partition, offset in reached.items():
            if self.ends.get(partition, offset) != offset:
                del self.ends[partition]
        return Polled(records, reached)

    def _collect(self, records_max: int, timeout_s: float) -> None:
        """Call the driver once; callbacks run inside, and its messages are sorted."""
        self._moved.clear()
        messages = self._consumer.consume(records_max, timeout_s)
        moved = self._moved & self._begun.keys()
        again: set[int] = set()
        for message in messages:
            partition = message.partition()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                _report(error)
            elif partition in moved:
                again.add(partition)
            elif partition in self._begun or partition in self._expected:
                each = record_of(message) if error is None else (partition, message.offset())
                if partition in self._begun:
                    self._keep(each)
                else:
                    self._keep_aside(partition, each)
        for partition in again:
            self._seek(partition, self._begun[partition])

    def _keep_aside(self, partition: int, each: LogRecord | tuple[int, int]) -> None:
        expected = self._expected[partition]
        if expected.next_offset is None:
            return
        expected.kept.append(each)
        expected.size_bytes += _size_bytes(each)
        many = len(expected.kept) > _EXPECTED_RECORDS_MAX
        if many or expected.size_bytes > _EXPECTED_BYTES_MAX:
            self._expected[partition] = _Expected(None)
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def _keep(self, each: LogRecord | tuple[int, int]) -> None:
        self._waiting.append(each)
        self._waiting_bytes += _size_bytes(each)

    def _seek(self, partition: int, next_offset: int) -> None:
        """Make the driver fetch from an offset.

        It refuses while it has not begun with a newly assigned partition, which no event reports,
        so a bounded number of attempts is made.
        """
        target = TopicPartition(self._topic, partition, next_offset)
        for attempts_left in range(_SEEK_ATTEMPTS, 0, -1):
            try:
                if not self._paused:
                    self._consumer.resume([target])
                self._consumer.seek(target)
            except KafkaException as error:
                if attempts_left == 1 or error.args[0].code() != KafkaError._STATE:
                    raise LogUnavailable(
                        f"partition {partition} cannot be read from {next_offset}:"
                        f" {error.args[0].str()}"
                    ) from error
                pause(_SEEK_PAUSE_S)
            else:
                return

    def _resume(self) -> None:
        self._paused = False
        self._consumer.resume(self._started())

    def _started(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in self._begun]


def _partition_of(each: LogRecord | tuple[int, int]) -> int:
    return each.partition if isinstance(each, LogRecord) else each[0]


def _size_bytes(each: LogRecord | tuple[int, int]) -> int:
    return len(each.value or b"") if isinstance(each, LogRecord) else 0


def record_of(message: Any) -> LogRecord:
    """Return the driver's message as a record of the log."""
    headers: Headers = ()
    # A header whose name is not UTF-8 makes the driver refuse all of them; tasks do not depend on
    # headers, so the record is read without.
    with contextlib.suppress(UnicodeDecodeError):
        headers = message.headers() or ()
    return LogRecord(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
    )


def _report(error: KafkaError) -> None:
    """Log an error of a poll, which passes by itself; raise fatal ones."""
    if error.fatal():
        raise LogUnavailable(f"Kafka refuses this member for good: {error.name()}: {error.str()}")
    if error.code() in UNAUTHORIZED:
        logger.error(
            "while polling: %s: %s; no task of these partitions runs until the topic and the"
            " group are open to this node: docs/security.md lists the rights it needs",
            error.name(),
            error.str(),
        )
        return
    logger.warning("while polling: %s: %s", error.name(), error.str())
