"""The tasks of a node that fail or block, and events of its partitions.

Bounded, and decides nothing. Events of tasks that do not fail never come here.
"""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from hourhand.actors.model.operations.events import (
    AttemptFinished,
    CatchUpEnded,
    CommandDecided,
    PartitionAssigned,
    PartitionLost,
    PartitionRevoked,
    RetriesExhausted,
    TaskHeld,
    TreeRebuilt,
    WindowLoaded,
)
from hourhand.actors.model.operations.oversight import Moment, TroubledTask
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.ports.clock import Clock

TROUBLED_MAX = 5_000
"""Failing and blocked tasks that a node keeps; later ones are left out."""
MOMENTS_MAX = 100
_ERROR_CHARS_MAX = 200


@dataclass(slots=True)
class _Trouble:
    partition: int
    since_ms: int
    attempts: int
    error: str
    blocked: bool = False
    kind: str | None = None


@dataclass(slots=True)
class PartitionNotes:
    """The notes about one partition, besides its metrics."""

    failed: int = 0
    loaded_until_ms: int | None = None
    assigned_ms: int | None = None
    catch_up_ms: int | None = None


@dataclass(slots=True)
class TroubleCounts:
    """The numbers of a partition's tasks in trouble."""

    failing: int = 0
    blocked_hours: Counter[int] = field(default_factory=Counter)
    """By start of an hour: the number of its tasks that block their ordering ids."""


class NodeTroubles:
    """Written and read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._partitions: dict[int, PartitionNotes] = {}
        self.troubled: dict[TaskKey, _Trouble] = {}
        """Read without the lock to see whether it is empty; the lock guards the rest."""
        self.moments: deque[Moment] = deque(maxlen=MOMENTS_MAX)

    def noted(self, number: int) -> PartitionNotes:
        """Return the notes about a partition."""
        with self._lock:
            return self._of(number)

    def listed(self, most: int, *, blocked: bool) -> tuple[int, tuple[TroubledTask, ...]]:
        """Return the number of tasks that are blocked, or fail, and the first ``most``, oldest
        first.
        """
        with self._lock:
            found = [(key, each) for key, each in self.troubled.items() if each.blocked is blocked]
        found.sort(key=lambda pair: pair[1].since_ms)
        return len(found), tuple(
            TroubledTask(
                str(key), each.partition, each.since_ms, each.attempts, each.error, each.kind
            )
            for key, each in found[:most]
        )

    def counted(self) -> "Mapping[int, TroubleCounts]":
        """Return each partition's numbers of tasks in trouble; partitions without any are left
        out.
        """
        found: defaultdict[int, TroubleCounts] = defaultdict(TroubleCounts)
        with self._lock:
            for key, each in self.troubled.items():
                counts = found[each.partition]
                if each.blocked:
                    counts.blocked_hours[hour_of(key.scheduled_ms)] += 1
                else:
                    counts.failing += 1
        return found

    def fail(self, event: AttemptFinished) -> None:
        """Note an attempt that did not succeed."""
        error = (event.error_class or event.result.value)[:_ERROR_CHARS_MAX]
        with self._lock:
            self._of(event.partition).failed += 1
            known = self.troubled.get(event.key)
            if known is not None:
                known.attempts, known.error = event.attempt, error
            else:
                since_ms = event.failed_ms or event.finished_ms
                trouble = _Trouble(event.partition, since_ms, event.attempt, error, kind=event.kind)
                self._remember(event.key, trouble)

    def exhaust(self, event: RetriesExhausted) -> None:
        """Note a task that used up its attempts; its ordering id may wait for an operator."""
        if event.on_exhausted != "block":
            return
        with self._lock:
            known = self.troubled.get(event.key)
            if known is not None:
                known.blocked = True
            else:
                # It was blocked before this process, or this owner, began.
                since_ms = event.failed_ms or self._clock.now_ms()
                error = (event.error_class or "")[:_ERROR_CHARS_MAX]
                trouble = _Trouble(event.partition, since_ms, event.attempt, error)
                trouble.blocked, trouble.kind = True, event.kind
                self._remember(event.key, trouble)

    def hold(self, event: TaskHeld) -> None:
        """Note a task that waits for a node that can run it."""
        with self._lock:
            known = self.troubled.get(event.key)
            if known is None:
                since_ms = event.failed_ms or self._clock.now_ms()
                known = _Trouble(event.partition, since_ms, 0, "", kind=event.kind)
                self._remember(event.key, known)
            # The class, as for a failed attempt: operators act on all tasks of one class.
            known.blocked, known.error = True, event.error_class

    def end(self, key: TaskKey) -> None:
        """Note that a key is closed."""
        with self._lock:
            self.troubled.pop(key, None)

    def decide(self, event: CommandDecided) -> None:
        """Note the effect of a command."""
        if event.outcome is CommandOutcome.APPLIED:
            self.end(event.key)

    def load(self, event: WindowLoaded) -> None:
        """Note how far the window of a partition reaches."""
        with self._lock:
            self._of(event.partition).loaded_until_ms = event.reached_ms

    def assign(self, event: PartitionAssigned) -> None:
        """Note an assigned partition."""
        with self._lock:
            noted = self._of(event.partition)
            noted.assigned_ms, noted.catch_up_ms = self._clock.now_ms(), None
            self._mark("assigned", event.partition, f"epoch {event.epoch}")

    def catch_up(self, event: CatchUpEnded) -> None:
        """Note that a partition may start tasks."""
        with self._lock:
            self._of(event.partition).catch_up_ms = event.waited_ms
            if not event.complete:
                self._mark("started before the log was read", event.partition, "")

    def let_go(self, event: PartitionRevoked | PartitionLost) -> None:
        """Note that a partition was given up; its troubles are its next owner's."""
        lost = event if isinstance(event, PartitionLost) else None
        with self._lock:
            self._of(event.partition).loaded_until_ms = None
            for key in [k for k, v in self.troubled.items() if v.partition == event.partition]:
                del self.troubled[key]
            what, detail = ("lost", lost.reason) if lost else ("revoked", "")
            self._mark(what, event.partition, detail)

    def rebuild(self, event: TreeRebuilt) -> None:
        """Note a failure of the tree."""
        with self._lock:
            self._mark("rebuilt", -1, event.cause[:200])

    # The methods below are called with the lock held.

    def _of(self, partition: int) -> PartitionNotes:
        return self._partitions.setdefault(partition, PartitionNotes())

    def _remember(self, key: TaskKey, trouble: _Trouble) -> None:
        if len(self.troubled) < TROUBLED_MAX:
            self.troubled[key] = trouble

    def _mark(self, what: str, partition: int, detail: str) -> None:
        self.moments.append(Moment(self._clock.now_ms(), what, partition, detail))
