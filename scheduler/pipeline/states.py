"""One row for each key, with the state that its rows make up together.

Merges the three tables of a bucket in key order, each read once and in pages, so that memory does
not grow with the bucket. The inspector decides the states.
"""

import heapq
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
    read_attempt,
    read_result,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.ports.bulk import Bucket, BulkRow, BulkStore, BulkTable
from hourhand.scheduler.tasks.inspector import TaskState, state_of

OPEN_STATES = frozenset(
    state.value
    for state in (
        TaskState.PENDING,
        TaskState.RUNNING,
        TaskState.RETRYING,
        TaskState.SNOOZED,
        TaskState.BLOCKED,
    )
)
"""States of keys that are not closed: a partition has hardly any before its watermark."""

_RANKS = {table: rank for rank, table in enumerate(BulkTable)}


def state_rows(
    bulk: BulkStore, bucket: Bucket, first_ms: int, end_ms: int
) -> Iterator[tuple[Any, ...]]:
    """Yield a bucket's rows of the table ``states``, in key order."""
    tables = [_entries(bulk, table, bucket, first_ms, end_ms) for table in BulkTable]
    for _, of_key in groupby(heapq.merge(*tables, key=_order), key=lambda each: each[0]):
        yield _state_row([(rank, row) for _, rank, row in of_key])


def _entries(
    bulk: BulkStore, table: BulkTable, bucket: Bucket, first_ms: int, end_ms: int
) -> Iterator[tuple[Any, int, BulkRow]]:
    for _, rows in bulk.scan(table, [bucket], first_ms, end_ms):
        for row in rows:
            yield row[:3], _RANKS[table], row


def _order(entry: tuple[Any, int, BulkRow]) -> tuple[Any, int]:
    return entry[0], entry[1]


def _state_row(rows: list[tuple[int, Any]]) -> tuple[Any, ...]:
    task: StoredTask | None = None
    completion: Completion | None = None
    attempts: list[AttemptRecord] = []
    for rank, row in rows:
        key = TaskKey(*row[:3])
        if rank == _RANKS[BulkTable.TASKS]:
            task = StoredTask(key, row[3].encode(), row[4])
        elif rank == _RANKS[BulkTable.STATUSES]:
            result, for_good = read_result(CompletionResult(row[3]), for_good=row[9])
            completion = Completion(key, result, *row[4:11])
            completion = replace(completion, for_good=for_good)
        else:
            stored = AttemptRecord(key, row[3], AttemptResult(row[4]), *row[5:14])
            attempts.append(read_attempt(stored))
    newest = max(attempts, key=lambda each: each.attempt, default=None)
    last = max([completion.attempts if completion else 0] + [each.attempt for each in attempts])
    return (
        *rows[0][1][:3],
        state_of(task, completion, attempts).value,
        None if task is None else task.body.decode(),
        None if task is None else task.offset,
        last,
        None if completion is None else completion.started_ms,
        None if completion is None else completion.finished_ms,
        None if completion is None else completion.reason,
        0 if newest is None else newest.snoozed,
    )
