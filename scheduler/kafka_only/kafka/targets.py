"""Knows which topics exist, and which of their partitions cannot be written now.

So a transaction does not wait for a missing topic, nor repeatedly for an unavailable partition.
Results are cached for a minute; a missing topic or leader for a second.
"""

import logging
import threading
from itertools import count
from typing import NamedTuple

from hourhand.actors.model.task.partition import partition_of_key
from hourhand.actors.model.values.errors import TopicMissing
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.kafka.connection import LastError, admin_client, describe_topic
from hourhand.scheduler.configuration.settings import Settings

logger = logging.getLogger("hourhand.buckets")

_FOUND_MS = 60_000.0
_UNSURE_MS = 1_000.0
_TOPICS_MAX = 10_000
_PAUSE_MS = 5_000
_PAUSE_MS_MAX = 60_000
_ANY = -1
"""Tells the driver to choose."""


class _Known(NamedTuple):
    """The broker's answer about a topic."""

    led: tuple[bool, ...]
    """For each partition, True if it has a leader; empty if the topic does not exist."""
    until_ms: float


class _Away(NamedTuple):
    """A partition that did not acknowledge records."""

    until_ms: int
    """Wall clock at which it is tried again."""
    pause_ms: int


class TargetTopics:
    """Asks about each topic from time to time; usable from any thread."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._last_error = LastError()
        self._admin = admin_client(settings, self._last_error)
        self._known: dict[str, _Known] = {}
        self._away: dict[tuple[str, int], _Away] = {}
        self._turns = count()
        self._lock = threading.Lock()

    def exists(self, topic: str) -> bool:
        """True if a topic exists; LogUnavailable if no broker answers."""
        return bool(self._led(topic))

    def away_until_ms(self, topic: str, key: bytes | None) -> int | None:
        """Return the time until which a topic takes no message of a key; LogUnavailable."""
        if not self._away or not (led := self._led(topic)):
            return None
        partitions = range(len(led)) if key is None else [partition_of_key(key, len(led))]
        latest_ms = [self._until_ms(topic, each) for each in partitions]
        return None if None in latest_ms else min(each for each in latest_ms if each is not None)

    def partition_for(self, topic: str, key: bytes | None) -> int:
        """Return an available partition, for a message that may go to any; -1 lets the driver
        choose.
        """
        if key is not None or not self._away:
            return _ANY
        count_ = len(self._led(topic))
        taking = [each for each in range(count_) if self._until_ms(topic, each) is None]
        return taking[next(self._turns) % len(taking)] if 0 < len(taking) < count_ else _ANY

    def note_away(self, topic: str, partition: int) -> None:
        """Record that a partition acknowledged nothing while others did: it is avoided for a
        growing time.
        """
        if partition < 0:
            return
        now_ms, before = self._clock.now_ms(), self._away.get((topic, partition))
        if before is not None and now_ms < before.until_ms:
            return
        pause_ms = _PAUSE_MS if before is None else min(_PAUSE_MS_MAX, 2 * before.pause_ms)
        self._away[topic, partition] = _Away(now_ms + pause_ms, pause_ms)
        self._known.pop(topic, None)
        logger.warning(
            "partition %d of %r takes nothing: messages for it wait and are retried in %d"
            " ms; all others are passed on",
            partition,
            topic,
            pause_ms,
        )

    def note_taken(self, topic: str, partition: int) -> None:
        """Record that a partition acknowledged a record."""
        if self._away and self._away.pop((topic, partition), None) is not None:
            logger.info("partition %d of %r takes messages again", partition, topic)

    def _until_ms(self, topic: str, partition: int) -> int | None:
        away = self._away.get((topic, partition))
        if away is None:
            return None
        if self._clock.now_ms() >= away.until_ms:
            # A metadata request costs less than a transaction that waits in vain.
            if self._led(topic)[partition]:
                return None
            self.note_away(topic, partition)
            away = self._away.get((topic, partition), away)
        return away.until_ms

    def _led(self, topic: str) -> tuple[bool, ...]:
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(topic)
        if known is not None and now_ms < known.until_ms:
            return known.led
        with self._lock:
            try:
                described = describe_topic(
                    self._settings, topic, self._admin, self._last_error
                ).partitions
            except TopicMissing:
                described = ()
            led = tuple(each.leader is not None and each.leader.id >= 0 for each in described)
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            believed_ms = _FOUND_MS if led and all(led) else _UNSURE_MS
            self._known[topic] = _Known(led, now_ms + believed_ms)
        return led
