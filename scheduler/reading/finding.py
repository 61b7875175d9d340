"""Finding single tasks: what is stored of a key, and which open tasks a pair of ids has.

Decides what it means that nothing is stored.  Blocks nobody: each is steps between answers of the
store.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from actors.model.instant import INSTANT_MAX_MS
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Claim
from actors.model.partition import partition_of
from actors.ports.store import Stores
from scheduler.futures.steps import Steps
from scheduler.reading.partition_reader import first_open_key
from scheduler.reading.task_info import Absence, AttemptInfo, TaskInfo, shown_attempts
from scheduler.reading.task_state import OPEN_STATES, TaskState, TaskView, state_of, view_of

_PAGE_TASKS = 1_000
_LAST = first_key_at(INSTANT_MAX_MS + 1)


def found_task(
    stores: Stores, partition_count: int, key: TaskKey, offset: int | None
) -> Steps[TaskInfo]:
    """Return what is stored of a key.

    ``offset`` is that of a record of it, where one is known: what is stored of the key from before
    is not taken for what became of that record.
    """
    partition = partition_of(key.ordering_id, partition_count)
    # Before what is stored: what a node says it has stored is there then, or deleted again.
    claim: Claim | None = yield stores.ownership.find_watermark(partition)
    asked: Sequence[Future[Any]] = (
        stores.schedule.find_tasks(partition, [key]),
        stores.status.find_completions(partition, [key]),
        stores.status.find_attempts(partition, [key]),
    )
    rows, completions, attempts = (yield asked[0]), (yield asked[1]), (yield asked[2])
    view = view_of(key, partition, rows.get(key), completions.get(key), attempts)
    unread = offset is not None and not _has_read(claim, offset)
    if view.state is TaskState.UNKNOWN:
        return TaskInfo(key, view.state, absence=_absence(key, claim, offset))
    if unread and offset is not None and _ended_before(view, offset):
        return TaskInfo(key, TaskState.UNKNOWN, absence=Absence.NOT_STORED_YET)
    return TaskInfo.of(view)


def found_attempts(
    stores: Stores, partition_count: int, key: TaskKey
) -> Steps[tuple[AttemptInfo, ...]]:
    """Return the attempts of a key by their numbers; none where none is stored."""
    partition = partition_of(key.ordering_id, partition_count)
    return shown_attempts((yield stores.status.find_attempts(partition, [key])))


def open_keys(
    stores: Stores, partition_count: int, ordering_id: str, uniqueness_key: str
) -> Steps[list[TaskKey]]:
    """Return the keys of the open tasks that have both ids, in their order.

    Reads the rows of the ordering id from the first one on that may be open.
    """
    partition = partition_of(ordering_id, partition_count)
    start = first_open_key((yield stores.ownership.find_watermark(partition)))
    found: list[TaskKey] = []
    while True:
        page = yield stores.schedule.load_ordering(
            partition, ordering_id, start, _LAST, _PAGE_TASKS
        )
        rows = [row for row in page.tasks if row.key.uniqueness_key == uniqueness_key]
        if rows:
            keys = [row.key for row in rows]
            closed = yield stores.status.find_completions(partition, keys)
            found += [
                row.key for row in rows if state_of(row, closed.get(row.key), ()) in OPEN_STATES
            ]
        if page.complete:
            return found
        start = page.tasks[-1].key


def _has_read(claim: Claim | None, offset: int) -> bool:
    """Whether a node is known to have done all that the record at ``offset`` asks for."""
    next_offset = None if claim is None else claim.watermark.next_offset
    return next_offset is not None and offset < next_offset


def _ended_before(view: TaskView, offset: int) -> bool:
    """Whether the key is closed, and the record at ``offset`` would open it again."""
    closed = view.state not in OPEN_STATES
    return closed and view.completion is not None and not view.completion.closes(offset)


def _absence(key: TaskKey, claim: Claim | None, offset: int | None) -> Absence:
    if offset is not None:
        return Absence.GONE if _has_read(claim, offset) else Absence.NOT_STORED_YET
    if claim is not None and key.scheduled_ms < claim.watermark.statuses_swept_until_ms:
        return Absence.GONE
    return Absence.UNSEEN
