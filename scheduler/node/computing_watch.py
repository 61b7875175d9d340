"""Watches whether user code on a node computes rather than waits; then threads switch sooner.

Decides by the processor time of attempts that run longer than a window, at most ten times a second.
Short attempts are not measured, so a drain of plain tasks does not count, however busy it keeps the
interpreter.  Changes nothing itself.
"""

from collections.abc import Callable, Mapping

from hourhand.actors.ports.clock import Clock

WINDOW_MS = 100.0
"""Shortest window; attempts count that run at both ends of one."""
COMPUTING_SHARE = 0.25
"""User code computes if such attempts use this part of the window as processor time."""
CALM_MS = 2_000.0
"""User code counts as calm again after this time without a window in which it computed."""
_USED_MS_MIN = 0.5


class ComputingWatch:
    """Watches one node; ``look`` is called by one thread, several times a second."""

    def __init__(
        self,
        at_work: Callable[[], Mapping[int, object]],
        used_ms: Callable[[int], float | None],
        clock: Clock,
        choose: Callable[[int], object],
    ) -> None:
        """``at_work`` returns the work of each thread, by the thread's clock, which ``used_ms``
        reads.

        ``choose`` receives the number of threads that compute, and 0 when none does any more.
        """
        self._at_work = at_work
        self._used_ms = used_ms
        self._clock = clock
        self._choose = choose
        self._before: dict[int, tuple[object, float]] = {}
        self._looked_ms = 0.0
        self._calm_from_ms: float | None = None
        """Monotonic time at which user code counts as calm again; None while it is calm."""

    def look(self) -> None:
        """Report the number of threads that compute, if a window has passed."""
        now_ms = self._clock.monotonic_ms()
        window_ms = now_ms - self._looked_ms
        if window_ms < WINDOW_MS:
            return
        before, self._before, self._looked_ms = self._before, self._sampled(), now_ms
        used = [
            ms - before[clock][1]
            for clock, (what, ms) in self._before.items()
            if clock in before and before[clock][0] is what
        ]
        if sum(used) >= COMPUTING_SHARE * window_ms:
            self._calm_from_ms = now_ms + CALM_MS
            self._choose(sum(ms >= _USED_MS_MIN for ms in used))
        elif self._calm_from_ms is not None and now_ms >= self._calm_from_ms:
            self.close()

    def close(self) -> None:
        """Report that no thread computes any more."""
        self._calm_from_ms = None
        self._choose(0)

    def _sampled(self) -> dict[int, tuple[object, float]]:
        sampled = {}
        for clock, what in self._at_work().items():
            ms = None if what is None else self._used_ms(clock)
            if ms is not None:
                sampled[clock] = (what, ms)
        return sampled
