"""The self-check of a node: watches some ordering ids, and tells where a promise looks broken.

It compares what was stored, what ran and what was closed, as events and wrapped ports tell it,
and asks the store before it says anything that memory alone cannot prove.  What
docs/promises.md excepts is left out: ids with commands, for their order; the first minute of an
ownership, for what an earlier owner may still have run; partitions that began before their log's
end was read.  Never changes what a node does, and reads little: ten looks a second at most.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.model.codec import LogRecord
from actors.model.events import (
    AttemptAbandoned,
    AttemptFinished,
    AttemptStarted,
    CatchUpEnded,
    CommandDecided,
    Event,
    PartitionAssigned,
    PartitionLost,
    PartitionRevoked,
    TaskClosed,
    WatermarkAdvanced,
)
from actors.model.key import TaskKey
from actors.ports.clock import Clock
from actors.ports.store import Stores
from scheduler.adapters.observing.store_looks import LOOKS_PER_S_MAX, StoreLooks

SHARE_MASK = 1023
"""Ordering ids are watched by the low bits of their hash, which every string keeps."""
SETTLED_MS = 60_000
"""So long an earlier owner's attempts may have an effect that this node has not seen."""
_KEYS_MAX = 2_000
"""Open keys and ids with commands remembered of each partition."""
_CLOSED_MAX = 10_000
_PENDING_MAX = 100


PARTITION_EVENTS: tuple[type, ...] = (
    PartitionAssigned,
    PartitionRevoked,
    PartitionLost,
    CatchUpEnded,
    WatermarkAdvanced,
    AttemptAbandoned,
    CommandDecided,
)
"""What it is told of whoever it concerns; of the rest only what concerns watched ids."""


@dataclass(slots=True)
class _Owned:
    """What is remembered of a partition while this node owns it."""

    since_ms: float
    ordered: bool = True
    stored: dict[str, dict[TaskKey, int]] = field(default_factory=dict)
    """Open keys by ordering id, each with the wall time at which its row was durable."""
    commanded: set[str] = field(default_factory=set)
    keys: int = 0


