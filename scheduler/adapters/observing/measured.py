"""Wrappers around ports: how long each request took, whether it failed, what became durable.

The stores are wrapped method by method, whatever methods they have, so that a new one is
measured too.  The self-check is told which rows are durable and which offsets committed.
Decides nothing: arguments, answers and failures pass unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import msgspec

from actors.model.errors import HourhandError
from actors.model.events import AssignmentReceived, LogCalled, StoreCalled
from actors.model.task import StoredTask
from actors.ports.clock import Clock
from actors.ports.log import AssignmentListener, Polled, StartPosition, TaskLog
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry
from scheduler.observe.self_check import SHARE_MASK, SelfCheck

_GROUPED = frozenset({"insert_tasks", "insert_completions", "insert_attempts"})
"""Writes that take many rows at a time: (partition, rows, write time)."""


def error_code(error: BaseException) -> str:
    """Return what a failure is called in a label: its code, or its class."""
    return error.code if isinstance(error, HourhandError) else type(error).__name__


class MeasuredStore:
    """Stands for one store; what is not a method of it is passed on as it is."""

    def __init__(self, store: object, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._now_ms = clock.monotonic_ms
        self._emit = telemetry.emit
        for name in dir(store):
            call = getattr(store, name)
            if not name.startswith("_") and callable(call):
                setattr(self, name, partial(self._measure, name, call))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _measure(self, name: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        rows = len(args[1]) if name in _GROUPED else 0
        started_ms = self._now_ms()
        try:
            answer = call(*args, **named)
        except Exception as error:
            self._emit(StoreCalled(name, rows, self._now_ms() - started_ms, error_code(error)))
            raise
        if isinstance(answer, Future):
            answer.add_done_callback(partial(self._answered, name, rows, started_ms))
        return answer

    def _answered(self, name: str, rows: int, started_ms: float, answer: "Future[Any]") -> None:
        took_ms = self._now_ms() - started_ms
        error = None if answer.cancelled() else answer.exception()
        self._emit(StoreCalled(name, rows, took_ms, None if error is None else error_code(error)))


def measured_stores(stores: Stores, clock: Clock, telemetry: Telemetry) -> Stores:
    """Return the stores, each of them measured."""
    wrapped = {
        name: cast("Any", MeasuredStore(getattr(stores, name), clock, telemetry))
        for name in stores.__struct_fields__
        if name != "close"
    }
    return msgspec.structs.replace(stores, **wrapped)


class MeasuredLog:
    """``TaskLog``, and what the health of its polling thread is judged by."""

    def __init__(self, log: TaskLog, clock: Clock, telemetry: Telemetry) -> None:
        self._log = log
        self._now_ms = clock.monotonic_ms
        self._emit = telemetry.emit
        # Asked before every attempt: as it is, without a frame of ours.
        self.lease_ends_ms = log.lease_ends_ms
        self.polled_ms = clock.monotonic_ms()
        """Monotonic time at which the log was last asked for records."""
        self.failure: str | None = None
        """What the last poll failed with."""

    def subscribe(self, listener: AssignmentListener) -> None:
        """Join the group; tells what it gives before the listener hears of it."""
        self._log.subscribe(_TellingListener(listener, self._emit))

    def start(self, partition: int, stored_next_offset: int | None) -> StartPosition:
        """Begin to deliver a partition."""
        with self._timed("start"):
            return self._log.start(partition, stored_next_offset)

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Deliver a partition once more."""
        with self._timed("seek"):
            self._log.seek(partition, next_offset)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Poll; only failures are told, for most of an answer's time is waiting."""
        self.polled_ms = started_ms = self._now_ms()
        try:
            polled = self._log.poll(records_max, timeout_ms)
        except Exception as error:
            self.failure = str(error)
            self._emit(LogCalled("poll", self._now_ms() - started_ms, error_code(error)))
            raise
        self.failure = None
        return polled

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Ask to store offsets."""
        with self._timed("commit"):
            self._log.commit(next_offsets)

    def close(self) -> None:
        """Leave the group."""
        with self._timed("close"):
            self._log.close()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started_ms = self._now_ms()
        failed: str | None = None
        try:
            yield
        except Exception as error:
            failed = error_code(error)
            raise
        finally:
            self._emit(LogCalled(name, self._now_ms() - started_ms, failed))


class _TellingListener:
    """``AssignmentListener`` before the node's own."""

    def __init__(self, listener: AssignmentListener, emit: Callable[[Any], None]) -> None:
        self._emit = emit
        self._listener = listener
        self.revoking = listener.revoking
        self.lost = listener.lost

    def assigned(self, partitions: Sequence[int]) -> None:
        """Tell of each partition, then hand them on."""
        for partition in partitions:
            self._emit(AssignmentReceived(partition))
        self._listener.assigned(partitions)


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
        unordered = self._check.unordered
        keys = [
            task.key
            for task in tasks
            if hash(task.key.ordering_id) & SHARE_MASK < shares and task.kind not in unordered
        ]
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
