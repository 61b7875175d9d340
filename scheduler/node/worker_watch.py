"""Watches whether attempts wait because all workers are busy or the event loop stands still.

Decides when such an episode begins and ends, by a look several times a second; it measures no
attempt.  Changes nothing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.operations.events import (
    LoopBlocked,
    LoopFreed,
    WorkersExhausted,
    WorkersFreed,
)
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry

WAITED_MS = 1_000
"""A longer wait for a worker is reported: user code delays other attempts."""


class WorkerLoad(NamedTuple):
    """Numbers of attempts: handed to workers since the node began, and still waiting."""

    submitted: int
    waiting: int


class WorkerPool(NamedTuple):
    """Workers that share a queue: threads, or the slots for coroutines."""

    name: str
    """The name in metrics."""
    workers_max: int
    setting: str
    """Name of the setting that ``workers_max`` comes from."""
    load: Callable[[], WorkerLoad]


class LoopAtHand(NamedTuple):
    """The work of an event loop at one moment."""

    attempt: Attempt | None
    """The attempt whose coroutine runs; None if the coroutine belongs to no attempt."""
    code: str
    """File, line and function."""


class LoopWatch:
    """Watches the event loop of one node; ``look`` is called like that of ``WorkerWatch``."""

    def __init__(
        self,
        ask_turn: Callable[[Callable[[], object]], bool],
        at_hand: Callable[[], LoopAtHand],
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        """``ask_turn`` calls a function in the loop's next turn; returns False without a loop."""
        self._ask_turn = ask_turn
        self._at_hand = at_hand
        self._clock = clock
        self._telemetry = telemetry
        self._asked_ms: float | None = None
        self._has_turned = self._is_told = False

    def look(self) -> None:
        """Report a turn that takes a second, and its end."""
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
        """Report episodes that have begun or ended."""
        now_ms = self._clock.monotonic_ms()
        for watched in self._watched:
            event = watched.look(now_ms)
            if event is not None:
                self._telemetry.emit(event)


class _WatchedPool:
    """Marks the last submitted attempt, and measures the time until the workers reach it."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._marked = 0
        """Number of attempts that had been submitted at ``_marked_ms``."""
        self._marked_ms = 0.0
        self._began_ms: float | None = None
        """Monotonic time at which the present episode began; None without one."""

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
