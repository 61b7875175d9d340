"""Appends a long stream of tasks with bounded memory.

It decides how many records may be unacknowledged and which failures are kept. Accepted records are
only counted: tasks go in groups, each group settles as one, and when the window is full the thread
that feeds the log waits for its oldest group.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from hourhand.actors.model.operations.events import BulkEnqueued, LogCalled
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import CallerError, HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AppendGroup
from hourhand.actors.ports.telemetry import Telemetry

logger = logging.getLogger("hourhand.client")

OnRejected = Callable[[Task, HourhandError], None]

REJECTED_KEPT_MAX = 100
"""Rejected tasks a result keeps; all of them are counted."""

_TASKS_PER_EVENT = 10_000
_GROUP_TASKS_MAX = 1_000
"""Tasks that settle as one: few enough that the rest of the window is still on its way."""


@dataclass(frozen=True, slots=True)
class BulkRejected:
    """A task that the log may not hold, and the error."""

    task: Task
    error: HourhandError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of one bulk call."""

    accepted: int
    """Number of tasks that the log holds durably."""
    rejected_count: int
    """Number of tasks refused by the client, or not acknowledged by the log."""
    rejected: tuple[BulkRejected, ...] = field(repr=False)
    """The first of them, ``REJECTED_KEPT_MAX`` at most."""
    interrupted_by: HourhandError | None = None
    """The error of the log after which no more tasks were read; unread tasks are in no count."""

    def raise_if_rejected(self) -> None:
        """Raise the error that interrupted the call, else that of the first rejection, if any."""
        if self.interrupted_by is not None:
            raise self.interrupted_by
        if self.rejected:
            raise self.rejected[0].error


@dataclass(slots=True)
class _TaskGroup:
    """Tasks in their order, including those that the client refused."""

    records: AppendGroup
    tasks: list[Task] = field(default_factory=list)
    refused: dict[int, HourhandError] = field(default_factory=dict)
    """By index in ``tasks``; these have no record."""
    accepted: int = 0
    """Number of tasks that the log holds; known when all are settled."""
    _rejections: Iterator[tuple[Task, HourhandError]] | None = None

    def rejections(self) -> Iterator[tuple[Task, HourhandError]]:
        """Wait until all tasks are settled and yield failures; a further call yields the rest."""
        if self._rejections is None:
            self._rejections = self._judged()
        return self._rejections

    def _judged(self) -> Iterator[tuple[Task, HourhandError]]:
        failures = self.records.settle()
        self.accepted = len(self.tasks) - len(self.refused) - len(failures)
        if self.accepted == len(self.tasks):
            return
        number = 0
        for place, task in enumerate(self.tasks):
            error = self.refused.get(place)
            if error is None:
                error = failures.get(number)
                number += 1
            if error is not None:
                yield task, error


@dataclass(slots=True)
class BulkRun:
    """One call of ``schedule_tasks``; used by one thread, once."""

    admit: Callable[[Task], tuple[TaskKey, bytes]]
    """Returns a task's key and record; raises CallerError for a task that is refused."""
    begin_group: Callable[[], AppendGroup]
    in_flight_max: int
    clock: Clock
    telemetry: Telemetry
    on_rejected: OnRejected | None = None

    _groups: deque[_TaskGroup] = field(default_factory=deque)
    """Groups that are not settled, oldest first; the last one is being filled."""
    _kept: list[BulkRejected] = field(default_factory=list)
    _accepted: int = 0
    _reported: int = 0
    _reported_ms: float = 0.0
    _rejected: int = 0
    _first_error: HourhandError | None = None
    _interrupted_by: HourhandError | None = None

    def run(self, tasks: Iterable[Task]) -> BulkResult:
        """Append all tasks and wait until each is settled."""
        self._reported_ms = self.clock.monotonic_ms()
        # At least two groups, if the window has room for them: one is filled while the other is on
        # its way.
        group_tasks_max = max(1, min(self.in_flight_max // 2, _GROUP_TASKS_MAX))
        groups_max = self.in_flight_max // group_tasks_max
        rest = iter(tasks)
        try:
            while self._interrupted_by is None and self._fill(rest, group_tasks_max):
                if len(self._groups) >= groups_max:
                    self._settle_oldest()
        finally:
            while self._groups:
                self._settle_oldest()
            self._report()
        if self._first_error is not None and self.on_rejected is None:
            logger.warning(
                "%d tasks of a schedule_tasks were rejected, the first of them: %s [%s]; hand it"
                " on_rejected, or call raise_if_rejected() on its result",
                self._rejected,
                self._first_error,
                self._first_error.code,
            )
        return BulkResult(self._accepted, self._rejected, tuple(self._kept), self._interrupted_by)

    def _fill(self, tasks: Iterator[Task], count: int) -> bool:
        """Append a group; False if no task is left, or the log fails."""
        group = _TaskGroup(self.begin_group())
        self._groups.append(group)
        admit, append, keep = self.admit, group.records.append, group.tasks.append
        for task in islice(tasks, count):
            try:
                key, value = admit(task)
                append(key.ordering_id, value)
            except HourhandError as error:
                # Older groups settle first, so that rejections are reported in the tasks' order.
                group.refused[len(group.tasks)] = error
                if not isinstance(error, CallerError):
                    self._interrupted_by = error
            keep(task)
            if self._interrupted_by is not None:
                return False
        return len(group.tasks) == count

    def _settle_oldest(self) -> None:
        # A group is dropped once all of it was reported, because ``on_rejected`` may raise in
        # between.
        group = self._groups[0]
        for task, error in group.rejections():
            self._reject(task, error)
        self._accepted += group.accepted
        self._groups.popleft()
        if self._accepted - self._reported >= _TASKS_PER_EVENT:
            self._report()

    def _reject(self, task: Task, error: HourhandError) -> None:
        self._rejected += 1
        self._first_error = self._first_error or error
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
