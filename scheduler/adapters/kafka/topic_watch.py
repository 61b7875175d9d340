"""Watches whether the topic was deleted and made again since reading began.

A topic that was made again has the same name: a consumer silently continues at the old topic's
offset, or at 0. Only the broker's id of the topic distinguishes them. Decides when to ask for it;
others decide what follows.
"""

from collections.abc import Callable
from concurrent.futures import Future

from hourhand.actors.ports.clock import Clock

LOOK_MS = 5_000
"""Interval of looks; records of a new topic from this time are read again, from its beginning."""


class TopicWatch:
    """Asks for the topic's id at intervals; used from the polling thread."""

    def __init__(self, ask: "Callable[[], Future[str]]", clock: Clock) -> None:
        """``ask`` answers with an empty id if the broker has none, and fails if the topic or the
        broker is unavailable.
        """
        self._ask = ask
        self._clock = clock
        self._asked: Future[str] | None = None
        self._look_at_ms = 0.0
        self._other = ""
        self.topic_id = ""
        """Id of the topic; empty if it is unknown."""

    def begin(self, topic_id: str) -> None:
        """Use this topic as the one that is read."""
        self.topic_id = topic_id
        self._asked, self._other = None, ""
        self._look_at_ms = self._clock.monotonic_ms() + LOOK_MS

    def note(self, topic_id: str) -> bool:
        """Note an id from elsewhere; return True if it is the topic's."""
        if not self.topic_id or not topic_id or topic_id == self.topic_id:
            return True
        self._other = topic_id
        return False

    def other(self) -> str:
        """Return the id of the topic that replaced this one; empty if none did."""
        now_ms = self._clock.monotonic_ms()
        if self._asked is not None:
            if self._asked.done():
                asked, self._asked = self._asked, None
                if asked.exception() is None:
                    self.note(asked.result())
        elif self.topic_id and now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + LOOK_MS
            self._asked = self._ask()
        return self._other
