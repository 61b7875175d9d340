"""What a node knows of itself at a moment: counts, lateness, and which tasks fail or block.

Takes note of events as they pass and keeps bounded sums; it decides nothing and writes
nothing.  Rates are for the reader: every count only grows.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from actors.model.events import (
    AttemptFinished,
    AttemptStarted,
    CatchUpEnded,
    CommandDecided,
    Event,
    PartitionAssigned,
    PartitionLoadReported,
    PartitionLost,
    PartitionRevoked,
    RetriesExhausted,
    TaskClosed,
    TreeRebuilt,
    WatermarkAdvanced,
    WatermarkHeld,
    WindowLoaded,
)
from actors.model.key import TaskKey
from actors.model.observed import OrderingsMeasured
from actors.model.oversight import LATENESS_MS, Moment
from actors.model.status import AttemptResult
from actors.ports.clock import Clock

TROUBLED_MAX = 5_000
"""Failing and blocked tasks that a node remembers; more are only counted."""
MOMENTS_MAX = 100


class Troubled(msgspec.Struct):
    """A task whose attempts fail, or whose ordering id waits for an operator."""

    since_ms: int
    attempts: int
    error: str
    blocked: bool = False


class PartitionFigures(msgspec.Struct):
    """What was counted of one partition on this node."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    closed: dict[str, int] = {}
    lateness: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENESS_MS) + 1))
    waiting: int | None = None
    executing: int | None = None
    loaded_until_ms: int | None = None
    watermark_ms: int | None = None
    stragglers: int = 0
    held: int = 0
    """Ordering ids that wait for a retry, an operator or slow code."""
    overdue_ms: int = 0
    """How long ago the oldest open task fell due."""
    assigned_ms: int | None = None
    catch_up_ms: int | None = None


