"""What the store says to a suspicion of the self-check, and the doubts that are told.

Decides what a row, a completion or an outcome proves.  A look that fails proves nothing.  Looks
out of curiosity are few a second; those that follow a suspicion are made whatever it takes.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from actors.model.codec import Command, LogRecord, decode_record
from actors.model.errors import PoisonRecord
from actors.model.events import Event
from actors.model.key import TaskKey
from actors.model.observed import PromiseDoubted, SelfChecked
from actors.model.partition import partition_of
from actors.model.status import Completion
from actors.ports.clock import Clock
from actors.ports.store import Stores

LOOKS_PER_S_MAX = 10
_DOUBTS_MAX = 2_000
"""Doubts told by one process; what is wrong by then needs no more of them."""
_RECORD_BYTES_MAX = 100_000
"""A longer record may be one that the store cannot hold."""


class StoreLooks:
    """Asks the stores, and tells; used from any thread."""

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
        """Whether there is room for a look that nothing but curiosity asks for."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            gained = (now_ms - self._looked_ms) * self._per_s_max / 1000
            self._left, self._looked_ms = min(self._per_s_max, self._left + gained), now_ms
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def at_start(self, partition: int, key: TaskKey, started_ms: int) -> None:
        """A key that was done before it started is run again (P5)."""

        def judge(found: Completion | None) -> None:
            if found is not None and found.result.is_done and 0 < found.finished_ms < started_ms:
                self.doubt("P5", partition, key, f"it started, and was {found.result} before")

        self._find(partition, key, judge)

    def at_closed(self, partition: int, key: TaskKey) -> None:
        """A key that was told to be closed has a completion (P5)."""

        def judge(found: Completion | None) -> None:
            if found is None:
                self.doubt("P5", partition, key, "it was closed, and no completion is stored")

        self._find(partition, key, judge)

    def at_open(self, partition: int, key: TaskKey, promise: str, reason: str) -> None:
        """A key with a row and no completion is open, which breaks a promise now."""

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
        """A record below a committed offset had its effect (P9).

        Poison, a record in the wrong partition and one that is too long had it elsewhere.
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
        """Tell of a doubt, once for each promise and key."""
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
        # A row that a later record replaced, or that is closed, had its effect as well.
        closed = self._stores.status.find_completions(record.partition, (key,))
        closed.add_done_callback(partial(self._judge_effect, record, key))

    def _judge_effect(self, record: LogRecord, key: TaskKey, read: "Future[Any]") -> None:
        if _failed(read):
            return
        self._tell(SelfChecked(1))
        if not read.result():
            reason = f"offset {record.offset} is committed, and nothing came of it"
            self.doubt("P9", record.partition, key, reason)


def _failed(read: "Future[Any]") -> bool:
    return read.cancelled() or read.exception() is not None
