"""How far one partition of the in-topic is read, and what of it is durable.

Decides nothing: the intake does.
"""

from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

from actors.model.codec import LogRecord
from actors.model.key import TaskKey
from scheduler.services.relay.standing import place_of


class Read(NamedTuple):
    """A record that was read, and what has to become durable of it."""

    record: LogRecord
    futures: "list[Future[Any]]"
    delivery_key: TaskKey | None = None
    is_inline: bool = False
    """Whether its message goes in its task, and could go beside it."""
    refusal: str = ""
    """Why it is being put aside; a refusal of it is then one of its letter."""


class Progress:
    """One assigned partition of the in-topic."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        """All before it is durable."""
        self.reached = next_offset
        self.polled = 0
        """All before it was read: a lower offset is of another topic of the same name."""
        self.topic_id: str | None = None
        """None while nobody knows which topic of the name it is."""
        self.stamp_ms = 0
        self.under_way: deque[Read] = deque()
        self.failures = 0
        """In a row, of the record at ``next_offset``."""
        self.rests_until_ms: float | None = None
        """When it is read again from there (monotonic); what is read meanwhile does not count."""

    def place_of(self, record: LogRecord) -> str:
        """Return what tells a record from every other, also of a topic that was here before."""
        return place_of(record.partition, record.offset, self.topic_id or "")

    def go_back(self, offset: int) -> None:
        """Forget what was read from an offset on."""
        self.under_way.clear()
        self.next_offset = self.reached = self.polled = offset
