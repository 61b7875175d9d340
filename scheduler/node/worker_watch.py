"""Whether attempts wait because all workers of a node are busy or the event loop stands still.

Decides when such an episode begins and ends, from what it looks at now and then: an attempt is not
measured.  Never changes what runs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.model.attempts import Attempt
from actors.model.events import LoopBlocked, LoopFreed, WorkersExhausted, WorkersFreed
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


class LoopAtHand(NamedTuple):
    """What an event loop does at one moment."""

    attempt: Attempt | None
    """The one whose coroutine has the loop; None where no attempt's has."""
    code: str
    """File, line and function."""


class LoopWatch:
    """Watches the event loop of one node; ``look`` is called as that of ``WorkerWatch``."""

    def __init__(
        self,
        ask_turn: Callable[[Callable[[], object]], bool],
        at_hand: Callable[[], LoopAtHand],
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        """``ask_turn`` has something called in the loop's next turn; False where there is none."""
        self._ask_turn = ask_turn
        self._at_hand = at_hand
        self._clock = clock
        self._telemetry = telemetry
        self._asked_ms: float | None = None
        self._has_turned = self._is_told = False

    def look(self) -> None:
        """Tell of a turn that takes a second, and of its end."""
        now_ms = self._clock.monotonic_ms()
        if self._asked_ms is None or self._has_turned:
            if self._is_told and self._asked_ms is not None:
                self._telemetry.emit(LoopFreed(round(now_ms - self._asked_ms)))
            self._has_turned = self._is_told = False
            self._asked_ms = now_ms if self._ask_turn(self._turn) else None
        elif not self._is_told and now_ms - self._asked_ms >= WAITED_MS:
            self._is_told = True
            attempt, code = self._at_hand()
            partition = None if attempt is None else attempt.partition
            key = None if attempt is None else attempt.task.key
            blocked_ms = round(now_ms - self._asked_ms)
            self._telemetry.emit(LoopBlocked(partition, key, code, blocked_ms))

    def _turn(self) -> None:
        self._has_turned = True


class WorkerWatch:
    """Watches the pools of one node; ``look`` is called by one thread, several times a second."""

    def __init__(self, pools: Sequence[WorkerPool], clock: Clock, telemetry: Telemetry) -> None:
        self._watched = [_WatchedPool(pool) for pool in pools]
        self._clock = clock
        self._telemetry = telemetry

    def look(self) -> None:
        """Tell of an episode that has begun or ended."""
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
