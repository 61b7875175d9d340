"""``StatusStore`` on the store file: completions, as rows and segments, and attempts."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    STORED_FAILED_RESULTS,
    STORED_RESULTS,
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
    read_attempt,
    read_result,
    stored_attempt,
)
from hourhand.scheduler.adapters.completion_segments import SEGMENT_ROWS_MIN, merged, plain_by_hour
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import (
    ATTEMPT_HISTORY,
    KEY_COLUMNS,
    RANGE,
    TASK_STATUS,
    bury,
    find_rows,
    insert_rows,
    read_rows,
    storable,
    sweep,
    tombstones_over,
    whole_hours,
)
from hourhand.scheduler.adapters.embedded.seal import Row, opened
from hourhand.scheduler.adapters.embedded.segments import (
    STATUS,
    entries_between,
    entries_of,
    insert_segments,
    key_of,
    sweep_segments,
)

_INSERT_COMPLETIONS = partial(insert_rows, table=TASK_STATUS, kind=STATUS)
_INSERT_ATTEMPTS = partial(insert_rows, table=ATTEMPT_HISTORY, kind=STATUS)
_COMPLETIONS = f"SELECT {TASK_STATUS.selected} FROM task_status WHERE"
_FAILED = (
    f"{_COMPLETIONS} {RANGE}"
    f" AND result IN ({', '.join(repr(each.value) for each in STORED_FAILED_RESULTS)})"
    f" ORDER BY {KEY_COLUMNS} LIMIT ?"
)
_ATTEMPTS = f"SELECT {ATTEMPT_HISTORY.selected} FROM attempt_history WHERE"


class EmbeddedStatus:
    """Rows of ``task_status``, ``completion_segment`` and ``attempt_history``."""

    def __init__(
        self,
        database: Database,
        *,
        in_segments: bool = True,
        segment_rows_min: int = SEGMENT_ROWS_MIN,
    ) -> None:
        """``in_segments``: True to write segments; they are always read.

        ``segment_rows_min``: fewer successes of an hour are rows.
        """
        self._database = database
        self._in_segments = in_segments
        self._segment_rows_min = segment_rows_min

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions, in key order: many plain successes of an hour as segments."""
        distinct = {each.key: each for each in completions}.values()
        by_hour: Mapping[int, Sequence[Completion]] = {}
        others: Iterable[Completion] = distinct
        if self._in_segments:
            by_hour, others = plain_by_hour(distinct, write_time, self._segment_rows_min)
        rows: list[Row] = [
            (
                partition,
                *each.key,
                STORED_RESULTS[each.result],
                each.offset,
                each.attempts,
                each.started_ms,
                each.finished_ms,
                each.moved_to_ms,
                int(each.is_stored_for_good),
                each.reason,
                write_time,
            )
            for each in others
        ]
        rows.sort(key=_by_key)
        if not by_hour:
            return self._database.insert(_INSERT_COMPLETIONS, rows)

        def work(connection: sqlite3.Connection) -> None:
            _INSERT_COMPLETIONS(connection, rows)
            for hour_ms, found in by_hour.items():
                span = (hour_ms, hour_ms)
                if not tombstones_over(connection, STATUS, partition, span, write_time):
                    insert_segments(connection, partition, hour_ms, found, write_time)

        return self._database.write(work, rows=len(distinct))

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> "Future[Sequence[Completion]]":
        """Read a range; segments hold no failed completions."""
        if failed_max is not None:
            failed = (partition, *after, *up_to, failed_max)
            return self._database.read(
                lambda connection: [
                    _completion(row) for row in read_rows(connection, _FAILED, failed)
                ]
            )
        query = f"{_COMPLETIONS} {RANGE} ORDER BY {KEY_COLUMNS}"
        arguments = (partition, *after, *up_to)

        def load(connection: sqlite3.Connection) -> Sequence[Completion]:
            between = (after.scheduled_ms, up_to.scheduled_ms)
            entries = entries_between(connection, partition, *between)
            rows = map(opened, connection.execute(query, arguments))
            inside = (row for row in entries if after < row[1:4] <= up_to)
            return [_completion(row[1:-1]) for row in merged(rows, inside, key_of)]

        return self._database.read(load)

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        """Read single rows."""
        wanted = storable(keys)

        def find(connection: sqlite3.Connection) -> Mapping[TaskKey, Completion]:
            rows = find_rows(connection, TASK_STATUS, partition, wanted)
            entries = sorted(entries_of(connection, partition, wanted), key=_by_key)
            found = (_completion(row[1:-1]) for row in merged(rows, entries, key_of))
            return {each.key: each for each in found}

        return self._database.read(find)

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Write attempts, in the order of keys and numbers."""
        rows: list[Row] = [
            (
                partition,
                *each.key,
                each.attempt,
                each.result.value,
                each.started_ms,
                each.finished_ms,
                each.next_attempt_ms,
                each.used,
                int(each.suspect),
                each.error_class,
                each.error_message,
                each.error_stack,
                each.fence,
                write_time,
            )
            for each in map(
                stored_attempt, {(each.key, each.attempt): each for each in attempts}.values()
            )
        ]
        rows.sort(key=_by_key)
        return self._database.insert(_INSERT_ATTEMPTS, rows)

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read a range."""
        query = f"{_ATTEMPTS} {RANGE} ORDER BY {KEY_COLUMNS}, attempt"
        arguments = (partition, *after, *up_to)
        return self._database.read(
            lambda connection: list(map(_attempt, read_rows(connection, query, arguments)))
        )

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read all attempts of single keys."""
        wanted = storable(keys)

        def find(connection: sqlite3.Connection) -> Sequence[AttemptRecord]:
            rows = find_rows(connection, ATTEMPT_HISTORY, partition, wanted)
            return [_attempt(row[1:-1]) for row in rows]

        return self._database.read(find)

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours, and the outcomes of commands on keys of these hours."""
        span = whole_hours(first_hour_ms, end_hour_ms)

        def step(connection: sqlite3.Connection) -> bool:
            bury(connection, STATUS, partition, span, write_time)
            connection.execute(
                "DELETE FROM command_outcome WHERE partition = ? AND scheduled_ms >= ?"
                " AND scheduled_ms < ? AND write_time <= ?",
                (partition, *span, write_time),
            )
            more = False
            for table in ("task_status", "attempt_history", "task_checkpoint", "task_result"):
                more |= sweep(connection, table, partition, span, write_time)
            # Segments last: readers see a success meanwhile, never the row that it replaced.
            return more or sweep_segments(connection, partition, span, write_time)

        return self._database.write_in_steps(step, end_hour_ms)


def _by_key(row: Row) -> Row:
    """Return the columns that are never NULL, to sort by."""
    return row[1:5]


def _completion(row: Row) -> Completion:
    result, for_good = read_result(CompletionResult(row[3]), for_good=bool(row[9]))
    return Completion(
        key=TaskKey(*row[:3]),
        result=result,
        offset=row[4],
        attempts=row[5],
        started_ms=row[6],
        finished_ms=row[7],
        moved_to_ms=row[8],
        for_good=for_good,
        reason=row[10],
    )


def _attempt(row: Row) -> AttemptRecord:
    return read_attempt(
        AttemptRecord(
            key=TaskKey(*row[:3]),
            attempt=row[3],
            result=AttemptResult(row[4]),
            started_ms=row[5],
            finished_ms=row[6],
            next_attempt_ms=row[7],
            used=row[8],
            suspect=bool(row[9]),
            error_class=row[10],
            error_message=row[11],
            error_stack=row[12],
            fence=row[13],
        )
    )
