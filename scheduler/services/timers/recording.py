"""Callbacks for tests: kept instead of made."""

from typing import NamedTuple

from actors.ports.clock import Clock
from scheduler.services.timers.executor import CallbackFailed


class Callback(NamedTuple):
    """A callback as it was made."""

    uri: str
    body: bytes
    sequence_number: int
    at_ms: int
    of: str


class RecordingCaller:
    """Implements ``Caller``: keeps what it is asked for, and fails as it is told to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made: list[Callback] = []
        self.failures = 0
        """So many of the next callbacks fail."""

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Keep a callback; raises CallbackFailed where it is to fail."""
        self.made.append(Callback(uri, body, sequence_number, self._clock.now_ms(), of))
        if self.failures:
            self.failures -= 1
            raise CallbackFailed("the test wants it to fail")
