"""Reads rows of a partition's schedule and their statuses, and returns the open tasks.

Decides the size of requests to the store and the tracker, so that no answer is larger than memory
allows (P13).  Never decides which range is read, or which tasks are passed on.
"""

from collections.abc import Callable, Mapping, Sequence

from hourhand.actors.kernel.context import ActorContext
from hourhand.actors.kernel.futures import gather
from hourhand.actors.kernel.operations import Ask, Steps
from hourhand.actors.messages import (
    FindStatuses,
    LoadOrdering,
    LoadStatuses,
    OrderingLoaded,
    Siblings,
)
from hourhand.actors.model.execution.attempts import NO_STATUS, KeyStatus, open_tasks
from hourhand.actors.model.execution.pair_search import PAIR_PAGE_ROWS, PairSearch
from hourhand.actors.model.operations.events import WindowLoaded
from hourhand.actors.model.operations.ownership import CLOCKS_APART_MS, Assignment
from hourhand.actors.model.task.codec import Command
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.window.checkpoint import SHORT_WINDOW_MS
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import TaskPage

_LAST = first_key_at(INSTANT_MAX_MS + 1)
ROWS_FOUND_FIRST = 32
ROWS_FOUND_MAX = 500
"""Most single rows of a read; fewer if the rows of the last read were large."""


