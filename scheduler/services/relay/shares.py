"""The limit for one topic's messages under way while it acknowledges none.

All messages of a node pass through one producer, whose bounded queue blocks callers when it is
full: a topic without acknowledgements would fill it and stop messages for all others. Decides which
messages are refused at once; their tasks retry them.
"""

from concurrent.futures import Future
from functools import partial
from threading import Lock

from hourhand.actors.model.task.codec import Headers, headers_bytes
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.runtime.light_future import failed

HELD_BYTES_MAX = 16_000_000
"""Limit for one silent topic: a quarter of the producer's queue."""
SILENT_MS = 1_000.0
"""A topic that acknowledged a message within this time has no limit of its own."""


class _UnderWay:
    """The unacknowledged messages of a topic."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.taken_ms = 0.0
        """Time of its last acknowledgement, or when it last had none to give."""


class SharedMessages:
    """Implements ``MessageWriter`` by another one; used from any thread."""

    def __init__(self, writer: MessageWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._lock = Lock()
        self._topics: dict[str, _UnderWay] = {}

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message; LogUnavailable if its topic is silent and its share is used up."""
        # One byte more, so that an empty message counts too.
        size_bytes = 1 + len(key or b"") + len(value or b"") + headers_bytes(headers)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            under_way = self._topics.setdefault(topic, _UnderWay())
            if not under_way.size_bytes:
                under_way.taken_ms = now_ms
            silent_ms = now_ms - under_way.taken_ms
            refused = under_way.size_bytes > HELD_BYTES_MAX and silent_ms > SILENT_MS
            if not refused:
                under_way.size_bytes += size_bytes
        if refused:
            return _refused(topic, silent_ms)
        produced = self._writer.produce(topic, key, value, headers)
        produced.add_done_callback(partial(self._settle, topic, size_bytes))
        return produced

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _settle(self, topic: str, size_bytes: int, produced: "Future[None]") -> None:
        with self._lock:
            under_way = self._topics[topic]
            under_way.size_bytes -= size_bytes
            if produced.exception() is None:
                under_way.taken_ms = self._clock.monotonic_ms()
            if not under_way.size_bytes:
                del self._topics[topic]


def _refused(topic: str, silent_ms: float) -> "Future[None]":
    return failed(
        LogUnavailable(
            f"topic {topic!r} has acknowledged nothing for {silent_ms:.0f} ms and has"
            f" {HELD_BYTES_MAX} bytes under way; further messages for it wait: see whether its"
            " partitions have a leader and enough replicas in sync"
        )
    )