class SelfCheck:
    """Judges one node; told from any thread.  ``stores`` are asked, never written."""

    def __init__(
        self,
        clock: Clock,
        tell: Callable[[Event], None],
        stores: Stores,
        share: float,
        looks_per_s_max: int = LOOKS_PER_S_MAX,
    ) -> None:
        self.watched_shares = round(share * (SHARE_MASK + 1))
        self.partition_count: int | None = None
        self._clock = clock
        self._looks = StoreLooks(clock, tell, stores, looks_per_s_max)
        self._lock = threading.RLock()
        self.running: dict[tuple[int, str], TaskKey] = {}
        """Watched attempts by partition and ordering id."""
        self._owned: dict[int, _Owned] = {}
        self._closed: dict[TaskKey, None] = {}
        self._pending: list[LogRecord] = []

    def take(self, event: Event) -> None:
        """Take note of what happened to a watched id, or to a partition."""
        with self._lock:
            match event:
                case PartitionAssigned(partition=partition):
                    self._owned[partition] = _Owned(self._clock.monotonic_ms())
                case PartitionRevoked(partition=partition) | PartitionLost(partition=partition):
                    self._leave(partition)
                case CatchUpEnded(partition=partition, complete=False):
                    self._of(partition).ordered = False
                case WatermarkAdvanced(stragglers=0):
                    self._passed(event.partition, event.watermark_ms)
                case AttemptStarted():
                    self._started(event)
                case AttemptFinished() | AttemptAbandoned():
                    self.running.pop((event.partition, event.key.ordering_id), None)
                case CommandDecided():
                    self._commanded(event.partition, event.key)
                case TaskClosed():
                    self._closes(event)
                case _:
                    pass

    def note_stored(self, partition: int, keys: Sequence[TaskKey]) -> None:
        """Take note of watched rows that are durable."""
        now_ms = self._clock.now_ms()
        with self._lock:
            owned = self._of(partition)
            for key in keys:
                if owned.keys < _KEYS_MAX:
                    of_id = owned.stored.setdefault(key.ordering_id, {})
                    owned.keys += key not in of_id
                    of_id.setdefault(key, now_ms)

    def note_polled(self, record: LogRecord) -> None:
        """Remember a record until an offset behind it is committed."""
        with self._lock:
            if len(self._pending) < _PENDING_MAX and self._looks.may_look():
                self._pending.append(record)

    def note_committed(self, next_offsets: Mapping[int, int]) -> None:
        """Compare what is remembered of the log with the store, up to the offsets (P9)."""
        with self._lock:
            passed = [r for r in self._pending if r.offset < next_offsets.get(r.partition, -1)]
            self._pending = [r for r in self._pending if r not in passed]
        for record in passed:
            self._looks.at_record(record, self.partition_count)

    # What memory proves, and what it only suspects.

    def _of(self, partition: int) -> _Owned:
        return self._owned.setdefault(partition, _Owned(self._clock.monotonic_ms()))

    def _leave(self, partition: int) -> None:
        """What still runs of a partition given up is excepted, and its end is told to nobody."""
        self._owned.pop(partition, None)
        for place in [each for each in self.running if each[0] == partition]:
            del self.running[place]

    def _started(self, event: AttemptStarted) -> None:
        partition, key = event.partition, event.key
        owned, now_ms = self._of(partition), self._clock.now_ms()
        early = event.delay_ms < 0 if event.attempt == 1 else now_ms < key.scheduled_ms
        if early:
            self._looks.doubt("P2", partition, key, "it started before it was due")
        other = self.running.get((partition, key.ordering_id))
        if other is not None:
            self._looks.doubt("P3", partition, key, f"it started while {other} ran")
        self.running[partition, key.ordering_id] = key
        if event.attempt == 1 and owned.ordered and key.ordering_id not in owned.commanded:
            self._check_order(partition, key, owned.stored.get(key.ordering_id, {}))
        settled = self._clock.monotonic_ms() - owned.since_ms >= SETTLED_MS
        if key in self._closed or (settled and self._looks.may_look()):
            self._looks.at_start(partition, key, now_ms)

    def _check_order(self, partition: int, key: TaskKey, stored: Mapping[TaskKey, int]) -> None:
        """Look at the open keys before this one that were stored, as it was, before any was due."""
        mine_ms = stored.get(key)
        if mine_ms is None:
            return
        for earlier, stored_ms in stored.items():
            if earlier < key and max(mine_ms, stored_ms) < earlier.scheduled_ms:
                self._looks.at_open(partition, earlier, "P4", f"{key} started before it")

    def _closes(self, event: TaskClosed) -> None:
        key = event.key
        self._forget(event.partition, key)
        if event.result.is_done:
            if len(self._closed) >= _CLOSED_MAX:
                self._closed.pop(next(iter(self._closed)))
            self._closed[key] = None
            if self._looks.may_look():
                self._looks.at_closed(event.partition, key)

    def _commanded(self, partition: int, key: TaskKey) -> None:
        owned = self._of(partition)
        if len(owned.commanded) >= _KEYS_MAX:
            # Which ids have commands is not known any more, so their order is nobody's to judge.
            owned.ordered = False
        else:
            owned.commanded.add(key.ordering_id)
        self._closed.pop(key, None)

    def _passed(self, partition: int, watermark_ms: int) -> None:
        """Everything below a watermark without stragglers is closed (P8)."""
        keys = [key for of_id in self._of(partition).stored.values() for key in of_id]
        for key in keys:
            if key.scheduled_ms < watermark_ms:
                self._forget(partition, key)
                self._looks.at_open(partition, key, "P8", "the watermark passed it while open")

    def _forget(self, partition: int, key: TaskKey) -> None:
        owned = self._of(partition)
        of_id = owned.stored.get(key.ordering_id, {})
        if of_id.pop(key, None) is not None:
            owned.keys -= 1
            if not of_id:
                del owned.stored[key.ordering_id]