class Figures:
    """Implements ``Telemetry``; may be read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._partitions: dict[int, PartitionFigures] = {}
        self._troubled: dict[TaskKey, tuple[int, Troubled]] = {}
        """Task to partition and trouble."""
        self._forgotten = 0
        self.moments: deque[Moment] = deque(maxlen=MOMENTS_MAX)
        self.tree_failures = 0
        self._takers: dict[type, Callable[[Any], None]] = {
            AttemptStarted: self._start,
            AttemptFinished: self._finish,
            TaskClosed: self._close,
        }
        for kind, take in self._rare_takers().items():
            self._takers[kind] = partial(self._locked, take)

    def _rare_takers(self) -> dict[type, Callable[[Any], None]]:
        return {
            CommandDecided: self._decide,
            RetriesExhausted: self._exhaust,
            PartitionLoadReported: self._load,
            WindowLoaded: self._reach,
            WatermarkAdvanced: self._advance,
            WatermarkHeld: self._hold,
            OrderingsMeasured: self._measure,
            PartitionAssigned: self._assign,
            PartitionRevoked: lambda event: self._let_go(event, "revoked", ""),
            PartitionLost: lambda event: self._let_go(event, "lost", event.reason),
            CatchUpEnded: self._catch_up,
            TreeRebuilt: self._rebuild,
        }

    def emit(self, event: Event) -> None:
        """Take note of an event."""
        take = self._takers.get(event.__class__)
        if take is not None:
            take(event)

    def taker(self, kind: type[Event]) -> Callable[[Any], None] | None:
        """Return what takes note of the events of a class."""
        return self._takers.get(kind)

    def partition(self, number: int) -> PartitionFigures:
        """Return a copy of a partition's figures."""
        with self._lock:
            found = self._partitions.get(number)
            return msgspec.convert(
                msgspec.to_builtins(found or PartitionFigures()), PartitionFigures
            )

    def troubled(self) -> list[tuple[TaskKey, int, Troubled]]:
        """Return the failing and blocked tasks with their partitions, oldest trouble first."""
        with self._lock:
            found = [(key, partition, each) for key, (partition, each) in self._troubled.items()]
        return sorted(found, key=lambda each: each[2].since_ms)

    def _of(self, partition: int) -> PartitionFigures:
        found = self._partitions.get(partition)
        return found or self._partitions.setdefault(partition, PartitionFigures())

    # Once per task, and without the lock: no thread comes between the reading and the writing
    # of ``+= 1`` (see ``observing/cells.py``).

    def _start(self, event: AttemptStarted) -> None:
        figures = self._partitions.get(event.partition) or self._of(event.partition)
        figures.started += 1
        figures.lateness[bisect_left(LATENESS_MS, event.delay_ms)] += 1

    def _finish(self, event: AttemptFinished) -> None:
        figures = self._partitions.get(event.partition) or self._of(event.partition)
        if event.result is AttemptResult.SUCCESS or event.result is AttemptResult.DROPPED:
            figures.succeeded += 1
            return
        figures.failed += 1
        with self._lock:
            self._trouble(event)

    def _close(self, event: TaskClosed) -> None:
        figures = self._partitions.get(event.partition) or self._of(event.partition)
        closed, result = figures.closed, event.result._value_
        try:
            closed[result] += 1
        except KeyError:
            closed.setdefault(result, 0)
            closed[result] += 1
        if self._troubled:
            with self._lock:
                self._troubled.pop(event.key, None)

    # The others, under the lock.

    def _locked(self, take: Callable[[Any], None], event: Event) -> None:
        with self._lock:
            take(event)

    def _trouble(self, event: AttemptFinished) -> None:
        known = self._troubled.get(event.key)
        error = event.error_class or event.result.value
        if known is not None:
            known[1].attempts, known[1].error = event.attempt, error
        else:
            self._remember(
                event.key, event.partition, Troubled(event.finished_ms, event.attempt, error)
            )

    def _exhaust(self, event: RetriesExhausted) -> None:
        if event.on_exhausted != "block":
            return
        known = self._troubled.get(event.key)
        if known is not None:
            known[1].blocked = True
        else:
            trouble = Troubled(self._clock.now_ms(), 0, "", blocked=True)
            self._remember(event.key, event.partition, trouble)

    def _remember(self, key: TaskKey, partition: int, trouble: Troubled) -> None:
        if len(self._troubled) < TROUBLED_MAX:
            self._troubled[key] = (partition, trouble)
        else:
            self._forgotten += 1

    def _decide(self, event: CommandDecided) -> None:
        if self._troubled and event.outcome.value == "applied":
            self._troubled.pop(event.key, None)

    def _load(self, event: PartitionLoadReported) -> None:
        figures = self._of(event.partition)
        figures.waiting, figures.executing = event.waiting, event.executing

    def _reach(self, event: WindowLoaded) -> None:
        self._of(event.partition).loaded_until_ms = event.reached_ms

    def _advance(self, event: WatermarkAdvanced) -> None:
        figures = self._of(event.partition)
        figures.watermark_ms, figures.stragglers = event.watermark_ms, event.stragglers

    def _hold(self, event: WatermarkHeld) -> None:
        figures = self._of(event.partition)
        figures.watermark_ms, figures.stragglers = event.watermark_ms, event.blocked

    def _measure(self, event: OrderingsMeasured) -> None:
        figures = self._of(event.partition)
        figures.held, figures.overdue_ms = event.held, event.overdue_ms

    def _assign(self, event: PartitionAssigned) -> None:
        figures = self._of(event.partition)
        figures.assigned_ms, figures.catch_up_ms = self._clock.now_ms(), None
        self._mark("assigned", event.partition, f"epoch {event.epoch}")

    def _catch_up(self, event: CatchUpEnded) -> None:
        self._of(event.partition).catch_up_ms = event.waited_ms
        if not event.complete:
            self._mark("started before the log was read", event.partition, "")

    def _let_go(self, event: PartitionRevoked | PartitionLost, what: str, detail: str) -> None:
        figures = self._of(event.partition)
        figures.waiting = figures.executing = figures.loaded_until_ms = None
        gone = [
            key for key, (partition, _) in self._troubled.items() if partition == event.partition
        ]
        for key in gone:
            del self._troubled[key]
        self._mark(what, event.partition, detail)

    def _rebuild(self, event: TreeRebuilt) -> None:
        self.tree_failures += 1
        self._mark("rebuilt", -1, event.cause[:200])

    def _mark(self, what: str, partition: int, detail: str) -> None:
        self.moments.append(Moment(self._clock.now_ms(), what, partition, detail))
