"""One partition's tasks of a stretch of time, in key order, read a page at a time.

Decides what is read together.  What a row, its completion and its attempts say is not its matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import TypeVar

from actors.model.bucket import HOUR_MS, hour_of
from actors.model.errors import StoreUnavailable
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Claim
from actors.model.status import AttemptRecord, Completion
from actors.model.task import StoredTask
from actors.ports.store import Stores, TaskPage
from scheduler.task_state import TaskView, view_of

_READ_TIMEOUT_S = 30.0

_T = TypeVar("_T")


class PartitionReader:
    """One partition's tasks of a range, in key order, a page at a time.

    The first reads of all partitions are asked for before any is awaited.
    """

    def __init__(
        self, stores: Stores, partition: int, start: TaskKey, to_ms: int, page_tasks: int
    ) -> None:
        self._schedule = stores.schedule
        self._status = stores.status
        self._partition = partition
        self._start = start
        self._to_ms = to_ms
        self._page_tasks = page_tasks
        self._claim: Future[Claim | None] = stores.ownership.read_watermark(partition)

    def views(self, ordering_id: str | None) -> Iterator[TaskView]:
        """Yield the tasks of the range, or those of one ordering id."""
        claim = wait_for(self._claim)
        start = self._start
        if claim is not None:
            # Hours before this have no rows any more, only completions.
            swept_ms = min(claim.watermark.tasks_swept_until_ms, self._to_ms)
            kept_ms = claim.watermark.statuses_swept_until_ms
            yield from self._swept_views(ordering_id, kept_ms, swept_ms)
            start = max(start, first_key_at(swept_ms))
        for tasks in self._pages(ordering_id, start):
            yield from self._row_views(tasks, ordering_id)

    def rows_from_open(self, ordering_id: str | None) -> Iterator[StoredTask]:
        """Yield the rows of the range from the first one on that may be open."""
        claim = wait_for(self._claim)
        start = self._start
        if claim is not None:
            mark = claim.watermark
            open_ms = min([mark.watermark_ms, *(each.first_ms for each in mark.stragglers)])
            start = max(start, first_key_at(open_ms))
        if start.scheduled_ms < self._to_ms:
            for tasks in self._pages(ordering_id, start):
                yield from tasks

    def _swept_views(
        self, ordering_id: str | None, kept_ms: int, swept_ms: int
    ) -> Iterator[TaskView]:
        first_ms = max(self._start.scheduled_ms, kept_ms)
        for hour_ms in range(hour_of(first_ms), swept_ms, HOUR_MS):
            start = max(self._start, first_key_at(hour_ms))
            end = first_key_at(min(hour_ms + HOUR_MS, swept_ms))
            completions = self._status.load_completions(self._partition, start, end)
            attempts = self._status.load_attempts(self._partition, start, end)
            attempts_by_key = by_key(wait_for(attempts))
            for completion in wait_for(completions):
                key = completion.key
                if ordering_id is None or key.ordering_id == ordering_id:
                    ended = attempts_by_key.get(key, ())
                    yield view_of(key, self._partition, None, completion, ended)

    def _pages(self, ordering_id: str | None, start: TaskKey) -> Iterator[Sequence[StoredTask]]:
        while True:
            page = wait_for(self._page(ordering_id, start))
            if page.tasks:
                yield page.tasks
                start = page.tasks[-1].key
            if page.complete:
                return

    def _page(self, ordering_id: str | None, start: TaskKey) -> "Future[TaskPage]":
        if ordering_id is None:
            return self._schedule.load_tasks(self._partition, start, self._to_ms, self._page_tasks)
        end = first_key_at(self._to_ms)
        return self._schedule.load_ordering(
            self._partition, ordering_id, start, end, self._page_tasks
        )

    def _row_views(
        self, tasks: Sequence[StoredTask], ordering_id: str | None
    ) -> Iterator[TaskView]:
        # A range from the first row of an hour to its last reads no hour without rows and
        # is one sequential read; the rows of one ordering id lie too far apart for that.
        for _, of_hour in groupby(tasks, key=lambda task: hour_of(task.key.scheduled_ms)):
            rows = list(of_hour)
            completions, attempts = (
                self._statuses_between(rows[0].key, rows[-1].key)
                if ordering_id is None
                else self._statuses_of([row.key for row in rows])
            )
            for row in rows:
                completion = completions.get(row.key)
                yield view_of(row.key, self._partition, row, completion, attempts.get(row.key, ()))

    def _statuses_between(
        self, first: TaskKey, last: TaskKey
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        start = first_key_at(first.scheduled_ms)
        completions = self._status.load_completions(self._partition, start, last)
        attempts = self._status.load_attempts(self._partition, start, last)
        return {one.key: one for one in wait_for(completions)}, by_key(wait_for(attempts))

    def _statuses_of(
        self, keys: Sequence[TaskKey]
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        completions = self._status.find_completions(self._partition, keys)
        attempts = self._status.find_attempts(self._partition, keys)
        return wait_for(completions), by_key(wait_for(attempts))


def by_key(attempts: Sequence[AttemptRecord]) -> dict[TaskKey, Sequence[AttemptRecord]]:
    """Return attempts, which stand in key order, by their keys."""
    return {key: tuple(of_key) for key, of_key in groupby(attempts, key=lambda one: one.key)}


def wait_for(future: "Future[_T]") -> _T:
    """Return what a read of the store answers; StoreUnavailable where it takes too long."""
    try:
        return future.result(timeout=_READ_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable(
            f"the store did not answer a read within {_READ_TIMEOUT_S:.0f} s"
        ) from None
