"""The self-check of a node: watches some ordering ids, and reports a promise that looks broken.

It compares stored rows, attempts and completions, as reported by events and wrapped ports, and asks
the store before it reports anything that memory alone cannot prove. It leaves out the exceptions of
docs/promises.md: the order of ids with commands; the first minute of an ownership, when an earlier
owner may still have run tasks; partitions that began before their log's end was read. It never
changes the node's actions, and reads little: at most ten looks a second.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hourhand.actors.model.operations.events import (
    AttemptAbandoned,
    AttemptFinished,
    AttemptStarted,
    CatchUpEnded,
    CommandDecided,
    Event,
    PartitionAssigned,
    PartitionLost,
    PartitionRevoked,
    PromiseDoubted,
    SelfChecked,
    TaskClosed,
    WatermarkAdvanced,
)
from hourhand.actors.model.task.codec import Command, LogRecord, decode_record
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores

SHARE_MASK = 1023
"""Ordering ids are watched by the low bits of their hash, which every string keeps."""
SETTLED_MS = 60_000
"""Time within which an earlier owner's attempts may have an effect that this node has not seen."""
_KEYS_MAX = 2_000
"""Open keys and ids with commands in memory, for each partition."""
_CLOSED_MAX = 10_000
_PENDING_MAX = 100
LOOKS_PER_S_MAX = 10
_DOUBTS_MAX = 2_000
"""Most doubts that one process reports; more would not help."""
_RECORD_BYTES_MAX = 100_000
"""A longer record may be one that the store cannot hold."""


PARTITION_EVENTS: tuple[type, ...] = (
    PartitionAssigned,
    PartitionRevoked,
    PartitionLost,
    CatchUpEnded,
    WatermarkAdvanced,
    AttemptAbandoned,
    CommandDecided,
)
"""Events that it always gets; of others it gets only those of watched ids."""


@dataclass(slots=True)
class _Owned:
    """The known state of an owned partition."""

    since_ms: float
    ordered: bool = True
    stored: dict[str, dict[TaskKey, int]] = field(default_factory=dict)
    """Open keys by ordering id, each with the wall time at which its row was durable."""
    commanded: set[str] = field(default_factory=set)
    keys: int = 0


class SelfCheck:
    """Judges one node; called from any thread. ``stores`` are only read."""

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
        self.unordered: Collection[str | None] = ()
        """Kinds whose tasks need no order."""
        self._clock = clock
        self._looks = StoreLooks(clock, tell, stores, looks_per_s_max)
        self._lock = threading.RLock()
        self.running: dict[tuple[int, str], TaskKey] = {}
        """Watched attempts by partition and ordering id."""
        self._owned: dict[int, _Owned] = {}
        self._closed: dict[TaskKey, None] = {}
        self._pending: list[LogRecord] = []

    def take(self, event: Event) -> None:
        """Handle an event of a watched id, or of a partition."""
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
                    self._ended(event.partition, event.key)
                case CommandDecided():
                    self._commanded(event.partition, event.key)
                case TaskClosed():
                    self._closes(event)
                case _:
                    pass

    def note_stored(self, partition: int, keys: Sequence[TaskKey]) -> None:
        """Note watched rows that are durable."""
        now_ms = self._clock.now_ms()
        with self._lock:
            owned = self._of(partition)
            for key in keys:
                if owned.keys < _KEYS_MAX:
                    of_id = owned.stored.setdefault(key.ordering_id, {})
                    owned.keys += key not in of_id
                    of_id.setdefault(key, now_ms)

    def note_polled(self, record: LogRecord) -> None:
        """Keep a record until an offset behind it is committed."""
        with self._lock:
            if len(self._pending) < _PENDING_MAX and self._looks.may_look():
                self._pending.append(record)

    def note_committed(self, next_offsets: Mapping[int, int]) -> None:
        """Compare the kept records with the store, up to the offsets (P9)."""
        with self._lock:
            passed = [r for r in self._pending if r.offset < next_offsets.get(r.partition, -1)]
            self._pending = [r for r in self._pending if r not in passed]
        for record in passed:
            self._looks.at_record(record, self.partition_count)

    # Proofs by memory alone, and suspicions for the store.

    def _of(self, partition: int) -> _Owned:
        return self._owned.setdefault(partition, _Owned(self._clock.monotonic_ms()))

    def _leave(self, partition: int) -> None:
        """Forget running attempts of a partition that was given up: they are excepted."""
        self._owned.pop(partition, None)
        for place in [each for each in self.running if each[0] == partition]:
            del self.running[place]

    def _started(self, event: AttemptStarted) -> None:
        partition, key = event.partition, event.key
        owned, now_ms = self._of(partition), self._clock.now_ms()
        early = event.delay_ms < 0 if event.attempt == 1 else now_ms < key.scheduled_ms
        if early:
            self._looks.doubt("P2", partition, key, "it started before it was due")
        if not event.is_unordered:
            self._started_in_order(event, owned)
        settled = self._clock.monotonic_ms() - owned.since_ms >= SETTLED_MS
        if key in self._closed or (settled and self._looks.may_look()):
            self._looks.at_start(partition, key, now_ms)

    def _started_in_order(self, event: AttemptStarted, owned: _Owned) -> None:
        partition, key = event.partition, event.key
        other = self.running.get((partition, key.ordering_id))
        if other is not None:
            self._looks.doubt("P3", partition, key, f"it started while {other} ran")
        self.running[partition, key.ordering_id] = key
        if event.attempt == 1 and owned.ordered and key.ordering_id not in owned.commanded:
            self._check_order(partition, key, owned.stored.get(key.ordering_id, {}))

    def _ended(self, partition: int, key: TaskKey) -> None:
        place = partition, key.ordering_id
        if self.running.get(place) == key:
            del self.running[place]

    def _check_order(self, partition: int, key: TaskKey, stored: Mapping[TaskKey, int]) -> None:
        """Check the open keys before this one that were stored before any of them was due."""
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
            # It is no longer known which ids have commands, so their order cannot be judged.
            owned.ordered = False
        else:
            owned.commanded.add(key.ordering_id)
        self._closed.pop(key, None)

    def _passed(self, partition: int, watermark_ms: int) -> None:
        """Check that everything below a watermark without stragglers is closed (P8)."""
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


