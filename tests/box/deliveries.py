"""The way to the store and the log, on which a request waits until the seed picks it.

It decides when a request takes effect and whether its answer arrives; what a request means, it
does not know.
"""

import random
from collections import Counter
from typing import Any

from hourhand.actors.model.values.errors import LogUnavailable, StoreUnavailable
from hourhand.scheduler.adapters.memory.delivery import Request

_LOG = frozenset({"append", "dead_letter"})
_READS = ("load_", "find_", "read_")
_TO_NODE = frozenset({"claim", "read_watermark"})


class SlowDeliveries:
    """Keeps requests and serves them in any order; implements ``Deliver``."""

    def __init__(self, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.failing = 0.0
        """Share of requests that fail, half of them after their effect."""
        self._rng = rng
        self._breaks = False
        self._waiting: list[Request[Any]] = []
        self._unanswered: list[Request[Any]] = []
        """Requests that took effect and have not been answered."""

    def __call__(self, request: Request[Any]) -> None:
        """Take a request."""
        self.counts[request.kind] += 1
        self._waiting.append(request)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._unanswered)

    def break_next(self) -> None:
        """Let the next write of the store fail, which ends the tree."""
        self._breaks = True

    def serve_one(self) -> None:
        """Let one request go a step on: take effect, be answered, or fail."""
        rng = self._rng
        if self._unanswered and (not self._waiting or rng.random() < 0.5):
            self._unanswered.pop(rng.randrange(len(self._unanswered))).answer()
            return
        if not self._waiting:
            return
        request = self._waiting.pop(self._pick())
        if self._breaks and not request.kind.startswith(_READS) and request.kind not in _LOG:
            self._breaks = False
            self._fail(request)
            return
        if self.failing and rng.random() < self._share_failing(request.kind):
            self._fail(request)
            return
        request.apply()
        if rng.random() < 0.2:
            self._unanswered.append(request)
        else:
            request.answer()

    def _pick(self) -> int:
        """Return the place of a request; appends of a log keep their order."""
        place = self._rng.randrange(len(self._waiting))
        kind = self._waiting[place].kind
        if kind == "append":
            return next(n for n, each in enumerate(self._waiting) if each.kind == kind)
        return place

    def _share_failing(self, kind: str) -> float:
        """Reads and letters are asked for again, so they fail more often than what ends a tree."""
        again = kind.startswith(_READS) or kind in _LOG
        return min(0.5, 6 * self.failing) if again else self.failing

    def _fail(self, request: Request[Any]) -> None:
        self.counts["failed"] += 1
        if self._rng.random() < 0.5:
            request.apply()
        kind = request.kind
        text = f"{kind} failed on purpose"
        request.fail(LogUnavailable(text) if kind in _LOG else StoreUnavailable(text))
