"""``CheckpointStore`` on the store file."""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import (
    KEY_COLUMNS,
    RANGE,
    TASK_CHECKPOINT,
    find_rows,
    insert_rows,
    read_rows,
    storable,
)
from hourhand.scheduler.adapters.embedded.seal import Row
from hourhand.scheduler.adapters.embedded.segments import STATUS

# Whole-hour deletes of statuses cover them.
_INSERT = partial(insert_rows, table=TASK_CHECKPOINT, kind=STATUS)
_LOAD = (
    f"SELECT {TASK_CHECKPOINT.selected} FROM task_checkpoint WHERE {RANGE} ORDER BY {KEY_COLUMNS}"
)


class EmbeddedCheckpoints:
    """Rows of ``task_checkpoint``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert_checkpoints(
        self, partition: int, checkpoints: Sequence[TaskCheckpoint], write_time: int
    ) -> "Future[None]":
        """Write checkpoints, in key order."""
        rows: list[Row] = [
            (partition, *each.key, each.attempt, each.made_ms, each.body, each.fence, write_time)
            for each in {each.key: each for each in checkpoints}.values()
        ]
        rows.sort()
        return self._database.insert(_INSERT, rows)

    def load_checkpoints(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[TaskCheckpoint]]":
        arguments = (partition, *after, *up_to)
        return self._database.read(
            lambda connection: list(map(_checkpoint, read_rows(connection, _LOAD, arguments)))
        )

    def find_checkpoints(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[TaskCheckpoint]]":
        wanted = storable(keys)

        def find(connection: sqlite3.Connection) -> Sequence[TaskCheckpoint]:
            rows = find_rows(connection, TASK_CHECKPOINT, partition, wanted)
            return [_checkpoint(row[1:-1]) for row in rows]

        return self._database.read(find)


def _checkpoint(row: Row) -> TaskCheckpoint:
    """Return the checkpoint of a row without its partition and write time."""
    return TaskCheckpoint(TaskKey(*row[:3]), row[3], row[4], row[5], row[6])
