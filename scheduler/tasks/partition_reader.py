"""One partition's tasks in a range of time, in key order, read a page at a time.

Decides what is read together; others interpret a row, its completion and its attempts.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain, groupby

from hourhand.actors.model.operations.ownership import Claim, Watermark
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.actors.ports.store import Stores, TaskPage
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.tasks.task_state import TaskView, view_of

_EMPTY_HOURS_MAX = 64
"""Most hours in one request after empty ones; a single full hour may be very large."""
_HOURS_GROWTH = 8


class PartitionReader:
    """One partition's tasks of a range, in key order, a page at a time.

    The first reads of all partitions are requested before any is awaited: the owner's claim when a
    reader is made, the first page when its tasks are requested. That page may be smaller than later
    ones: with many partitions, few tasks of each are wanted.
    """

    def __init__(
        self,
        stores: Stores,
        partition: int,
        start: TaskKey,
        to_ms: int,
        *,
        first_page_tasks: int,
        page_tasks: int,
    ) -> None:
        self._schedule = stores.schedule
        self._status = stores.status
        self._partition = partition
        self._start = start
        self._to_ms = to_ms
        self._first_page_tasks = first_page_tasks
        self._page_tasks = page_tasks
        self._claim: Future[Claim | None] = stores.ownership.find_watermark(partition)

    def views(self, ordering_id: str | None, *, open_only: bool) -> Iterator[TaskView]:
        """Return the tasks of the range, or those of one ordering id.

        ``open_only`` leaves out those before the first that may be open.
        """
        claim = answered(self._claim)
        start = self._start
        swept: Iterator[TaskView] = iter(())
        if open_only:
            start = max(start, first_open_key(claim))
            if start.scheduled_ms >= self._to_ms:
                return swept
        elif claim is not None:
            # Hours before this have completions, and only failed tasks also have rows. In the last
            # of them rows may already be deleted, which the owner records seconds later.
            mark = claim.watermark
            thinned_ms = min(max(mark.thinned_ms, mark.tasks_sweep_end_ms()), self._to_ms)
            swept = self._swept_views(ordering_id, mark, thinned_ms)
            start = max(start, first_key_at(thinned_ms))
        pages = self._pages(ordering_id, start, self._to_ms)
        return chain(
            swept, (view for tasks in pages for view in self._row_views(tasks, ordering_id))
        )

    def rows_from_open(self, ordering_id: str | None) -> Iterator[StoredTask]:
        """Return the rows of the range from the first one that may be open."""
        start = max(self._start, first_open_key(answered(self._claim)))
        if start.scheduled_ms >= self._to_ms:
            return iter(())
        return chain.from_iterable(self._pages(ordering_id, start, self._to_ms))

    def _swept_views(
        self, ordering_id: str | None, mark: Watermark, thinned_ms: int
    ) -> Iterator[TaskView]:
        first_row = max(self._start, first_key_at(mark.tasks_swept_until_ms))
        kept: Iterator[StoredTask] = iter(())
        if first_row.scheduled_ms < thinned_ms:
            kept = chain.from_iterable(self._pages(ordering_id, first_row, thinned_ms))
        row = next(kept, None)
        next_ms = max(self._start.scheduled_ms, mark.statuses_swept_until_ms)
        hours = 1
        while next_ms < thinned_ms:
            end_ms = min(hour_of(next_ms) + hours * HOUR_MS, thinned_ms)
            start, end = max(self._start, first_key_at(next_ms)), first_key_at(end_ms)
            completions = answered(self._status.load_completions(self._partition, start, end))
            rows: dict[TaskKey, StoredTask] = {}
            while row is not None and row.key < end:
                rows[row.key] = row
                row = next(kept, None)
            yield from self._completed_views(
                {each.key: each for each in completions}, rows, ordering_id
            )
            next_ms = end_ms
            hours = 1 if completions else min(_HOURS_GROWTH * hours, _EMPTY_HOURS_MAX)

    def _completed_views(
        self,
        completions: Mapping[TaskKey, Completion],
        rows: Mapping[TaskKey, StoredTask],
        ordering_id: str | None,
    ) -> Iterator[TaskView]:
        """Return tasks whose rows are mostly gone; attempts are read last, because most hours have
        none.
        """
        keys = sorted(
            key for key in {**completions, **rows} if ordering_id in (None, key.ordering_id)
        )
        if not keys:
            return
        start, end = first_key_at(keys[0].scheduled_ms), keys[-1]
        attempts = by_key(answered(self._status.load_attempts(self._partition, start, end)))
        for key in keys:
            known = rows.get(key), completions.get(key), attempts.get(key, ())
            yield view_of(key, self._partition, *known)

    def _pages(
        self, ordering_id: str | None, start: TaskKey, to_ms: int
    ) -> Iterator[Sequence[StoredTask]]:
        """Return the pages from ``start`` up to a time; the first is asked for now."""
        first = self._page(ordering_id, start, to_ms, self._first_page_tasks)
        return self._pages_after(ordering_id, start, to_ms, first)

    def _pages_after(
        self, ordering_id: str | None, start: TaskKey, to_ms: int, asked: "Future[TaskPage]"
    ) -> Iterator[Sequence[StoredTask]]:
        while True:
            page = answered(asked)
            if page.tasks:
                yield page.tasks
                start = page.tasks[-1].key
            if page.complete:
                return
            asked = self._page(ordering_id, start, to_ms, self._page_tasks)

    def _page(
        self, ordering_id: str | None, start: TaskKey, to_ms: int, tasks_max: int
    ) -> "Future[TaskPage]":
        if ordering_id is None:
            return self._schedule.load_tasks(self._partition, start, to_ms, tasks_max)
        end = first_key_at(to_ms)
        return self._schedule.load_ordering(self._partition, ordering_id, start, end, tasks_max)

    def _row_views(
        self, tasks: Sequence[StoredTask], ordering_id: str | None
    ) -> Iterator[TaskView]:
        if ordering_id is not None:
            # They are too far apart for a range, and are all requested together.
            yield from self._views_of(tasks, *self._statuses_of([task.key for task in tasks]))
            return
        # A range from the first row of an hour to its last reads no hour without rows and is one
        # sequential read.
        for _, of_hour in groupby(tasks, key=lambda task: hour_of(task.key.scheduled_ms)):
            rows = list(of_hour)
            yield from self._views_of(rows, *self._statuses_between(rows[0].key, rows[-1].key))

    def _views_of(
        self,
        rows: Sequence[StoredTask],
        completions: Mapping[TaskKey, Completion],
        attempts: Mapping[TaskKey, Sequence[AttemptRecord]],
    ) -> Iterator[TaskView]:
        for row in rows:
            completion = completions.get(row.key)
            yield view_of(row.key, self._partition, row, completion, attempts.get(row.key, ()))

    def _statuses_between(
        self, first: TaskKey, last: TaskKey
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        start = first_key_at(first.scheduled_ms)
        completions = self._status.load_completions(self._partition, start, last)
        attempts = self._status.load_attempts(self._partition, start, last)
        return {one.key: one for one in answered(completions)}, by_key(answered(attempts))

    def _statuses_of(
        self, keys: Sequence[TaskKey]
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        completions = self._status.find_completions(self._partition, keys)
        attempts = self._status.find_attempts(self._partition, keys)
        return answered(completions), by_key(answered(attempts))


def first_open_key(claim: Claim | None) -> TaskKey:
    """Return a key before all open ones of a partition, by its owner's claim."""
    if claim is None:
        return first_key_at(INSTANT_MIN_MS)
    return first_key_at(claim.watermark.first_open_ms)


def first_kept_key(claim: Claim | None) -> TaskKey:
    """Return a key before every row of a partition, by its owner's claim."""
    kept_ms = INSTANT_MIN_MS if claim is None else claim.watermark.tasks_swept_until_ms
    return first_key_at(kept_ms)


def by_key(attempts: Sequence[AttemptRecord]) -> dict[TaskKey, Sequence[AttemptRecord]]:
    """Return sorted attempts by their keys."""
    return {key: tuple(of_key) for key, of_key in groupby(attempts, key=lambda one: one.key)}
