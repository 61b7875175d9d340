"""What the store says about tasks: one of them in full, or many in key order.

Decides how a row, its completion and its attempts read together as one state.  Only reads,
and asks no node, so a first attempt that runs right now still shows as pending: its start is
not in the store.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, islice
from typing import TypeVar

from actors.model.bucket import HOUR_MS, hour_of
from actors.model.display import storable_text
from actors.model.errors import StoreUnavailable
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Claim
from actors.model.partition import partition_of
from actors.model.status import AttemptRecord, AttemptResult, Completion, CompletionResult
from actors.model.task import StoredTask
from actors.ports.store import Stores, TaskPage

_READ_TIMEOUT_S = 30.0
_PAGE_TASKS_MAX = 1_000

_T = TypeVar("_T")


class TaskState(StrEnum):
    """Where a key stands, as far as the store knows."""

    UNKNOWN = "unknown"
    """Nothing is stored: never scheduled, still in the log, or its retention is over."""
    PENDING = "pending"
    RUNNING = "running"
    """An attempt's start is stored and its end is not: it runs, or its node died."""
    RETRYING = "retrying"
    """An attempt failed and the next one has its time."""
    BLOCKED = "blocked"
    """Attempts are used up; the ordering id waits for an operator."""
    SUCCESS = "success"
    FAILURE = "failure"
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class TaskView:
    """One key with everything the store holds of it."""

    key: TaskKey
    partition: int
    state: TaskState
    task: StoredTask | None
    """None where the key never had a row, or the row was deleted after the key closed."""
    completion: Completion | None
    attempts: Sequence[AttemptRecord]


@dataclass(frozen=True, slots=True)
class TaskListing:
    """A page of tasks in key order."""

    tasks: Sequence[TaskView]
    next_after: TaskKey | None
    """Pass it as ``after`` for the next page; None where there is none."""


class Inspector:
    """Reads an installation's tasks.  Errors: StoreUnavailable."""

    def __init__(self, stores: Stores, partition_count: int) -> None:
        self._stores = stores
        self._partition_count = partition_count

    def show(self, key: TaskKey) -> TaskView:
        """Return all that is known of ``key``; its state is ``unknown`` where nothing is."""
        partition = partition_of(key.ordering_id, self._partition_count)
        found = self._stores.schedule.find_tasks(partition, [key])
        completed = self._stores.status.find_completions(partition, [key])
        attempted = self._stores.status.find_attempts(partition, [key])
        return _view(
            key, partition, _wait(found).get(key), _wait(completed).get(key), _wait(attempted)
        )

    def list_tasks(
        self,
        *,
        from_ms: int,
        to_ms: int,
        limit: int,
        states: Collection[TaskState] = (),
        ordering_id: str | None = None,
        after: TaskKey | None = None,
    ) -> TaskListing:
        """Return up to ``limit`` tasks with ``from_ms`` <= scheduled < ``to_ms``, in key order.

        ``states`` and ``ordering_id`` choose, where given; ``after`` continues a listing.
        Closed tasks are listed until their completion's retention is over.
        """
        if ordering_id is not None and storable_text(ordering_id) != ordering_id:
            # No task has an id that UTF-8 cannot hold, and stores cannot even be asked for it.
            return TaskListing([], None)
        start = first_key_at(from_ms)
        if after is not None and after > start:
            start = after
        partitions = (
            range(self._partition_count)
            if ordering_id is None
            else [partition_of(ordering_id, self._partition_count)]
        )
        readers = [
            _PartitionReader(self._stores, partition, start, to_ms, min(limit, _PAGE_TASKS_MAX))
            for partition in partitions
        ]
        merged = heapq.merge(*(reader.views(ordering_id) for reader in readers), key=_key_of)
        chosen = (view for view in merged if not states or view.state in states)
        page = list(islice(chosen, limit + 1))
        return TaskListing(page[:limit], page[limit - 1].key if len(page) > limit else None)


