"""Whether the topic that is read is still the one that was there when reading began.

A topic that was deleted and made anew has the same name: a consumer goes on at the offset that
the old one had reached, or begins at 0 without a word.  Only the broker's own id tells the two
apart.  Decides when to ask for it; never what happens then.
"""

from collections.abc import Callable
from concurrent.futures import Future

from actors.ports.clock import Clock

LOOK_MS = 5_000
"""What is read of a new topic for so long is read once more, from its beginning."""


class TopicWatch:
    """Asks for the topic's id now and then; used from the polling thread."""

    def __init__(self, ask: "Callable[[], Future[str]]", clock: Clock) -> None:
        """``ask`` answers with an empty id where the broker has none, and fails where the topic or
        the broker is away.
        """
        self._ask = ask
        self._clock = clock
        self._asked: Future[str] | None = None
        self._look_at_ms = 0.0
        self._other = ""
        self.topic_id = ""
        """The topic that is read; empty where nobody can tell."""

    def begin(self, topic_id: str) -> None:
        """Take a topic for the one that is read."""
        self.topic_id = topic_id
        self._asked, self._other = None, ""
        self._look_at_ms = self._clock.monotonic_ms() + LOOK_MS

    def note(self, topic_id: str) -> bool:
        """Take notice of the id that somebody else was told; return whether it is the topic's."""
        if not self.topic_id or not topic_id or topic_id == self.topic_id:
            return True
        self._other = topic_id
        return False

    def other(self) -> str:
        """Return the id of the topic that stands in this one's place; empty where none does."""
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
