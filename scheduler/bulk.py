"""Appending a long stream of tasks with bounded memory.

It decides how many records may be unacknowledged and what is remembered of those that failed.
There is no callback for a record: when the window is full its older half is awaited, so the
thread that feeds the log also hears its answers.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from actors.model.errors import CallerError, HourhandError
from actors.model.events import BulkEnqueued
from actors.model.observed import LogCalled
from actors.model.task import Task
from actors.ports.clock import Clock
from actors.ports.log import Position
from actors.ports.telemetry import Telemetry

OnRejected = Callable[[Task, HourhandError], None]

REJECTED_KEPT_MAX = 100
"""Rejected tasks a result keeps; all of them are counted."""

_TASKS_PER_EVENT = 10_000


@dataclass(frozen=True, slots=True)
class BulkRejected:
    """A task the log does not hold for sure, and why."""

    task: Task
    error: HourhandError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of the tasks of one bulk call."""

    accepted: int
    """Tasks the log holds durably."""
    rejected_count: int
    """Tasks refused by the client, or not acknowledged by the log."""
    rejected: tuple[BulkRejected, ...] = field(repr=False)
    """The first of them, ``REJECTED_KEPT_MAX`` at most."""
    interrupted_by: HourhandError | None = None
    """Why no more tasks were read, where the log failed; tasks not read are in no count."""

    def raise_if_rejected(self) -> None:
        """Raise what interrupted the call, else the first rejection's error, if any."""
        if self.interrupted_by is not None:
            raise self.interrupted_by
        if self.rejected:
            raise self.rejected[0].error


@dataclass(slots=True)
class BulkRun:
    """One call of ``schedule_tasks``; used by one thread, once."""

    append: Callable[[Task], "Future[Position]"]
    in_flight_max: int
    clock: Clock
    telemetry: Telemetry
    on_rejected: OnRejected | None = None

    _in_flight: deque[tuple[Task, "Future[Position]"]] = field(default_factory=deque)
    _kept: list[BulkRejected] = field(default_factory=list)
    _accepted: int = 0
    _reported: int = 0
    _reported_ms: float = 0.0
    _rejected: int = 0
    _interrupted_by: HourhandError | None = None

    def run(self, tasks: Iterable[Task]) -> BulkResult:
        """Append all tasks and wait until each is settled."""
        self._reported_ms = self.clock.monotonic_ms()
        try:
            for task in tasks:
                self._append(task)
                if len(self._in_flight) >= self.in_flight_max:
                    # Half of them at once: to wait for one after each append would be a change
                    # of threads for each.
                    self._settle_down_to(self.in_flight_max // 2)
                if self._interrupted_by is not None:
                    break
        finally:
            self._settle_down_to(0)
            self._report()
        return BulkResult(self._accepted, self._rejected, tuple(self._kept), self._interrupted_by)

    def _append(self, task: Task) -> None:
        try:
            self._in_flight.append((task, self.append(task)))
        except HourhandError as error:
            # What is older settles first, so that rejections are told in the tasks' order.
            refused: Future[Position] = Future()
            refused.set_exception(error)
            self._in_flight.append((task, refused))
            if not isinstance(error, CallerError):
                self._interrupted_by = error

    def _settle_down_to(self, in_flight: int) -> None:
        if len(self._in_flight) > in_flight:
            # The last of them first: usually the one wait for all, as a log answers in order.
            self._in_flight[len(self._in_flight) - in_flight - 1][1].exception()
        while len(self._in_flight) > in_flight:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        task, appended = self._in_flight.popleft()
        error = appended.exception()
        if error is None:
            self._accepted += 1
            if self._accepted - self._reported >= _TASKS_PER_EVENT:
                self._report()
            return
        if not isinstance(error, HourhandError):
            raise error
        self._reject(task, error)

    def _reject(self, task: Task, error: HourhandError) -> None:
        self._rejected += 1
        if len(self._kept) < REJECTED_KEPT_MAX:
            self._kept.append(BulkRejected(task, error))
        if not isinstance(error, CallerError):
            self.telemetry.emit(LogCalled("append", 0.0, error.code))
            self._interrupted_by = self._interrupted_by or error
        if self.on_rejected is not None:
            self.on_rejected(task, error)

    def _report(self) -> None:
        now_ms = self.clock.monotonic_ms()
        tasks = self._accepted - self._reported
        if tasks:
            self.telemetry.emit(BulkEnqueued(tasks, now_ms - self._reported_ms))
        self._reported, self._reported_ms = self._accepted, now_ms
