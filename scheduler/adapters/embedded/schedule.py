"""``ScheduleStore`` on the store file."""

import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from operator import attrgetter

import msgspec

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.actors.ports.store import KeysPage, TaskPage
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.many_rows import PageQuery
from hourhand.scheduler.adapters.embedded.rows import (
    KEY_COLUMNS,
    RANGE,
    TASK_SCHEDULE,
    bury,
    find_rows,
    insert_rows,
    storable,
    sweep,
    whole_hours,
)
from hourhand.scheduler.adapters.embedded.seal import Row, opened

_KIND = "task"
_key_of = attrgetter("key")
_INSERT = partial(insert_rows, table=TASK_SCHEDULE, kind=_KIND)
_LOAD = PageQuery(
    TASK_SCHEDULE.names,
    bytes_names=("data",),
    id_names=("ordering_id", "uniqueness_key"),
    source="FROM task_schedule"
    f" WHERE partition = ? AND ({KEY_COLUMNS}) > (?, ?, ?) AND scheduled_ms < ?"
    f" ORDER BY {KEY_COLUMNS} LIMIT ?",
)
# One row for all keys: for each row sqlite3 releases the interpreter's lock and waits for it again.
# Rows are not checked here: a task's whole row is read, and checked, before it runs.
_FIND_KEYS = (
    f"SELECT json_group_array(json_array({KEY_COLUMNS})) FROM ("
    f" SELECT {KEY_COLUMNS} FROM task_schedule"
    f" WHERE partition = ? AND ({KEY_COLUMNS}) > (?, ?, ?) AND scheduled_ms < ?"
    f" ORDER BY {KEY_COLUMNS} LIMIT ?)"
)
_decode_keys = msgspec.json.Decoder(list[TaskKey]).decode
_LOAD_ORDERING = (
    f"SELECT {TASK_SCHEDULE.selected} FROM task_schedule WHERE {RANGE} AND ordering_id = ?"
    f" ORDER BY {KEY_COLUMNS} LIMIT ?"
)


class EmbeddedSchedule:
    """Rows of ``task_schedule``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows in key order, which is their order in the file."""
        newest = {task.key: task for task in tasks}.values()
        rows: list[Row] = [
            (partition, *task.key, task.body, task.offset, write_time) for task in newest
        ]
        rows.sort()
        return self._database.insert(_INSERT, rows)

    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read a page of a range."""
        arguments = (partition, *after, before_ms)

        def load(connection: sqlite3.Connection) -> TaskPage:
            rows, is_all = _LOAD.page(connection, arguments, limit + 1, page_bytes)
            # SQLite guarantees no order of combined rows.
            tasks = sorted(map(_task, rows), key=_key_of)
            return TaskPage(tasks[:limit], is_all and len(tasks) <= limit)

        return self._database.read(load)

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        """Read single rows."""
        wanted = storable(keys)

        def find(connection: sqlite3.Connection) -> Mapping[TaskKey, StoredTask]:
            rows = find_rows(connection, TASK_SCHEDULE, partition, wanted)
            tasks = [StoredTask(TaskKey(*row[1:4]), row[4], row[5]) for row in rows]
            return {task.key: task for task in tasks}

        return self._database.read(find)

    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read a page of one ordering id.

        It scans the range: an index by ordering id would cost every insert time, and only blocked
        ids would gain.
        """
        arguments = (partition, *after, *up_to, ordering_id, limit + 1)

        def load(connection: sqlite3.Connection) -> TaskPage:
            tasks: list[StoredTask] = []
            found_bytes = 0
            for row in connection.execute(_LOAD_ORDERING, arguments):
                if found_bytes >= page_bytes:
                    return TaskPage(tasks[:limit], complete=False)
                tasks.append(_task(row))
                found_bytes += tasks[-1].data_bytes
            return TaskPage(tasks[:limit], len(tasks) <= limit)

        return self._database.read(load)

    def find_keys(
        self, partition: int, after: TaskKey, before_ms: int, limit: int
    ) -> "Future[KeysPage]":
        """Read the keys of a page of a range."""

        def find(connection: sqlite3.Connection) -> KeysPage:
            arguments = (partition, *after, before_ms, limit + 1)
            ((found,),) = connection.execute(_FIND_KEYS, arguments)
            keys = sorted(_decode_keys(found))
            return KeysPage(keys[:limit], len(keys) <= limit)

        return self._database.read(find)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours."""
        span = whole_hours(first_hour_ms, end_hour_ms)

        def step(connection: sqlite3.Connection) -> bool:
            bury(connection, _KIND, partition, span, write_time)
            return sweep(connection, "task_schedule", partition, span, write_time)

        return self._database.write_in_steps(step, end_hour_ms)


def _task(row: Row) -> StoredTask:
    """Return the task in a row of all columns; raises Damage."""
    _, scheduled_ms, ordering_id, uniqueness_key, data, offset, _ = opened(row)
    return StoredTask(TaskKey(scheduled_ms, ordering_id, uniqueness_key), data, offset)
