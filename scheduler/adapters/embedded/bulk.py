"""``BulkStore`` on the store file, beside other processes that have it open.

Reading takes a read-only connection; the writing side is opened for deletes and for new partitions.
It never takes the folder's lock: the caller has checked that it may delete.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.completion_segments import merged
from hourhand.scheduler.adapters.embedded.connection import FAILURES, open_connection
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.ownership import read_claim, replace_claim
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.rows import (
    ATTEMPT_HISTORY,
    KEY_COLUMNS,
    TASK_SCHEDULE,
    TASK_STATUS,
    Table,
)
from hourhand.scheduler.adapters.embedded.seal import Row, opened
from hourhand.scheduler.adapters.embedded.segments import entries_between, key_of, remove_entries
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkRow, BulkTable
from hourhand.scheduler.runtime.answers import JOB_S, answered

_TABLES: dict[BulkTable, Table] = {
    BulkTable.TASKS: TASK_SCHEDULE,
    BulkTable.STATUSES: TASK_STATUS,
    BulkTable.ATTEMPTS: ATTEMPT_HISTORY,
}
_PAGE_ROWS = 2_000


def open_bulk(settings: Settings) -> "EmbeddedBulk":
    """Open the store file; raises as ``open_stores`` of the embedded store does."""
    check_pair(settings)
    return EmbeddedBulk(settings)


class EmbeddedBulk:
    """Buckets of one folder; used from one thread."""

    def __init__(self, settings: Settings) -> None:
        self._file = store_file(settings.embedded.folder)
        self._connection = open_connection(self._file, read_only=True)
        self._database: Database | None = None

    def partition_count(self) -> int | None:
        rows = self._select("SELECT value FROM schedule_meta WHERE name = 'partition_count'")
        return int(rows[0][0]) if rows else None

    def list_buckets(
        self, table: BulkTable, partitions: Collection[int], first_ms: int, end_ms: int
    ) -> Sequence[Bucket]:
        """Find each hour's first row by the index: one look-up a bucket, no scan.

        Partly requested hours are also found by the first and last times of their segments.
        """
        query = (
            f"SELECT min(scheduled_ms) FROM {_TABLES[table].name}"
            " WHERE partition = ?1 AND scheduled_ms >= ?2 AND scheduled_ms < ?3"
        )
        if table is BulkTable.STATUSES:
            query = (
                f"SELECT min(time_ms) FROM (SELECT ({query}) AS time_ms UNION ALL"
                " SELECT (SELECT hour_ms FROM completion_segment WHERE partition = ?1"
                " AND hour_ms >= ?4 AND hour_ms < ?3 AND last_ms >= ?2 AND first_ms < ?3"
                " ORDER BY hour_ms LIMIT 1))"
            )
        found = []
        for partition in sorted(partitions):
            next_ms = first_ms
            while next_ms < end_ms:
                bounds = (next_ms, end_ms, hour_of(next_ms))[: 3 if "?4" in query else 2]
                ((time_ms,),) = self._select(query, partition, *bounds)
                if time_ms is None:
                    break
                found.append(Bucket(partition, hour_of(time_ms)))
                next_ms = hour_of(time_ms) + HOUR_MS
        return found

    def scan(
        self, table: BulkTable, buckets: Sequence[Bucket], first_ms: int, end_ms: int
    ) -> Iterator[tuple[Bucket, Sequence[BulkRow]]]:
        form = _TABLES[table]
        order = ", attempt" if table is BulkTable.ATTEMPTS else ""
        query = (
            f"SELECT {form.selected} FROM {form.name} WHERE partition = ? AND scheduled_ms >= ?"
            f" AND scheduled_ms < ? ORDER BY {KEY_COLUMNS}{order}"
        )
        try:
            for bucket in buckets:
                start_ms = max(first_ms, bucket.hour_ms)
                stop_ms = min(end_ms, bucket.hour_ms + HOUR_MS)
                entries: Iterator[Row] = iter(())
                if table is BulkTable.STATUSES:
                    between = (start_ms, stop_ms - 1)
                    entries = entries_between(self._connection, bucket.partition, *between)
                cursor = self._connection.execute(query, (bucket.partition, start_ms, stop_ms))
                rows: Iterator[Row] = map(opened, cursor)
                if table is BulkTable.STATUSES:
                    rows = merged(rows, entries, key_of)
                while page := [_bulk_row(table, row) for row in islice(rows, _PAGE_ROWS)]:
                    yield bucket, page
        except FAILURES as error:
            raise self._file.failure(error) from error

    def scan_part(
        self, table: BulkTable, part: int, parts: int, columns: Collection[str]
    ) -> Iterator[Mapping[str, Sequence[object]]]:
        ever = (INSTANT_MIN_MS, INSTANT_MAX_MS + 1)
        query = f"SELECT DISTINCT partition FROM {_TABLES[table].name}"
        if table is BulkTable.STATUSES:
            query += " UNION SELECT DISTINCT partition FROM completion_segment"
        owners = self._select(query)
        buckets = self.list_buckets(table, [each for (each,) in owners], *ever)
        # By the bucket itself, not by its place in the list, which may change between two parts.
        mine = [b for b in buckets if (b.partition + b.hour_ms // HOUR_MS) % parts == part]
        for bucket, rows in self.scan(table, mine, *ever):
            found = dict(zip(COLUMNS[table], zip(*rows, strict=True), strict=True))
            found["partition"] = (bucket.partition,) * len(rows)
            yield {name: found[name] for name in columns}

    def delete_rows(self, table: BulkTable, bucket: Bucket, rows: Sequence[BulkRow]) -> None:
        form = _TABLES[table]
        where = " AND ".join(f"{name} = ?" for name in form.key)
        statement = f"DELETE FROM {form.name} WHERE {where} AND write_time <= ?"
        size = len(form.key) - 1
        doomed: list[Row] = [(bucket.partition, *row[:size], row[-1]) for row in rows]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(statement, doomed)
            if table is BulkTable.STATUSES:
                keys = {TaskKey(*row[1:4]): row[-1] for row in doomed}
                remove_entries(connection, bucket.partition, bucket.hour_ms, keys)

        self._write(work, rows=len(doomed))

    def begin_partition(self, partition: int, claim: Claim) -> Claim:
        def work(connection: sqlite3.Connection) -> Claim:
            found = read_claim(connection, partition)
            if found is not None:
                return found
            replace_claim(connection, partition, claim)
            return claim

        stored: Claim = self._write(work)
        return stored

    def close(self) -> None:
        self._connection.close()
        if self._database is not None:
            self._database.close()

    def _select(self, query: str, *arguments: int) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, arguments).fetchall()
        except FAILURES as error:
            raise self._file.failure(error) from error

    def _write(self, work: Any, *, rows: int = 1) -> Any:
        if self._database is None:
            self._database = Database(self._file)
        written: Future[Any] = self._database.write(work, rows=rows)
        return answered(written, JOB_S, str(self._file.path))


def _bulk_row(table: BulkTable, row: tuple[Any, ...]) -> BulkRow:
    """Leave the partition out, and convert SQLite's values to the types of the port."""
    values = list(row[1:])
    if table is BulkTable.TASKS:
        values[3] = values[3].decode()
        return tuple(values)
    flag = COLUMNS[table].index("for_good" if table is BulkTable.STATUSES else "suspect")
    values[flag] = bool(values[flag])
    return tuple(values)
