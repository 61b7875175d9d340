"""Whether attempts wait because all workers of a node are busy, and how long that lasts.

Decides when such an episode begins and ends, from two counts that it looks at now and then: an
attempt is not measured.  Never changes what runs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.model.events import WorkersExhausted, WorkersFreed
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry

WAITED_MS = 1_000
"""Attempts that wait so long for a worker are told of: user code makes others late."""


class WorkerLoad(NamedTuple):
    """How many attempts were handed to workers since the node began, and how many still wait."""

    submitted: int
    waiting: int


class WorkerPool(NamedTuple):
    """Workers that share a queue: threads, or the slots for coroutines."""

    name: str
    """As metrics call it."""
    workers_max: int
    setting: str
    """Name of the setting that ``workers_max`` comes from."""
    load: Callable[[], WorkerLoad]


class WorkerWatch:
    """Watches the pools of one node; ``look`` is called by one thread, several times a second."""

    def __init__(
        self,
        pools: Sequence[WorkerPool],
        clock: Clock,
        telemetry: Telemetry,
        nudge: Callable[[], object] = lambda: None,
    ) -> None:
        """``nudge`` begins threads that the machine did not have when they were needed."""
        self._watched = [_WatchedPool(pool) for pool in pools]
        self._nudge = nudge
        self._clock = clock
        self._telemetry = telemetry

    def look(self) -> None:
        """Tell of an episode that has begun or ended."""
        self._nudge()
        now_ms = self._clock.monotonic_ms()
        for watched in self._watched:
            event = watched.look(now_ms)
            if event is not None:
                self._telemetry.emit(event)


class _WatchedPool:
    """Marks the last attempt submitted, and looks how long the workers take to come to it."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._marked = 0
        """So many attempts had been submitted at ``_marked_ms``."""
        self._marked_ms = 0.0
        self._began_ms: float | None = None
        """When the attempts of the episode at hand began to wait."""

    def look(self, now_ms: float) -> WorkersExhausted | WorkersFreed | None:
        submitted, waiting = self._pool.load()
        waited_ms = now_ms - self._marked_ms
        if submitted - waiting >= self._marked:
            self._marked, self._marked_ms = submitted, now_ms
            return self._end(now_ms) if waiting == 0 or waited_ms < WAITED_MS else None
        if self._began_ms is not None or waited_ms < WAITED_MS:
            return None
        self._began_ms = self._marked_ms
        pool = self._pool
        return WorkersExhausted(
            pool.name, pool.workers_max, pool.setting, waiting, round(waited_ms)
        )

    def _end(self, now_ms: float) -> WorkersFreed | None:
        if self._began_ms is None:
            return None
        busy_ms, self._began_ms = round(now_ms - self._began_ms), None
        return WorkersFreed(self._pool.name, self._pool.workers_max, busy_ms)