class StoreLooks:
    """Checks suspicions against the store; used from any thread.

    A failed look proves nothing. Looks without a suspicion are limited to a few a second; those
    that follow one are always made.
    """

    def __init__(
        self, clock: Clock, tell: Callable[[Event], None], stores: Stores, per_s_max: int
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._stores = stores
        self._lock = threading.Lock()
        self._doubted: set[tuple[str, TaskKey]] = set()
        self._per_s_max = per_s_max
        self._left = float(per_s_max)
        self._looked_ms = clock.monotonic_ms()

    def may_look(self) -> bool:
        """True if the limit leaves room for a look without a suspicion."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            gained = (now_ms - self._looked_ms) * self._per_s_max / 1000
            self._left, self._looked_ms = min(self._per_s_max, self._left + gained), now_ms
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def at_start(self, partition: int, key: TaskKey, started_ms: int) -> None:
        """Report a key that was done before it started, and so runs again (P5)."""

        def judge(found: Completion | None) -> None:
            if found is not None and found.result.is_done and 0 < found.finished_ms < started_ms:
                self.doubt("P5", partition, key, f"it started, and was {found.result} before")

        self._find(partition, key, judge)

    def at_closed(self, partition: int, key: TaskKey) -> None:
        """Report a key that was closed by an event but has no completion (P5)."""

        def judge(found: Completion | None) -> None:
            if found is None:
                self.doubt("P5", partition, key, "it was closed, and no completion is stored")

        self._find(partition, key, judge)

    def at_open(self, partition: int, key: TaskKey, promise: str, reason: str) -> None:
        """Report a key with a row and no completion: it is open, which breaks a promise now."""

        def judge_row(read: "Future[Mapping[TaskKey, Any]]") -> None:
            if _failed(read):
                return
            if key in read.result():
                self.doubt(promise, partition, key, reason)

        def judge(found: Completion | None) -> None:
            if found is None:
                rows = self._stores.schedule.find_tasks(partition, (key,))
                rows.add_done_callback(judge_row)

        self._find(partition, key, judge)

    def at_record(self, record: LogRecord, partition_count: int | None) -> None:
        """Report a record below a committed offset without an effect (P9).

        Poison, a record in the wrong partition and one that is too long have their effect
        elsewhere.
        """
        try:
            entry = decode_record(record)
        except PoisonRecord:
            return
        key, partition = entry.key, record.partition
        own = partition_of(key.ordering_id, partition_count) if partition_count else partition
        if own != partition or len(record.value or b"") > _RECORD_BYTES_MAX:
            return
        if isinstance(entry, Command):
            outcome = self._stores.ownership.find_outcome(partition, record.offset)
            outcome.add_done_callback(partial(self._judge_effect, record, key))
        else:
            rows = self._stores.schedule.find_tasks(partition, (key,))
            rows.add_done_callback(partial(self._judge_row, record, key))

    def doubt(self, promise: str, partition: int, key: TaskKey, reason: str) -> None:
        """Report a doubt, once for each promise and key."""
        with self._lock:
            if (promise, key) in self._doubted or len(self._doubted) >= _DOUBTS_MAX:
                return
            self._doubted.add((promise, key))
        self._tell(PromiseDoubted(partition, key, promise, reason))

    def _find(
        self, partition: int, key: TaskKey, judge: Callable[[Completion | None], None]
    ) -> None:
        def judged(read: "Future[Mapping[TaskKey, Completion]]") -> None:
            if not _failed(read):
                self._tell(SelfChecked(1))
                judge(read.result().get(key))

        self._stores.status.find_completions(partition, (key,)).add_done_callback(judged)

    def _judge_row(self, record: LogRecord, key: TaskKey, read: "Future[Any]") -> None:
        if _failed(read):
            return
        row = read.result().get(key)
        if row is not None and row.offset >= record.offset:
            self._tell(SelfChecked(1))
            return
        # A row that a later record replaced, or that is closed, shows an effect as well.
        closed = self._stores.status.find_completions(record.partition, (key,))
        closed.add_done_callback(partial(self._judge_effect, record, key))

    def _judge_effect(self, record: LogRecord, key: TaskKey, read: "Future[Any]") -> None:
        if _failed(read):
            return
        self._tell(SelfChecked(1))
        if not read.result():
            reason = f"offset {record.offset} is committed, but its record had no effect"
            self.doubt("P9", record.partition, key, reason)


def _failed(read: "Future[Any]") -> bool:
    return read.cancelled() or read.exception() is not None
