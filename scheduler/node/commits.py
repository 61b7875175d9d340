"""One partition of a log that a member of a group reads: its delivered and durable offsets.

Delivered records become durable in any order; an offset is committed only when everything before it
is durable (P9). Decides which offsets are committed and when.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hourhand.actors.ports.clock import Clock

Part = TypeVar("Part")


@dataclass(slots=True)
class Delivered(Generic[Part]):
    """Records that were delivered together, and become durable together."""

    part: Part
    next_offset: int
    durable: bool = False


@dataclass(slots=True)
class Reading(Generic[Part]):
    """One assigned partition."""

    partition: int
    next_offset: int | None = None
    """Every record below this is durable; None before reading began."""
    reached_offset: int = 0
    """The offset at which the log continues to deliver."""
    under_way: deque[Delivered[Part]] = field(default_factory=deque)
    """Delivered records that are not known to be durable, in the order of the log."""

    def begin(self, offset: int) -> None:
        """Read from an offset on, below which all is durable; drop earlier deliveries."""
        self.under_way.clear()
        self.next_offset = self.reached_offset = offset

    def deliver(self, part: Part, reached: int) -> None:
        """Note that records below ``reached`` were delivered, the last of them as this part."""
        self.reached_offset = reached
        self.under_way.append(Delivered(part, reached))

    def settle(self, part: Part) -> None:
        """Note that a part is durable, if it is under way."""
        for delivered in self.under_way:
            if delivered.part == part:
                delivered.durable = True
                break
        self.advance()

    def advance(self) -> None:
        """Move the durable offset over consecutive durable parts."""
        while self.under_way and self.under_way[0].durable:
            self.next_offset = self.under_way.popleft().next_offset
        if self.next_offset is not None and not self.under_way:
            # Also past offsets without a record.
            self.next_offset = max(self.next_offset, self.reached_offset)


def durable_offsets(readings: Iterable[Reading[Any]]) -> dict[int, int]:
    """Return the next offset of every partition that is being read."""
    return {
        reading.partition: reading.next_offset
        for reading in readings
        if reading.next_offset is not None
    }


class PeriodicCommits:
    """Commits offsets at intervals; used by the thread that polls."""

    def __init__(
        self, commit: Callable[[Mapping[int, int]], None], clock: Clock, interval_ms: float
    ) -> None:
        self._commit = commit
        self._clock = clock
        self._interval_ms = interval_ms
        self._committed_ms = -math.inf
        self._committed: Mapping[int, int] = {}

    def hurry(self) -> None:
        """Make the next commit due now."""
        self._committed_ms = -math.inf

    def are_due(self, interval_ms_max: float = math.inf) -> bool:
        """True if the last commit was an interval ago, or ``interval_ms_max`` if that is less."""
        interval_ms = min(self._interval_ms, interval_ms_max)
        return self._clock.monotonic_ms() - self._committed_ms >= interval_ms

    def would_change(self, offsets: Mapping[int, int]) -> bool:
        """True if these are not the offsets of the last commit."""
        return offsets != self._committed

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit, if there are offsets; raises the errors of the log."""
        if offsets:
            self._committed_ms = self._clock.monotonic_ms()
            self._committed = offsets
            self._commit(offsets)
