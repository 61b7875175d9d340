"""``ResultStore`` on the store file.

Each write also empties bodies whose time is over, so that no other call is needed for it.
"""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import TASK_RESULT, find_rows, insert_rows, storable
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed
from hourhand.scheduler.adapters.embedded.segments import STATUS

_EMPTIED_PER_ROW, _EMPTIED_MIN = 2, 100
"""More than are written, so that what is kept stays bounded."""
_FINISHED, _BODY = (TASK_RESULT.names.index(name) for name in ("finished_ms", "body"))
_KEY_SIZE = len(TASK_RESULT.key)
_KEY_NAMES, _MARKS = ", ".join(TASK_RESULT.key), ", ".join("?" * _KEY_SIZE)
_OVER = (
    f"SELECT {TASK_RESULT.selected} FROM task_result"
    " WHERE body <> x'' AND kept_until_ms <= ? ORDER BY kept_until_ms LIMIT ?"
)
_EMPTY = f"UPDATE task_result SET body = x'', checksum = ? WHERE ({_KEY_NAMES}) = ({_MARKS})"


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    # Whole-hour deletes of statuses cover them.
    insert_rows(connection, rows, table=TASK_RESULT, kind=STATUS)
    now_ms = max(row[_FINISHED] for row in rows)
    emptied_max = max(_EMPTIED_MIN, _EMPTIED_PER_ROW * len(rows))
    over = list(map(opened, connection.execute(_OVER, (now_ms, emptied_max))))
    empty = [sealed((*row[:_BODY], b"", *row[_BODY + 1 :])) for row in over]
    connection.executemany(_EMPTY, [(row[-1], *row[:_KEY_SIZE]) for row in empty])


class EmbeddedResults:
    """Rows of ``task_result``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> "Future[None]":
        """Write results, in key order."""
        rows: list[Row] = [
            (
                partition,
                *each.key,
                each.attempt,
                each.finished_ms,
                each.kept_until_ms,
                each.body,
                each.fence,
                write_time,
            )
            for each in {each.key: each for each in results}.values()
        ]
        rows.sort()
        return self._database.insert(_insert, rows)

    def find_results(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[StoredResult]]":
        wanted = storable(keys)

        def find(connection: sqlite3.Connection) -> Sequence[StoredResult]:
            rows = find_rows(connection, TASK_RESULT, partition, wanted)
            return [StoredResult(TaskKey(*row[1:4]), *row[4:-1]) for row in rows]

        return self._database.read(find)
