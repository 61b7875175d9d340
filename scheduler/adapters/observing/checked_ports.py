"""Wrappers that tell the self-check which rows are durable and which offsets are committed.

Decide nothing: arguments, answers and failures pass unchanged.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from actors.model.task import StoredTask
from actors.ports.log import Polled, TaskLog
from actors.ports.store import Stores
from scheduler.adapters.observing.self_check import SHARE_MASK, SelfCheck


class _CheckedSchedule:
    """``ScheduleStore``, whose rows are told once they are durable."""

    def __init__(self, schedule: object, check: SelfCheck) -> None:
        self._schedule: Any = schedule
        self._check = check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows."""
        written: Future[None] = self._schedule.insert_tasks(partition, tasks, write_time)
        shares = self._check.watched_shares
        keys = [t.key for t in tasks if hash(t.key.ordering_id) & SHARE_MASK < shares]
        if keys:

            def told(answer: "Future[None]") -> None:
                if not answer.cancelled() and answer.exception() is None:
                    self._check.note_stored(partition, keys)

            written.add_done_callback(told)
        return written


def checked_stores(stores: Stores, check: SelfCheck) -> Stores:
    """Return the stores, with the schedule's writes told."""
    schedule: Any = _CheckedSchedule(stores.schedule, check)
    return msgspec.structs.replace(stores, schedule=schedule)


class CheckedLog:
    """``TaskLog``, one record of each poll being remembered until it is committed."""

    def __init__(self, log: TaskLog, check: SelfCheck) -> None:
        self._log = log
        self._check = check
        self.subscribe = log.subscribe
        self.start = log.start
        self.seek = log.seek
        self.lease_ends_ms = log.lease_ends_ms
        self.close = log.close

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Poll."""
        polled = self._log.poll(records_max, timeout_ms)
        if polled.records:
            self._check.note_polled(polled.records[-1])
        return polled

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Ask to store offsets."""
        self._log.commit(next_offsets)
        self._check.note_committed(next_offsets)
