"""Attempts of batch executors that wait for company.

Decides when a batch is full or has waited long enough, and how many run at once.  Never runs one.
Used from any thread.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from scheduler.node.attempts import RunningAttempt
from scheduler.ports.batches import Batches


class _Gathered:
    """What waits of one kind."""

    __slots__ = ("go_ms", "has_timer", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[RunningAttempt] = deque()
        self.go_ms: deque[float] = deque()
        """When the batch of each begins at the latest, in monotonic time."""
        self.running = 0
        self.has_timer = False


class BatchGathering:
    """The batches of one node that have not begun."""

    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], float],
        call_later: Callable[[int, Callable[[], None]], object],
        begin: Callable[[Batches, Sequence[RunningAttempt]], None],
    ) -> None:
        """``begin`` has some attempts run together; ``end`` is called when they have."""
        self._monotonic_ms = monotonic_ms
        self._call_later = call_later
        self._begin = begin
        self._lock = threading.Lock()
        self._gathered: dict[Batches, _Gathered] = {}

    def add(self, batches: Batches, running: Sequence[RunningAttempt]) -> None:
        """Let attempts of one kind wait for their batch."""
        go_ms = self._monotonic_ms() + batches.limits.wait_ms
        with self._lock:
            gathered = self._gathered.get(batches)
            if gathered is None:
                gathered = self._gathered[batches] = _Gathered()
            gathered.waiting.extend(running)
            gathered.go_ms.extend([go_ms] * len(running))
        self._look(batches)

    def end(self, batches: Batches) -> None:
        """A batch has ended: another may begin."""
        with self._lock:
            gathered = self._gathered[batches]
            gathered.running -= 1
            assert gathered.running >= 0, "a batch ends once"
        self._look(batches)

    def _time_is_up(self, batches: Batches) -> None:
        with self._lock:
            self._gathered[batches].has_timer = False
        self._look(batches)

    def _look(self, batches: Batches) -> None:
        limits, now_ms = batches.limits, self._monotonic_ms()
        ready: list[Sequence[RunningAttempt]] = []
        wait_ms: float | None = None
        with self._lock:
            gathered = self._gathered[batches]
            waiting = gathered.waiting
            while waiting and gathered.running < limits.batches_max:
                left_ms = gathered.go_ms[0] - now_ms
                if len(waiting) < limits.tasks_max and left_ms > 0:
                    if not gathered.has_timer:
                        gathered.has_timer, wait_ms = True, left_ms
                    break
                count = min(len(waiting), limits.tasks_max)
                ready.append([waiting.popleft() for _ in range(count)])
                for _ in range(count):
                    gathered.go_ms.popleft()
                gathered.running += 1
        if wait_ms is not None:
            self._call_later(int(wait_ms) + 1, lambda: self._time_is_up(batches))
        for members in ready:
            self._begin(batches, members)
