"""Decides which flow goes next, among those with a task that may go.

The highest priority goes first; flows of one priority go by weighted shares (start-time fair
queueing); and a flow that was passed over often enough goes before a higher priority. It counts
starts, never time, so it needs no clock.
"""

import heapq
from itertools import count

AGING_STARTS = 16
"""Number of starts of higher priorities before one of a lower priority that waits all the time."""
_TAGS_MAX = 4_096
"""Flows above this number lose the record of their earlier starts."""


class _Level:
    """The flows of one priority."""

    __slots__ = ("finish_tags", "flows", "passed_over", "priority", "virtual_time")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.flows: list[tuple[float, int, str, float]] = []
        """A heap of start tags, each with its flow and the flow's weight."""
        self.virtual_time = 0.0
        self.finish_tags: dict[str, float] = {}
        """The next start tag of a flow, unless that is in the past."""
        self.passed_over = 0

    def enter(self, flow: str, weight: float, arrival: int) -> None:
        if not self.flows:
            # No flow waits, so none has had too much.
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

    A flow with a task that may go enters. After a caller takes it, the caller counts its start,
    lets it enter again, or leaves it out.
    """

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        """The highest priority first."""
        self._by_priority: dict[int, _Level] = {}
        self._arrivals = count()
        self._taken: tuple[_Level, float, str, float] | None = None

    def enter(self, flow: str, priority: int, weight: float) -> None:
        """Add a flow; it must not be here already."""
        assert weight > 0, "every flow goes at some time"
        level = self._by_priority.get(priority) or self._add_level(priority)
        level.enter(flow, weight, next(self._arrivals))

    def pop(self) -> str | None:
        """Remove the next flow from the order and return it."""
        level = self._next_level()
        if level is None:
            self._taken = None
            return None
        start_tag, _, flow, weight = heapq.heappop(level.flows)
        self._taken = level, start_tag, flow, weight
        return flow

    def count_start(self) -> None:
        """Count a start of the flow that was taken last."""
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
