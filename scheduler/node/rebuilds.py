"""When a failed tree is built again: after a pause that doubles, half of it at random.

The pauses keep a store that is down from being asked by every node at once; a tree that
lived long enough is forgiven its predecessors' failures.
"""

import random

from actors.model.backoff import growing_pause_ms
from actors.model.settings import RecoverySettings

HEALTHY_AFTER_MS = 60_000


class Rebuilds:
    """Counts failures in a row and knows when the next tree may be built (monotonic ms)."""

    def __init__(self, settings: RecoverySettings, rng: random.Random | None = None) -> None:
        self.failures = 0
        self._settings = settings
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards no secret
        self._built_at_ms = 0.0
        self._due_ms = 0.0

    def is_due(self, now_ms: float) -> bool:
        """Whether a tree may be built now."""
        return now_ms >= self._due_ms

    def note_built(self, now_ms: float) -> None:
        """A tree was built."""
        self._built_at_ms = now_ms

    def note_failed(self, now_ms: float) -> float:
        """A tree failed; return the pause before the next one, in milliseconds."""
        if now_ms - self._built_at_ms >= HEALTHY_AFTER_MS:
            self.failures = 0
        self.failures += 1
        shortest_ms, longest_ms = (
            self._settings.rebuild_pause_min_ms,
            self._settings.rebuild_pause_max_ms,
        )
        pause_ms = growing_pause_ms(self.failures, shortest_ms, longest_ms, self._rng)
        self._due_ms = now_ms + pause_ms
        return pause_ms
