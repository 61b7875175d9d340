"""``MessageWriter`` in memory."""

from concurrent.futures import Future
from typing import NamedTuple

from actors.model.codec import Headers
from actors.model.errors import HourhandError
from actors.ports.clock import Clock


class MemoryMessage(NamedTuple):
    """A message as it was produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    produced_ms: int


class MemoryMessages:
    """Keeps what was produced, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.messages: list[MemoryMessage] = []
        self.failures: dict[str, HourhandError] = {}
        """By topic: what producing to it fails with."""

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Keep a message, or fail as the test asked for."""
        future: Future[None] = Future()
        if topic in self.failures:
            future.set_exception(self.failures[topic])
            return future
        kept = MemoryMessage(topic, key, value, tuple(headers), self._clock.now_ms())
        self.messages.append(kept)
        future.set_result(None)
        return future

    def close(self) -> None:
        """Keep everything."""
