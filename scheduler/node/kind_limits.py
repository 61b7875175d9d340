"""How many attempts of a kind run at once on a node: the others wait here, and take no worker.

Decides only when an attempt goes on to the workers.  Used from any thread.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from scheduler.node.attempts import RunningAttempt


class KindLimits:
    """One node's limits."""

    def __init__(
        self, limits: Mapping[str | None, int], submit: Callable[[Sequence[RunningAttempt]], None]
    ) -> None:
        self._limits = limits
        self._submit = submit
        self._lock = threading.Lock()
        self._running: defaultdict[str | None, int] = defaultdict(int)
        self._waiting: defaultdict[str | None, deque[RunningAttempt]] = defaultdict(deque)

    def begin(self, started: Sequence[RunningAttempt]) -> None:
        """Hand attempts on, each at once or when one of its kind has ended."""
        self._submit(
            [each for each in started if self._may_go_on(each)] if self._limits else started
        )

    def _may_go_on(self, running: RunningAttempt) -> bool:
        kind = running.attempt.task.kind
        limit = self._limits.get(kind)
        if limit is None:
            return True
        with self._lock:
            if self._running[kind] >= limit:
                self._waiting[kind].append(running)
                return False
            self._running[kind] += 1
            return True

    def end(self, running: RunningAttempt) -> None:
        """An attempt that was handed on has ended: the next of its kind may go on."""
        kind = running.attempt.task.kind if self._limits else None
        if kind not in self._limits:
            return
        with self._lock:
            if not self._waiting[kind]:
                self._running[kind] -= 1
                return
            following = self._waiting[kind].popleft()
        self._submit([following])
