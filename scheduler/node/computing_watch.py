"""Whether user code computes on a node, rather than waits: then threads hand over sooner.

Decides that from the processor time that attempts take which last, looked at ten times a second at
most: a plain drain has none of these, however busy it keeps the interpreter.  Measures no attempt
that is short, and changes nothing itself.
"""

from collections.abc import Callable, Mapping

from actors.ports.clock import Clock

WINDOW_MS = 100.0
"""An attempt counts that runs at both ends of a window at least so long."""
COMPUTING_SHARE = 0.25
"""User code computes where such attempts take so much of the window's time on a processor."""
CALM_MS = 2_000.0
"""It does so no more once no window of so long a time has shown it."""
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
        """``at_work`` says what each thread runs, by its clock, which ``used_ms`` reads.

        ``choose`` is told how many threads compute, 0 where that has ended.
        """
        self._at_work = at_work
        self._used_ms = used_ms
        self._clock = clock
        self._choose = choose
        self._before: dict[int, tuple[object, float]] = {}
        self._looked_ms = 0.0
        self._calm_from_ms: float | None = None
        """When it counts as calm again; None while it does."""

    def look(self) -> None:
        """Say how many threads compute, where a window has passed."""
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
        """Nothing computes any more."""
        self._calm_from_ms = None
        self._choose(0)

    def _sampled(self) -> dict[int, tuple[object, float]]:
        sampled = {}
        for clock, what in self._at_work().items():
            ms = None if what is None else self._used_ms(clock)
            if ms is not None:
                sampled[clock] = (what, ms)
        return sampled
