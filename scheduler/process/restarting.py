"""How long a process that ended waits until it is started again.

Decides the pauses alone, from how long each life was: nothing here starts, waits or reads a clock.
"""

import random

from actors.model.backoff import growing_pause_ms

PAUSE_MIN_MS = 500
PAUSE_MAX_MS = 30_000
STEADY_MS = 60_000
"""What has lived for so long ends for a new reason: its pauses begin anew."""


class RestartPauses:
    """The pauses of one process: each is twice the last one, and half of it is at random."""

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        pause_min_ms: int = PAUSE_MIN_MS,
        pause_max_ms: int = PAUSE_MAX_MS,
        steady_ms: int = STEADY_MS,
    ) -> None:
        self._rng = random.SystemRandom() if rng is None else rng
        self._bounds_ms = pause_min_ms, pause_max_ms
        self._steady_ms = steady_ms
        self._short_lives = 0

    def after(self, lived_ms: float) -> float:
        """Return the pause, in milliseconds, after a life of so long."""
        self._short_lives = 1 if lived_ms >= self._steady_ms else self._short_lives + 1
        return growing_pause_ms(self._short_lives, *self._bounds_ms, self._rng)
