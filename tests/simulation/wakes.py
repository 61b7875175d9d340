"""The next of many nodes that wants to work, without asking each of them at every event.

A node is asked after it worked and when it says that it was woken; in between, what it said holds.
It decides nothing.
"""

import heapq
from typing import Generic, Protocol, TypeVar


class Sleeper(Protocol):
    """An object that can say when it wants to go on."""

    def next_ms(self) -> float:
        """Return a monotonic time."""


AnySleeper = TypeVar("AnySleeper", bound=Sleeper)


class Wakes(Generic[AnySleeper]):
    """The nodes that live, by the time at which they want to go on."""

    def __init__(self) -> None:
        self._numbers: dict[AnySleeper, int] = {}
        """In the order in which they came."""
        self._came = 0
        self._said_ms: dict[AnySleeper, float] = {}
        self._heap: list[tuple[float, int, AnySleeper]] = []
        """One valid entry of each node that is not woken, at the time that it said."""
        self._woken: dict[AnySleeper, None] = {}

    def add(self, sleeper: AnySleeper) -> None:
        """Begin to ask a node."""
        self._came += 1
        self._numbers[sleeper] = self._came
        self.wake(sleeper)

    def forget(self, sleeper: AnySleeper) -> None:
        """The node is gone."""
        del self._numbers[sleeper]
        self._said_ms.pop(sleeper, None)
        self._woken.pop(sleeper, None)

    def wake(self, sleeper: AnySleeper) -> None:
        """The node may want to go on at another time than it said."""
        self._woken[sleeper] = None

    def next_ms(self, default: float) -> float:
        """Return the earliest time at which a node wants to go on."""
        if self._woken:
            self._ask_woken()
        heap = self._heap
        while heap:
            said_ms, _, sleeper = heap[0]
            if self._said_ms.get(sleeper) == said_ms:
                return said_ms
            heapq.heappop(heap)
        return default

    def due(self, now_ms: float) -> list[AnySleeper]:
        """Return the nodes that want to go on by now, in the order in which they came.

        They are asked again afterwards.
        """
        if self._woken:
            self._ask_woken()
        due, heap = [], self._heap
        while heap and heap[0][0] <= now_ms:
            said_ms, _, sleeper = heapq.heappop(heap)
            if self._said_ms.get(sleeper) == said_ms:
                del self._said_ms[sleeper]
                due.append(sleeper)
                self.wake(sleeper)
        return sorted(due, key=self._numbers.__getitem__)

    def _ask_woken(self) -> None:
        for sleeper in self._woken:
            if sleeper in self._numbers:
                wanted_ms = sleeper.next_ms()
                if self._said_ms.get(sleeper) != wanted_ms:
                    self._said_ms[sleeper] = wanted_ms
                    heapq.heappush(self._heap, (wanted_ms, self._numbers[sleeper], sleeper))
        self._woken.clear()
