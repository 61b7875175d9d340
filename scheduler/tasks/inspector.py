"""Stored tasks: one of them in full, or many in key order or the newest first.

Decides which tasks a listing holds, and how many it may read; for the newest, although stores read
forward only, which parts of a range are read, from its end backwards. It only reads, and asks no
node: unless the caller passes the nodes' reports, states are the store's alone.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice

import msgspec

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.tasks.partition_reader import PartitionReader, by_key
from hourhand.scheduler.tasks.task_filter import TaskFilter
from hourhand.scheduler.tasks.task_info import TaskInfo
from hourhand.scheduler.tasks.task_state import (
    OPEN_STATES,
    NodesWord,
    TaskState,
    TaskView,
    as_executed,
    state_of,
    view_of,
)

__all__ = [
    "Inspector",
    "NodesWord",
    "TaskListing",
    "TaskState",
    "TaskView",
    "as_executed",
    "state_of",
]

LOOKED_MAX = 10_000
"""Most tasks that one listing reads if few of them or none are in the requested states."""
_PAGE_TASKS_MAX = 1_000
_OPEN_PAGE_TASKS = 200
"""Rows of a read in which most may be closed or of other ids."""
_BEGUN_AT_ONCE = 16
"""Partitions whose first tasks are read at the same time."""
PART_TASKS_MAX = 1_000
_FIRST_PART_MS = 60_000
_WIDENED = 4
PARTS_MAX = 40
"""Most parts of one page of the newest: if few of very many match, it ends after these."""


@dataclass(frozen=True, slots=True)
class TaskListing:
    """A page of tasks in key order."""

    tasks: Sequence[TaskView]
    next_after: TaskKey | None
    """The value of ``after`` for the next page, which may exist even if this page is short or
    empty; None if there is none."""


class Inspector:
    """Reads an installation's tasks.  Errors: StoreUnavailable."""

    def __init__(self, stores: Stores, partition_count: int) -> None:
        self._stores = stores
        self._partition_count = partition_count

    def show(self, key: TaskKey) -> TaskView:
        """Return everything stored about ``key``; its state is ``unknown`` if there is nothing."""
        partition = partition_of(key.ordering_id, self._partition_count)
        rows = self._stores.schedule.find_tasks(partition, [key])
        completed = self._stores.status.find_completions(partition, [key])
        attempted = self._stores.status.find_attempts(partition, [key])
        made = self._stores.checkpoints.find_checkpoints(partition, [key])
        view = view_of(
            key,
            partition,
            answered(rows).get(key),
            answered(completed).get(key),
            answered(attempted),
            found[0] if (found := answered(made)) else None,
        )
        return self._with_result(view) if view.state is TaskState.SUCCESS else view

    def with_results(self, infos: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return tasks with the results, in stored form, of those that ended well."""
        keys: defaultdict[int, list[TaskKey]] = defaultdict(list)
        for each in infos:
            if each.state is TaskState.SUCCESS:
                keys[partition_of(each.key.ordering_id, self._partition_count)].append(each.key)
        reads = [self._stores.results.find_results(*each) for each in keys.items()]
        found = {row.key: row for read in reads for row in answered(read)}
        return [
            msgspec.structs.replace(each, result=row)
            if (row := found.get(each.key)) is not None and row.is_of(each.finished_ms)
            else each
            for each in infos
        ]

    def _with_result(self, view: TaskView) -> TaskView:
        """Return a task that ended well with its result, if it has one."""
        assert view.completion is not None, "its state says so"
        found = answered(self._stores.results.find_results(view.partition, [view.key]))
        has = found and found[0].is_of(view.completion.finished_ms)
        return replace(view, result=found[0]) if has else view

    def list_tasks(
        self,
        *,
        from_ms: int,
        to_ms: int,
        limit: int,
        states: Collection[TaskState] = (),
        ordering_id: str | None = None,
        partition: int | None = None,
        after: TaskKey | None = None,
        error_class: str | None = None,
        system: bool = True,
        kinds: Collection[str] = (),
        word: NodesWord | None = None,
    ) -> TaskListing:
        """Return up to ``limit`` tasks with ``from_ms`` <= scheduled < ``to_ms``, in key order.

        ``states``, ``kinds``, ``ordering_id``, ``partition`` and the ``error_class`` of the last
        attempt filter, if given; without ``system`` Hourhand's own tasks are left out; ``after``
        continues a listing. With ``word``, the nodes' reports, states combine the store and the
        nodes. Reads ``LOOKED_MAX`` tasks, or ``limit`` of them if that is more: a page may be
        short, or even empty, while there are more. Closed tasks are listed until the retention of
        their completion ends.
        """
        wanted = TaskFilter(states, error_class, system, kinds)
        page_tasks = _PAGE_TASKS_MAX if wanted.chooses else limit
        readers = self._readers(
            ordering_id, from_ms, to_ms, after, limit, page_tasks=page_tasks, partition=partition
        )
        open_only = bool(states) and OPEN_STATES.issuperset(states)
        views = _begun([reader.views(ordering_id, open_only=open_only) for reader in readers])
        found: list[TaskView] = []
        last: TaskKey | None = None
        for looked, view in enumerate(heapq.merge(*views, key=_key_of)):
            if looked == max(limit, LOOKED_MAX):
                return TaskListing(found, last)
            last = view.key
            told = view if word is None else as_executed(view, word)
            if wanted.accepts(told):
                if len(found) == limit:
                    return TaskListing(found, found[-1].key)
                found.append(told)
        return TaskListing(found, None)

    def list_open(
        self,
        *,
        to_ms: int,
        limit: int,
        looked_max: int,
        begins: str = "",
        ordering_id: str | None = None,
        after: TaskKey | None = None,
    ) -> TaskListing:
        """Return up to ``limit`` open tasks with scheduled < ``to_ms``, in key order.

        ``ordering_id`` filters, or ``begins``, its prefix. Reads from the watermark on, and at most
        ``looked_max`` rows: a page may be short, or even empty, while there are more.
        """
        page_tasks = max(limit, _OPEN_PAGE_TASKS)
        wanted = looked_max if begins else limit
        readers = self._readers(
            ordering_id, INSTANT_MIN_MS, to_ms, after, wanted, page_tasks=page_tasks
        )
        rows = heapq.merge(*(reader.rows_from_open(ordering_id) for reader in readers), key=_key_of)
        found: list[TaskView] = []
        looked, last = 0, None
        while True:
            chosen: list[StoredTask] = []
            for row in rows:
                looked, last = looked + 1, row.key
                if row.key.ordering_id.startswith(begins):
                    chosen.append(row)
                if len(found) + len(chosen) == limit or looked == looked_max:
                    break
            else:
                return TaskListing([*found, *self._open_among(chosen)], None)
            found += self._open_among(chosen)
            if len(found) == limit or looked == looked_max:
                return TaskListing(found, last)

    def _open_among(self, rows: Sequence[StoredTask]) -> "list[TaskView]":
        """Return the open ones of these rows, in their order; one look-up for each partition."""
        keys: defaultdict[int, list[TaskKey]] = defaultdict(list)
        for row in rows:
            keys[partition_of(row.key.ordering_id, self._partition_count)].append(row.key)
        read = self._stores.status
        asked = [
            (read.find_completions(each, some), read.find_attempts(each, some))
            for each, some in keys.items()
        ]
        completions: dict[TaskKey, Completion] = {}
        attempts: dict[TaskKey, Sequence[AttemptRecord]] = {}
        for completed, attempted in asked:
            closed = answered(completed)
            completions.update(closed)
            attempts.update(by_key(answered(attempted)))
        views = (
            view_of(
                row.key,
                partition_of(row.key.ordering_id, self._partition_count),
                row,
                completions.get(row.key),
                attempts.get(row.key, ()),
            )
            for row in rows
        )
        return [view for view in views if view.state in OPEN_STATES]

    def _readers(
        self,
        ordering_id: str | None,
        from_ms: int,
        to_ms: int,
        after: TaskKey | None,
        wanted: int,
        *,
        page_tasks: int,
        partition: int | None = None,
    ) -> "list[PartitionReader]":
        start = first_key_at(from_ms)
        if after is not None and after > start:
            start = after
        numbers = [each for each in range(self._partition_count) if partition in (None, each)]
        if ordering_id is not None:
            # No task has an id that UTF-8 cannot hold, and stores cannot be asked for it.
            known = storable_text(ordering_id) == ordering_id
            own = partition_of(ordering_id, self._partition_count) if known else None
            numbers = [each for each in numbers if each == own]
        page_tasks = min(page_tasks, _PAGE_TASKS_MAX)
        # Half as many again as a partition's share, so that few partitions are read twice.
        share = 1 + wanted * 3 // (2 * max(1, len(numbers)))
        return [
            PartitionReader(
                self._stores,
                number,
                start,
                to_ms,
                first_page_tasks=min(share, page_tasks),
                page_tasks=page_tasks,
            )
            for number in numbers
        ]


def _begun(streams: "Sequence[Iterator[TaskView]]") -> "list[Iterator[TaskView]]":
    """Return these streams after the first task of each was read: a merge would wait for them one
    by one.
    """
    if len(streams) < 2:
        return list(streams)
    with ThreadPoolExecutor(min(len(streams), _BEGUN_AT_ONCE)) as pool:
        firsts = list(pool.map(lambda stream: list(islice(stream, 1)), streams))
    return [chain(first, stream) for first, stream in zip(firsts, streams, strict=True)]


def _key_of(view: TaskView | StoredTask) -> TaskKey:
    return view.key


ListPart = Callable[[int, int, int, TaskKey | None], TaskListing]
"""Lists tasks from a time to before another, up to a number, behind a key; in key order."""


def list_newest(
    list_part: ListPart, from_ms: int, to_ms: int, limit: int, after: TaskKey | None
) -> TaskListing:
    """Return up to ``limit`` tasks, the latest first; those of one millisecond in key order.

    ``after`` is the ``next_after`` of the previous page. A page may be short, or even empty, while
    there are more.
    """
    found: list[TaskView] = []
    if after is not None and after.scheduled_ms < to_ms:
        at_ms = after.scheduled_ms
        rest = list_part(at_ms, at_ms + 1, limit, after)
        if rest.next_after is not None:
            return rest
        found += rest.tasks
        to_ms = at_ms
    width_ms = _FIRST_PART_MS
    for _ in range(PARTS_MAX):
        if to_ms <= from_ms or len(found) > limit:
            break
        start_ms = max(from_ms, to_ms - width_ms)
        part = list_part(start_ms, to_ms, PART_TASKS_MAX, None)
        if part.next_after is not None and to_ms - start_ms > 1:
            width_ms = max(1, (to_ms - start_ms) // _WIDENED)
            continue
        found += _newest_first(part.tasks)
        if part.next_after is not None:
            # One millisecond holds more than a page: it is read in key order.
            return cut_listing(found, limit, part.next_after)
        to_ms = start_ms
        width_ms *= _WIDENED
    return cut_listing(found, limit, None if to_ms <= from_ms else first_key_at(to_ms - 1))


def _newest_first(tasks: Sequence[TaskView]) -> list[TaskView]:
    return sorted(tasks, key=lambda view: -view.key.scheduled_ms)


def cut_listing(found: list[TaskView], limit: int, next_after: TaskKey | None) -> TaskListing:
    """Return a page of the found tasks, which may be more than a page holds."""
    if len(found) > limit:
        return TaskListing(found[:limit], found[limit - 1].key)
    return TaskListing(found, next_after)
