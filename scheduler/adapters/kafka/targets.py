"""Which topics exist, so that a transaction never waits for one that does not.

What was found is believed for a minute, what was missing for a second.
"""

import threading

from actors.model.errors import TopicMissing
from actors.ports.clock import Clock
from scheduler.adapters.kafka.connection import LastError, admin_client, describe_topic
from scheduler.settings import Settings

_FOUND_MS = 60_000.0
_MISSING_MS = 1_000.0
_TOPICS_MAX = 10_000


class TargetTopics:
    """Asks about each topic once in a while; usable from any thread."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._last_error = LastError()
        self._admin = admin_client(settings, self._last_error)
        self._known: dict[str, tuple[bool, float]] = {}
        self._lock = threading.Lock()

    def exists(self, topic: str) -> bool:
        """Whether a topic is there; LogUnavailable where nobody answers."""
        now_ms = self._clock.monotonic_ms()
        found, until_ms = self._known.get(topic, (False, 0.0))
        if now_ms < until_ms:
            return found
        with self._lock:
            try:
                describe_topic(self._settings, topic, self._admin, self._last_error)
            except TopicMissing:
                found = False
            else:
                found = True
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            self._known[topic] = (found, now_ms + (_FOUND_MS if found else _MISSING_MS))
        return found