class ScheduleReader:
    """The reads of one partition: steps of an operation, which wait for their answers."""

    def __init__(
        self, effects: Effects, assignment: Assignment, context: ActorContext, siblings: Siblings
    ) -> None:
        self._schedule = effects.stores.schedule
        self._emit = effects.telemetry.emit
        self._partition = assignment.ownership.partition
        self._own_offset = assignment.catch_up_offset
        """No earlier tree has received a record from this offset on."""
        self._clock = context.clock
        self._began_ms = context.clock.now_ms()
        self._budget = siblings.budget
        self._completion_tracker = siblings.completion_tracker
        self.thinned_ms = assignment.watermark.thinned_ms
        """Before this time hardly a row is left; it is raised as hours are thinned."""
        self.found_max = ROWS_FOUND_FIRST
        """Single rows that are read at once: as many as fit a page, by the size of the last ones.
        """

    def end_ms(self, after: TaskKey, before_ms: int) -> int:
        """Return the end of a read that begins after ``after``: at most ``before_ms``.

        Past hours that were thinned are read separately: their few rows' completions are looked up
        by key, instead of for the whole range.
        """
        is_past = after.scheduled_ms < self.thinned_ms
        return min(before_ms, self.thinned_ms) if is_past else before_ms

    def page(
        self, after: TaskKey, before_ms: int, limit: int
    ) -> Steps[tuple[TaskPage, tuple[StoredTask, ...]]]:
        """Return a page of rows, and its open tasks; ``before_ms`` comes from ``end_ms``."""
        started_ms = self._clock.monotonic_ms()
        limits = limit, self._budget.page_bytes()
        reading = self._schedule.load_tasks(self._partition, after, before_ms, *limits)
        # Statuses of the whole range, even without rows: a done key whose row was deleted may be
        # scheduled again, and only memory is asked about it then (P5).
        up_to = end = first_key_at(before_ms)
        if before_ms <= self.thinned_ms:
            keys = [row.key for row in (yield reading).tasks]
            statuses = yield from self._statuses_of(keys)
        else:
            if before_ms - after.scheduled_ms > SHORT_WINDOW_MS:
                up_to = (yield reading).reached(end)
            statuses = (yield Ask(self._completion_tracker, LoadStatuses(after, up_to))).statuses
        page = yield reading
        reached, rows = page.reached(end), page.tasks
        assert after <= reached <= end, "a page ends within what was asked for"
        assert not rows or after < rows[0].key <= rows[-1].key <= reached, "not what was asked for"
        return page, self._read(rows, statuses, reached, started_ms)

    def _statuses_of(self, keys: Sequence[TaskKey]) -> Steps[Mapping[TaskKey, KeyStatus]]:
        if not keys:
            return {}
        asked = FindStatuses(tuple(keys), with_checkpoints=True)
        found = yield Ask(self._completion_tracker, asked)
        statuses: Mapping[TaskKey, KeyStatus] = found.statuses
        return statuses

    def rows_behind(
        self,
        keys: Sequence[TaskKey],
        leaves: Callable[[StoredTask], bool],
        after: TaskKey,
        reached: TaskKey,
    ) -> Steps[tuple[tuple[StoredTask, ...], TaskKey]]:
        """Return the open tasks of these keys, and the key up to which they were read: ``reached``,
        or less if there are many.

        Later rows of an ordering id are not read if ``leaves`` is true for its first task.
        """
        started_ms = self._clock.monotonic_ms()
        first_of: dict[str, TaskKey] = {}
        for key in keys:
            first_of.setdefault(key.ordering_id, key)
        firsts, reached = _cut([*first_of.values()], reached, self.found_max)
        rows = yield from self.find(firsts)
        if reached <= first_key_at(self.thinned_ms):
            statuses = yield from self._statuses_of([key for key in keys if key <= reached])
        else:
            # Statuses of the whole range, as for a page (P5).
            statuses = (yield Ask(self._completion_tracker, LoadStatuses(after, reached))).statuses
        leaving = {
            each.key.ordering_id for each in self._open_tasks(rows, statuses) if leaves(each)
        }
        further, reached = _cut(
            [
                key
                for key in keys
                if key.ordering_id not in leaving and first_of[key.ordering_id] < key <= reached
            ],
            reached,
            self.found_max,
        )
        rows += yield from self.find(further)
        rows = sorted((row for row in rows if row.key <= reached), key=lambda row: row.key)
        return self._read(rows, statuses, reached, started_ms), reached

    def find(self, keys: Sequence[TaskKey]) -> Steps[list[StoredTask]]:
        """Return the rows of at most ``found_max`` keys, in their order."""
        if not keys:
            return []
        found = yield self._schedule.find_tasks(self._partition, keys)
        rows = [found[key] for key in keys if key in found]
        if found_bytes := sum(row.data_bytes for row in rows):
            fitting = self._budget.page_bytes() * len(rows) // found_bytes
            self.found_max = max(ROWS_FOUND_FIRST, min(fitting, ROWS_FOUND_MAX))
        return rows

    def named(self, command: Command, after: TaskKey) -> Steps[TaskKey | CommandOutcome]:
        """Return the key that a command by pair means, among the rows behind ``after``, or the
        outcome of a command that means none.
        """
        search, ordering_id = PairSearch(command), command.key.ordering_id
        while True:
            size = self._budget.page_bytes()
            page = yield self._schedule.load_ordering(
                self._partition, ordering_id, after, _LAST, PAIR_PAGE_ROWS, size
            )
            rows = [row for row in page.tasks if search.concerns(row)]
            if rows:
                keys = tuple(row.key for row in rows)
                asked = FindStatuses(keys, durable=True)
                found = yield Ask(self._completion_tracker, asked)
                for row in rows:
                    search.add(row, found.statuses.get(row.key, NO_STATUS).completion)
            if page.complete:
                return search.found()
            after = page.tasks[-1].key

    def orderings(self, requests: Sequence[LoadOrdering]) -> Steps[None]:
        """Answer each request with the open tasks of its ordering id."""
        size = self._budget.page_bytes(len(requests))
        pages = yield gather(
            [
                self._schedule.load_ordering(
                    self._partition, r.ordering_id, r.after, r.up_to, r.limit, size
                )
                for r in requests
            ]
        )
        keys = [task.key for page in pages for task in page.tasks]
        statuses = yield from self._statuses_of(keys)
        for request, page in zip(requests, pages, strict=True):
            if rows := page.tasks:
                assert request.after < rows[0].key <= rows[-1].key, "not what was asked for"
                assert rows[-1].key <= request.up_to, "not what was asked for"
            next_after = None if page.complete or not page.tasks else page.tasks[-1].key
            tasks = self._open_tasks(page.tasks, statuses)
            request.reply_to.tell(OrderingLoaded(request, tasks, next_after))

    def _read(
        self,
        rows: Sequence[StoredTask],
        statuses: Mapping[TaskKey, KeyStatus],
        reached: TaskKey,
        started_ms: float,
    ) -> tuple[StoredTask, ...]:
        tasks = self._open_tasks(rows, statuses)
        took_ms = self._clock.monotonic_ms() - started_ms
        self._emit(WindowLoaded(self._partition, len(tasks), reached.scheduled_ms, took_ms))
        return tasks

    def _open_tasks(
        self, rows: Sequence[StoredTask], statuses: Mapping[TaskKey, KeyStatus]
    ) -> tuple[StoredTask, ...]:
        """Return the open tasks, and mark those that an earlier owner may have begun.

        These were due before this tree began.  A task that fell due since was begun by no other
        owner, even if it was left to the store.
        """
        overdue_until_ms = min(self._clock.now_ms(), self._began_ms + CLOCKS_APART_MS)
        return open_tasks(rows, statuses, overdue_until_ms, self._own_offset)


def _cut(keys: list[TaskKey], reached: TaskKey, most: int) -> tuple[list[TaskKey], TaskKey]:
    """Return at most ``most`` keys, and ``reached``, or the last key if keys were cut off."""
    return (keys, reached) if len(keys) <= most else (keys[:most], keys[most - 1])
