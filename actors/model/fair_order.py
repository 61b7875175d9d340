"""Which flow goes next, of those that have something that may go: the one place that decides it.

The highest priority first; among flows of one priority by weighted shares (start-time fair
queueing); and whatever was passed over often enough goes before a higher priority.  Counts what
goes, never time, so it needs no clock.
"""

import heapq
from itertools import count

AGING_STARTS = 16
"""So many of higher priorities go before one of a lower priority that waits all the while."""
_TAGS_MAX = 4_096
"""More flows than this are not told from new ones by what they have had."""


class _Level:
    """The flows of one priority."""

    __slots__ = ("finish_tags", "flows", "passed_over", "priority", "virtual_time")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.flows: list[tuple[float, int, str, float]] = []
        """A heap of start tags, each with its flow and the flow's weight."""
        self.virtual_time = 0.0
        self.finish_tags: dict[str, float] = {}
        """Where the next start of a flow stands, unless that is in the past."""
        self.passed_over = 0

    def enter(self, flow: str, weight: float, arrival: int) -> None:
        if not self.flows:
            # Nobody waits, so nobody has had too much.
            self.virtual_time = max(self.finish_tags.values(), default=self.virtual_time)
            self.finish_tags.clear()
            self.passed_over = 0
        start_tag = max(self.virtual_time, self.finish_tags.get(flow, 0.0))
        heapq.heappush(self.flows, (start_tag, arrival, flow, weight))

    def count_start(self, flow: str, start_tag: float, weight: float) -> None:
        self.virtual_time = start_tag
        self.passed_over = 0
        self.finish_tags[flow] = start_tag + 1 / weight
        if len(self.finish_tags) > _TAGS_MAX:
            self.finish_tags = {f: t for f, t in self.finish_tags.items() if t > start_tag}
            if len(self.finish_tags) > _TAGS_MAX // 2:
                self.finish_tags.clear()


class FairOrder:
    """Flows in the order in which they go; no I/O, no locks.

    A flow that has something to go enters.  After a caller takes it, the caller says that one of it
    went, lets it enter again, or leaves it out.
    """

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        """The highest priority first."""
        self._by_priority: dict[int, _Level] = {}
        self._arrivals = count()
        self._taken: tuple[_Level, float, str, float] | None = None

    def enter(self, flow: str, priority: int, weight: float) -> None:
        """Let a flow go in its turn; it must not be here already."""
        assert weight > 0, "every flow goes at some time"
        level = self._by_priority.get(priority) or self._add_level(priority)
        level.enter(flow, weight, next(self._arrivals))

    def take(self) -> str | None:
        """Take the flow whose turn it is out of the order."""
        level = self._next_level()
        if level is None:
            self._taken = None
            return None
        start_tag, _, flow, weight = heapq.heappop(level.flows)
        self._taken = level, start_tag, flow, weight
        return flow

    def count_start(self) -> None:
        """One of the flow that was taken last went."""
        assert self._taken is not None, "nothing was taken"
        level, start_tag, flow, weight = self._taken
        assert start_tag >= level.virtual_time, "the present does not go back"
        level.count_start(flow, start_tag, weight)
        if len(self._levels) > 1:
            for other in self._levels:
                if other.flows and other.priority < level.priority:
                    other.passed_over += 1

    def _add_level(self, priority: int) -> _Level:
        level = self._by_priority[priority] = _Level(priority)
        self._levels = sorted(self._by_priority.values(), key=lambda each: -each.priority)
        return level

    def _next_level(self) -> _Level | None:
        first = None
        for level in self._levels:
            if level.flows:
                if level.passed_over >= AGING_STARTS:
                    return level
                first = first or level
        return first
