"""TimerQueue of one dispatcher: a heap by monotonic time, touched by the dispatcher only."""

import heapq
from itertools import count

from hourhand.actors.kernel.context import ActorContext, Timer


class TimerQueue:
    """Messages waiting for their monotonic time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = count()

    def add(self, due_ms: float, context: ActorContext, message: object) -> Timer:
        """Keep a message until ``due_ms``."""
        timer = Timer(context, message)
        assert context.alive, "what has ended waits for nothing"
        heapq.heappush(self._heap, (due_ms, next(self._sequence), timer))
        return timer

    def next_due_ms(self) -> float | None:
        """Return when the earliest timer is due; None without timers."""
        heap = self._heap
        while heap and (heap[0][2].cancelled or not heap[0][2].context.alive):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: float) -> Timer | None:
        """Remove and return the earliest timer if it is due."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        return heapq.heappop(self._heap)[2]
