"""The line of attempts that wait for one allowance.

Decides who is next: the highest priority, then the flow whose share it is, then who came first.
Never decides when the next one goes.  Used under one lock.
"""

import heapq
from typing import Generic, TypeVar

from hourhand.actors.model.flow.fair_order import FairOrder


class LinePlace:
    """The place of one attempt: its priority, its flow among those of it, and its arrival."""

    __slots__ = ("flow", "line", "number", "priority", "weight")

    def __init__(self, number: int, flow: str, priority: int, weight: float) -> None:
        self.number = number
        """Its place in the order of arrival."""
        self.flow = flow
        """Attempts of one flow have one priority and one weight."""
        self.priority = priority
        self.weight = weight
        self.line: object = None
        """The line that it stands in; None if it stands in none."""


Place = TypeVar("Place", bound=LinePlace)


class LimitLine(Generic[Place]):
    """Waiting attempts by flow; each flow is a heap by the order of arrival."""

    __slots__ = ("_flows", "_left", "_order", "_waiting")

    def __init__(self) -> None:
        self._order = FairOrder()
        self._flows: dict[str, list[tuple[int, Place]]] = {}
        """Each flow that is in the order; it may hold places that nobody waits at any more."""
        self._waiting = 0
        self._left = 0
        """Number of places that nobody waits at any more."""

    def __len__(self) -> int:
        return self._waiting

    def add(self, place: Place) -> None:
        """Add an attempt; one that changes the line keeps the place of its arrival."""
        flow = self._flows.get(place.flow)
        if flow is None:
            flow = self._flows[place.flow] = []
            self._order.enter(place.flow, place.priority, place.weight)
        heapq.heappush(flow, (place.number, place))
        place.line = self
        self._waiting += 1

    def pop(self) -> Place:
        """Remove the next attempt and return it; there must be one."""
        assert self._waiting, "nobody waits"
        while True:
            name = self._order.pop()
            assert name is not None, "whatever waits has its place in the order"
            flow = self._flows[name]
            while flow and flow[0][1].line is not self:
                heapq.heappop(flow)
                self._left -= 1
            if not flow:
                del self._flows[name]
                continue
            self._order.count_start()
            _, place = heapq.heappop(flow)
            if flow:
                self._order.enter(name, place.priority, place.weight)
            else:
                del self._flows[name]
            place.line = None
            self._waiting -= 1
            return place

    def remove(self, place: Place) -> None:
        """Remove an attempt that will never begin."""
        assert place.line is self, "it waits in one line"
        place.line = None
        self._waiting -= 1
        self._left += 1
        if self._left > self._waiting:
            for flow in self._flows.values():
                flow[:] = [each for each in flow if each[1].line is self]
                heapq.heapify(flow)
            self._left = 0
