"""How many attempts of a kind run at once on a node: the others wait here, and take no worker.

Decides only when an attempt goes on to the workers.  Used from any thread.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from scheduler.node.attempts import RunningAttempt


class KindLimits:
    """One node's limits."""

    def __init__(
        self, limits: Mapping[str | None, int], submit: Callable[[RunningAttempt], None]
    ) -> None:
        self._limits = limits
        self._submit = submit
        self._lock = threading.Lock()
        self._running: defaultdict[str | None, int] = defaultdict(int)
        self._waiting: defaultdict[str | None, deque[RunningAttempt]] = defaultdict(deque)

    def begin(self, running: RunningAttempt) -> None:
        """Hand an attempt on at once, or when one of its kind has ended."""
        kind = running.attempt.task.kind if self._limits else None
        limit = self._limits.get(kind)
        if limit is not None:
            with self._lock:
                if self._running[kind] >= limit:
                    self._waiting[kind].append(running)
                    return
                self._running[kind] += 1
        self._submit(running)

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
        self._submit(following)
