"""Wakes the driver's main thread, without which heartbeats come late.

librdkafka looks whether a heartbeat is due only when something else has woken that thread, at
worst its timer of one second.  They come about half as often as asked then, and a member learns by
a heartbeat that partitions wait for it.  Decides when to wake; never waits for the driver.
"""

import contextlib
from typing import Any

from confluent_kafka import KafkaException

_WAKES_PER_HEARTBEAT = 4


class HeartbeatWaker:
    """Used from the polling thread; told monotonic times."""

    def __init__(self, consumer: Any, heartbeat_interval_ms: int) -> None:
        self._consumer = consumer
        self._pause_ms = heartbeat_interval_ms / _WAKES_PER_HEARTBEAT
        self._next_ms = 0.0

    def polled(self, now_ms: float) -> None:
        """Wake the driver where it was not for a part of the interval."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._pause_ms
        # Nothing to commit is the one request that the driver's main thread takes without the
        # caller having to wait for its answer, which is that there was nothing.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=[], asynchronous=True)