class _PartitionReader:
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
        claim = _wait(self._claim)
        start = self._start
        if claim is not None:
            # Hours before this have no rows any more, only completions.
            swept_ms = min(claim.watermark.tasks_swept_until_ms, self._to_ms)
            kept_ms = claim.watermark.statuses_swept_until_ms
            yield from self._swept_views(ordering_id, kept_ms, swept_ms)
            start = max(start, first_key_at(swept_ms))
        for tasks in self._pages(ordering_id, start):
            yield from self._row_views(tasks, ordering_id)

    def _swept_views(
        self, ordering_id: str | None, kept_ms: int, swept_ms: int
    ) -> Iterator[TaskView]:
        first_ms = max(self._start.scheduled_ms, kept_ms)
        for hour_ms in range(hour_of(first_ms), swept_ms, HOUR_MS):
            start = max(self._start, first_key_at(hour_ms))
            end = first_key_at(min(hour_ms + HOUR_MS, swept_ms))
            completions = self._status.load_completions(self._partition, start, end)
            attempts = self._status.load_attempts(self._partition, start, end)
            attempts_by_key = _by_key(_wait(attempts))
            for completion in _wait(completions):
                key = completion.key
                if ordering_id is None or key.ordering_id == ordering_id:
                    ended = attempts_by_key.get(key, ())
                    yield _view(key, self._partition, None, completion, ended)

    def _pages(self, ordering_id: str | None, start: TaskKey) -> Iterator[Sequence[StoredTask]]:
        while True:
            page = _wait(self._page(ordering_id, start))
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
                yield _view(row.key, self._partition, row, completion, attempts.get(row.key, ()))

    def _statuses_between(
        self, first: TaskKey, last: TaskKey
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        start = first_key_at(first.scheduled_ms)
        completions = self._status.load_completions(self._partition, start, last)
        attempts = self._status.load_attempts(self._partition, start, last)
        return {one.key: one for one in _wait(completions)}, _by_key(_wait(attempts))

    def _statuses_of(
        self, keys: Sequence[TaskKey]
    ) -> tuple[Mapping[TaskKey, Completion], Mapping[TaskKey, Sequence[AttemptRecord]]]:
        completions = self._status.find_completions(self._partition, keys)
        attempts = self._status.find_attempts(self._partition, keys)
        return _wait(completions), _by_key(_wait(attempts))


def _key_of(view: TaskView) -> TaskKey:
    return view.key


def _by_key(attempts: Sequence[AttemptRecord]) -> dict[TaskKey, Sequence[AttemptRecord]]:
    return {key: tuple(of_key) for key, of_key in groupby(attempts, key=lambda one: one.key)}


def _view(
    key: TaskKey,
    partition: int,
    task: StoredTask | None,
    completion: Completion | None,
    attempts: Sequence[AttemptRecord],
) -> TaskView:
    state = state_of(task, completion, attempts)
    return TaskView(key, partition, state, task, completion, tuple(attempts))


def state_of(
    task: StoredTask | None, completion: Completion | None, attempts: Sequence[AttemptRecord]
) -> TaskState:
    """Return what a key's row, completion and attempts, by number, say together."""
    closed = completion is not None and completion.result is not CompletionResult.REOPENED
    if completion is not None and closed and (task is None or completion.closes(task.offset)):
        return TaskState(completion.result.value)
    if task is None:
        return TaskState.UNKNOWN
    reopened_ms = completion.finished_ms if completion is not None else None
    last = attempts[-1] if attempts else None
    if last is None or (reopened_ms is not None and last.started_ms <= reopened_ms):
        # What was attempted before the key was opened again says nothing of what follows.
        return TaskState.PENDING
    if last.result is AttemptResult.STARTED:
        return TaskState.RUNNING
    return TaskState.BLOCKED if last.next_attempt_ms is None else TaskState.RETRYING


def _wait(future: "Future[_T]") -> _T:
    try:
        return future.result(timeout=_READ_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable(
            f"the store did not answer a read within {_READ_TIMEOUT_S:.0f} s"
        ) from None
