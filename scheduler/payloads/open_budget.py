"""The budget of opened data in one process.

Small data is not counted: workers hold little of it. A caller without open data waits for room; one
with open data is refused, because two that wait for each other would wait for ever. It never opens
anything.
"""

import threading
from types import TracebackType
from typing import Self

SMALL_BYTES = 256 * 1024
"""Opened data up to this is not counted."""
_TURNS = 4
"""Number of large data being opened at a time, before their size is known."""


class NoRoom(Exception):
    """There is no room for more opened data, and the attempt may not wait, because it has some
    open.
    """


class OpenBudget:
    """The bytes of one process; used from many threads, none of them an event loop's."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._changed = threading.Condition()
        self.turns = threading.BoundedSemaphore(_TURNS)
        """Held while large data is opened, until it is counted."""
        self.open_bytes = 0

    def take(self, size_bytes: int, *, waits: bool) -> bool:
        """Count data as open; with ``waits`` after a wait for room, else return False without room.

        Data larger than the budget is taken when nothing else is open.
        """
        with self._changed:
            if not waits and not self._has_room(size_bytes):
                return False
            self._changed.wait_for(lambda: self._has_room(size_bytes))
            self.open_bytes += size_bytes
            return True

    def give(self, size_bytes: int) -> None:
        """Stop counting it."""
        with self._changed:
            self.open_bytes -= size_bytes
            self._changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        return not self.open_bytes or self.open_bytes + size_bytes <= self._bytes_max


class OpenedHere:
    """The open data of one attempt or batch, until the ``with`` block ends."""

    def __init__(self, budget: OpenBudget) -> None:
        self._budget = budget
        self._size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._size_bytes:
            self._budget.give(self._size_bytes)
            self._size_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Return True if this much more may be open; blocks if nothing is open yet."""
        taken = self._budget.take(size_bytes, waits=not self._size_bytes)
        if taken:
            self._size_bytes += size_bytes
        return taken
