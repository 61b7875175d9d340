"""Counts of tasks by the hour in which they are due, updated when they are stored and closed.

Keeps changes and adds them to the store's counts at intervals; counts are never computed by a
search. They are for people: a crash may lose the last changes, and no decision depends on them.
"""

import logging
import threading
from collections import Counter
from collections.abc import Mapping

from hourhand.actors.model.operations.events import (
    CommandDecided,
    TaskClosed,
    TasksStored,
    TasksSucceeded,
)
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.operations.tally import SECOND_MS, HourTally, TallyChange
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.oversight import TallyStore
from hourhand.scheduler.runtime.answers import LOOK_S, answered

logger = logging.getLogger("hourhand.tallies")

HOURS_PER_SAVE_MAX = 500
KEPT_MS = 15 * 24 * HOUR_MS
"""Counts of past hours are kept about as long as completions."""
_CLOSED_BY = {
    CommandKind.CANCEL: CompletionResult.CANCELLED,
    CommandKind.DROP: CompletionResult.DROPPED,
    CommandKind.RESCHEDULE: CompletionResult.MOVED,
    CommandKind.RUN_NOW: CompletionResult.MOVED,
    CommandKind.RETRY: CompletionResult.REOPENED,
    CommandKind.REPLACE: CompletionResult.MOVED,
}


class HourlyCounts:
    """Changes since the last write; ``flush`` is called by one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: dict[int, TallyChange] = {}
        self._known_offsets: dict[int, int] = {}
        """By partition whose stored offset was read: records below the offset are counted."""
        self._saves: dict[int, int] = {}
        self._forgotten_ms: dict[int, int] = {}

    def count_stored(self, event: TasksStored) -> None:
        """Count written rows, unless an earlier owner did."""
        partition, last_offset = event.partition, event.last_offset
        with self._lock:
            if last_offset >= self._known_offsets.get(partition, 0):
                change = self._change(partition)
                change.store(event.scheduled_ms)
                change.counted_offset = max(change.counted_offset, last_offset + 1)

    def count_closed(self, event: TaskClosed) -> None:
        """Count a key that is closed."""
        with self._lock:
            self._change(event.partition).close(event.key.scheduled_ms, event.result)

    def count_succeeded(self, event: TasksSucceeded) -> None:
        """Count keys that were closed together."""
        seconds = Counter([each.key.scheduled_ms // SECOND_MS for each in event.finished])
        with self._lock:
            change = self._change(event.partition)
            for second, closed in seconds.items():
                change.close(second * SECOND_MS, CompletionResult.SUCCESS, closed)

    def count_command(self, event: CommandDecided) -> None:
        """Count the effect of a command on its key."""
        if event.outcome is CommandOutcome.APPLIED and not event.is_new:
            with self._lock:
                result = _CLOSED_BY[event.kind]
                self._change(event.partition).close(event.key.scheduled_ms, result)

    def forget(self, partition: int) -> None:
        """Leave a partition that was given up to its next owner."""
        with self._lock:
            self._known_offsets.pop(partition, None)
            self._changes.pop(partition, None)

    def begin(self, partition: int, counted_offset: int) -> None:
        """Set the offset below which records are already counted, from the store."""
        with self._lock:
            self._known_offsets[partition] = counted_offset

    def flush(self, store: TallyStore, epochs: Mapping[int, int], now_ms: int) -> None:
        """Add the changes of owned partitions, each under its epoch; waits for the store."""
        for partition, epoch in epochs.items():
            with self._lock:
                change = self._changes.pop(partition, None)
            if change is None:
                continue
            try:
                self._add(store, partition, epoch, change)
                self._forget_past(store, partition, epoch, now_ms)
            except (HourhandError, TimeoutError) as error:
                logger.debug("counts of partition %d are kept for later: %s", partition, error)
                self._take_back(partition, change)

    def _change(self, partition: int) -> TallyChange:
        found = self._changes.get(partition)
        if found is None:
            found = self._changes[partition] = TallyChange()
        return found

    def _add(self, store: TallyStore, partition: int, epoch: int, change: TallyChange) -> None:
        hours = sorted(change.hours)
        offset = change.counted_offset
        while hours:
            # Distant hours are read separately, so that no read covers years.
            first_ms = hours[0]
            together = [h for h in hours if h < first_ms + HOURS_PER_SAVE_MAX * HOUR_MS]
            hours = hours[len(together) :]
            stored = answered(store.load(partition, first_ms, together[-1] + HOUR_MS), LOOK_S)
            merged: dict[int, HourTally] = {}
            for hour_ms in together:
                tally = stored.hours.get(hour_ms, HourTally())
                tally.add(change.hours[hour_ms])
                merged[hour_ms] = tally
            offset = max(offset, stored.counted_offset)
            answered(
                store.save(partition, merged, offset, self._write_time(partition, epoch)), LOOK_S
            )

    def _forget_past(self, store: TallyStore, partition: int, epoch: int, now_ms: int) -> None:
        before_ms = hour_of(now_ms - KEPT_MS)
        if self._forgotten_ms.get(partition) != before_ms:
            self._forgotten_ms[partition] = before_ms
            answered(store.forget(partition, before_ms, self._write_time(partition, epoch)), LOOK_S)

    def _write_time(self, partition: int, epoch: int) -> int:
        """Return a write time above all earlier ones of this node: a process has an epoch once."""
        count = self._saves[partition] = self._saves.get(partition, 0) + 1
        return (epoch << EPOCH_SHIFT) | count

    def _take_back(self, partition: int, change: TallyChange) -> None:
        with self._lock:
            newer = self._changes.setdefault(partition, TallyChange())
            newer.counted_offset = max(newer.counted_offset, change.counted_offset)
            for hour_ms, tally in change.hours.items():
                newer.hours.setdefault(hour_ms, HourTally()).add(tally)
