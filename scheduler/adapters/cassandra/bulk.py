"""``BulkStore`` on Cassandra: buckets are its own partitions, read whole and in large pages.

It decides how buckets are found (probed if they are few, else by listing the table's keys) and
opens only requested ones. Completions of a bucket are its rows and the entries of its segments,
merged as they are read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress, groupby, islice
from operator import itemgetter
from typing import Any
from uuid import uuid4

import msgspec
from cassandra.query import BatchStatement, BatchType

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import hour_of, hours_between
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.cassandra.ownership import (
    PARTITION_COUNT,
    WATERMARK_COLUMNS,
    CassandraOwnershipStore,
    watermark_values,
)
from hourhand.scheduler.adapters.cassandra.segments import (
    FETCH_SEGMENTS,
    OVERLAPPING,
    SEGMENT,
    CompletionSegments,
    entries_in,
    key_of,
)
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row
from hourhand.scheduler.adapters.cassandra.stores import connect
from hourhand.scheduler.adapters.cassandra.whole_tables import WholeTable, tokens_of
from hourhand.scheduler.adapters.completion_segments import in_key_order, merged
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkRow, BulkTable

_NAMES = {
    BulkTable.TASKS: "task_schedule",
    BulkTable.STATUSES: "task_status",
    BulkTable.ATTEMPTS: "attempt_history",
}
_STORED_AS = {
    "partition": "partition_id",
    "scheduled_ms": "scheduled_time",
    "started_ms": "started",
    "finished_ms": "finished",
    "next_attempt_ms": "next_attempt",
    "moved_to_ms": "detail",
    "for_good": "detail",
    "reason": "detail",
}
"""Selected expressions by column, for columns with another name in the store; without the write
time."""
_SEGMENTS = "completion_segment"
_WRITTEN_WITH = {
    BulkTable.TASKS: "WRITETIME(data)",
    BulkTable.STATUSES: "WRITETIME(result)",
    BulkTable.ATTEMPTS: "WRITETIME(result)",
}
_LONG = ("data", "detail", "error_message", "error_stack")
_DETAIL = 8
"""Position in a selected row of the JSON with rare values of completions."""
_PAGE_ROWS = 1_000
_PROBED_HOURS_MAX = 256
"""Hours of one probe; longer ranges are found by listing the keys of the whole table."""
_LISTED_BUCKETS = 5_000
_DELETED_ROWS = 200
_RUN_BUCKETS_FIRST = 8
_RUN_BUCKETS_MAX = 64
"""Buckets of one statement; the server holds the list, and reads them one after the other."""
_RUN_PAGES = 2
"""Desired number of pages of a statement."""
_EVER = (INSTANT_MIN_MS, INSTANT_MAX_MS + 1)
_place_and_key_of = itemgetter(slice(0, 4))


def open_bulk(settings: Settings) -> "CassandraBulk":
    """Connect and check the schema; raises StoreUnavailable and SchemaMissing."""
    session = connect(settings.cassandra)
    try:
        return CassandraBulk(session, settings.tree.watermark.completion_retention_ms)
    except BaseException:
        session.close()
        raise


class CassandraBulk:
    """Buckets of one keyspace; used from one thread."""

    def __init__(self, session: CassandraSession, retention_ms: int) -> None:
        self._session = session
        self._ownership = CassandraOwnershipStore(session, retention_ms=retention_ms)
        self._scans = {
            table: session.prepare(
                f"SELECT {_selected_in_rows(table)} FROM {{keyspace}}.{name}"
                " WHERE partition_id = ? AND hour IN ? AND scheduled_time >= ?"
                " AND scheduled_time < ?"
            )
            for table, name in _NAMES.items()
        }
        for scan in self._scans.values():
            scan.fetch_size = _PAGE_ROWS
        self._whole = {table: WholeTable(session, name, _LONG) for table, name in _NAMES.items()}
        self._segments = CompletionSegments(session)
        self._scan_segments = session.prepare(
            f"{SEGMENT} WHERE partition_id = ? AND hour IN ? AND {OVERLAPPING}"
        )
        self._scan_segments.fetch_size = FETCH_SEGMENTS
        self._probes = {
            name: session.prepare(
                f"SELECT partition_id, toUnixTimestamp(hour) FROM {{keyspace}}.{name}"
                " WHERE partition_id = ? AND hour IN ? PER PARTITION LIMIT 1"
            )
            for name in (*_NAMES.values(), _SEGMENTS)
        }
        self._lists = {
            name: session.prepare(
                f"SELECT DISTINCT partition_id, toUnixTimestamp(hour) FROM {{keyspace}}.{name}"
                " WHERE token(partition_id, hour) > ? AND token(partition_id, hour) <= ?"
            )
            for name in (*_NAMES.values(), _SEGMENTS)
        }
        for listing in self._lists.values():
            listing.fetch_size = _LISTED_BUCKETS

    def partition_count(self) -> int | None:
        meta = self._session.prepare("SELECT value FROM {keyspace}.schedule_meta WHERE name = ?")
        rows = self._session.execute(meta.bind((PARTITION_COUNT,)))
        return int(rows[0][0]) if rows else None

    def list_buckets(
        self, table: BulkTable, partitions: Collection[int], first_ms: int, end_ms: int
    ) -> Sequence[Bucket]:
        names = [_NAMES[table], *([_SEGMENTS] if table is BulkTable.STATUSES else ())]
        if (end_ms - first_ms) // 3_600_000 <= _PROBED_HOURS_MAX:
            hours = list(hours_between(first_ms, end_ms))
            probes = [
                self._probes[name].bind((each, hours)) for name in names for each in partitions
            ]
            answers = self._session.execute_all(probes) if hours else []
            return sorted({Bucket(*row) for rows in answers for row in rows})

        def wanted(row: tuple[Any, ...]) -> bool:
            return row[0] in partitions and first_ms < row[1] + 3_600_000 and row[1] < end_ms

        lists = [self._session.scan(self._listing(name, 0, 1), wanted) for name in names]
        return sorted({Bucket(*row) for listed in lists for row in listed})

    def scan(
        self, table: BulkTable, buckets: Sequence[Bucket], first_ms: int, end_ms: int
    ) -> Iterator[tuple[Bucket, Sequence[BulkRow]]]:
        pages = self._pages(self._scans[table], Runs(buckets), first_ms, end_ms)
        if table is BulkTable.STATUSES:
            return self._statuses(pages, buckets, first_ms, end_ms)
        return pages

    def scan_part(
        self, table: BulkTable, part: int, parts: int, columns: Collection[str]
    ) -> Iterator[Mapping[str, Sequence[object]]]:
        segmented: frozenset[Row] = frozenset()
        if table is BulkTable.STATUSES:
            listing = self._listing(_SEGMENTS, part, parts)
            segmented = frozenset(self._session.execute(listing))
        place = ("partition_id", "scheduled_time") if segmented else ()
        stored_as = _stored_as(table, columns)
        selected = tuple(dict.fromkeys((*stored_as.values(), *place)))
        for page in self._whole[table].pages(part, parts, selected):
            found = _outside(dict(zip(selected, page, strict=True)), segmented)
            if found is None:
                continue
            unfolded = _unfolded(found["detail"]) if "detail" in found else {}
            yield {
                name: unfolded[name] if name in unfolded else found[stored_as[name]]
                for name in columns
            }
        for bucket, rows in self.scan(table, sorted(Bucket(*each) for each in segmented), *_EVER):
            columns_of = dict(zip(COLUMNS[table], zip(*rows, strict=True), strict=True))
            columns_of["partition"] = (bucket.partition,) * len(rows)
            yield {name: columns_of[name] for name in columns}

    def delete_rows(self, table: BulkTable, bucket: Bucket, rows: Sequence[BulkRow]) -> None:
        names = ["scheduled_time", "ordering_id", "uniqueness_key"]
        if table is BulkTable.ATTEMPTS:
            names.append("attempt")
        where = " AND ".join(f"{name} = ?" for name in names)
        prepared = self._session.prepare(
            f"DELETE FROM {{keyspace}}.{_NAMES[table]} USING TIMESTAMP ?"
            f" WHERE partition_id = ? AND hour = ? AND {where}"
        )
        batches = []
        for start in range(0, len(rows), _DELETED_ROWS):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for row in rows[start : start + _DELETED_ROWS]:
                batch.add(prepared, (row[-1], *bucket, *row[: len(names)]))
            batch.is_idempotent = True
            batches.append(batch)
        self._session.execute_all(batches)
        if table is BulkTable.STATUSES:
            # Segments are changed after rows: readers see a success meanwhile, never the replaced
            # row.
            doomed: Any = {TaskKey(*row[:3]): row[-1] for row in rows}  # type: ignore[arg-type]
            self._segments.remove(bucket, doomed)

    def begin_partition(self, partition: int, claim: Claim) -> Claim:
        columns = ", ".join(WATERMARK_COLUMNS)
        marks = ", ".join("?" * len(WATERMARK_COLUMNS))
        begin = self._session.prepare(
            "INSERT INTO {keyspace}.partition_watermark"
            f" (partition_id, owner_epoch, claim_token, {columns})"
            f" VALUES (?, ?, ?, {marks}) IF NOT EXISTS"
        )
        values = (partition, claim.epoch, uuid4(), *watermark_values(claim.watermark))
        self._session.execute(begin.bind(values))
        stored = self._ownership.read_watermark(partition).result()
        return claim if stored is None else stored

    def close(self) -> None:
        self._session.close()

    def _listing(self, name: str, part: int, parts: int) -> Any:
        """Return the statement that lists the buckets of a part of a table."""
        return self._lists[name].bind(tokens_of(part, parts))

    def _pages(
        self, prepared: Any, runs: "Runs", first_ms: int, end_ms: int
    ) -> Iterator[tuple[Bucket, list[Row]]]:
        """Yield the selected columns of runs of buckets, page by page, in their order."""
        asked: list[Sequence[Bucket]] = []

        def reads() -> Iterator[Any]:
            for run in runs:
                asked.append(run)
                hours = [bucket.hour_ms for bucket in run]
                yield prepared.bind((run[0].partition, hours, first_ms, end_ms))

        for position, rows in self._session.stream(reads()):
            partition = asked[position][0].partition
            found = [
                (Bucket(partition, hour_ms), list(of_hour))
                for hour_ms, of_hour in groupby(rows, lambda row: hour_of(row[0]))
            ]
            runs.learn(len(found), len(rows))
            yield from found

    def _statuses(
        self,
        pages: Iterator[tuple[Bucket, list[Row]]],
        buckets: Sequence[Bucket],
        first_ms: int,
        end_ms: int,
    ) -> Iterator[tuple[Bucket, Sequence[BulkRow]]]:
        """Yield rows and the entries of segments in between, each bucket in key order."""
        places = {bucket: place for place, bucket in enumerate(buckets)}
        entries = self._entries(buckets, places, first_ms, end_ms)
        first = next(entries, None)
        if first is None:
            for bucket, page in pages:
                yield bucket, list(map(_status_row, page))
            return
        rows = ((places[bucket], *row) for bucket, page in pages for row in page)
        standing = merged(rows, chain([first], entries), _place_and_key_of)
        for place, of_bucket in groupby(standing, itemgetter(0)):
            while page := [_status_row(row[1:]) for row in islice(of_bucket, _PAGE_ROWS)]:
                yield buckets[place], page

    def _entries(
        self, buckets: Sequence[Bucket], places: Mapping[Bucket, int], first_ms: int, end_ms: int
    ) -> Iterator[Row]:
        """Yield the entries of all segments, each after the index of its bucket."""
        runs = Runs(buckets, _RUN_BUCKETS_MAX)
        pages = self._pages(self._scan_segments, runs, first_ms, end_ms - 1)
        segments = ((bucket, segment) for bucket, page in pages for segment in page)
        for bucket, of_bucket in groupby(segments, itemgetter(0)):
            place = places[bucket]
            for row in in_key_order(
                ((segment[0], entries_in(segment)) for _, segment in of_bucket), key_of
            ):
                if first_ms <= row[0] < end_ms:
                    yield (place, *row)


class Runs:
    """Buckets grouped for statements: each gets consecutive ones of one partition.

    Small buckets are read many at a time, because a request costs more than a few rows; large ones
    are read alone, at their replicas. The pages show their size.
    """

    def __init__(self, buckets: Sequence[Bucket], size: int = _RUN_BUCKETS_FIRST) -> None:
        self._buckets = buckets
        self._size = size

    def __iter__(self) -> Iterator[Sequence[Bucket]]:
        start = 0
        while start < len(self._buckets):
            end = start + 1
            while end < min(start + self._size, len(self._buckets)) and _follows(
                self._buckets[end - 1], self._buckets[end]
            ):
                end += 1
            yield self._buckets[start:end]
            start = end

    def learn(self, buckets: int, rows: int) -> None:
        """Update the estimated size from a page: rows of ``buckets`` buckets."""
        fitting = _RUN_PAGES * _PAGE_ROWS * buckets // max(rows, 1)
        self._size = max(1, min(_RUN_BUCKETS_MAX, fitting, 2 * self._size))


def _selected_in_rows(table: BulkTable) -> str:
    """Return the selected columns of a bucket's row, times as numbers; ``detail`` is unfolded
    later.
    """
    stored_as = _stored_as(table, COLUMNS[table])
    times = {stored for name, stored in stored_as.items() if name.endswith("_ms")} - {"detail"}
    return ", ".join(
        f"toUnixTimestamp({each})" if each in times else each
        for each in dict.fromkeys(stored_as.values())
    )


def _stored_as(table: BulkTable, columns: Collection[str]) -> dict[str, str]:
    """Return the selected expressions for these columns."""
    names = {**_STORED_AS, "write_time": _WRITTEN_WITH[table]}
    return {name: names.get(name, name) for name in columns}


def _follows(first: Bucket, second: Bucket) -> bool:
    return first.partition == second.partition and first.hour_ms < second.hour_ms


def _outside(
    columns: Mapping[str, Sequence[Any]], buckets: Collection[Row]
) -> Mapping[str, Sequence[Any]] | None:
    """Return the rows of other buckets than these; None if there are none."""
    if not buckets:
        return columns
    places = zip(columns["partition_id"], columns["scheduled_time"], strict=True)
    kept = [(owner, hour_of(time_ms)) not in buckets for owner, time_ms in places]
    if all(kept):
        return columns
    if not any(kept):
        return None
    return {name: list(compress(values, kept)) for name, values in columns.items()}


def _status_row(row: tuple[Any, ...]) -> BulkRow:
    return (*row[:_DETAIL], *_unfold(row[_DETAIL]), row[_DETAIL + 1])


def _unfolded(details: Sequence[str | None]) -> dict[str, Sequence[object]]:
    """Return the columns that a column of details contains."""
    columns = zip(*map(_unfold, details), strict=True)
    return dict(zip(("moved_to_ms", "for_good", "reason"), columns, strict=True))


def _unfold(text: str | None) -> tuple[int | None, bool, str | None]:
    """Return the new time of a moved task, True if it moved for good, and the reason."""
    if not text:
        return None, False, None
    detail = msgspec.json.decode(text)
    return detail.get("moved_to_ms"), detail.get("for_good", False), detail.get("reason")
