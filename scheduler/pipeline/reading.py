"""Reads a table as Spark partitions, each of one or several buckets.

Decides from Spark's filters which buckets are opened, and how they are divided among tasks. Spark
evaluates every filter once more, so a selection may be too wide, and must not be too narrow. The
driver holds a number for each bucket, and nothing for a row.
"""

import gc
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.pipeline.columns import (
    BucketCount,
    arrow_schema_of,
    batch_of,
    batch_of_columns,
    stored_names,
)
from hourhand.scheduler.pipeline.options import STATES, Options
from hourhand.scheduler.pipeline.states import OPEN_STATES, state_rows
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkRow, BulkStore, BulkTable
from hourhand.scheduler.runtime.answers import JOB_S, answered

_TASKS_WANTED = 32
"""Number of Spark tasks by default."""
_BUCKETS_PER_TASK_MAX = 500
_BATCH_ROWS = 4_000
_BATCH_BYTES = 8 * 2**20
_PIECE_ROWS = 500

Page = tuple[Bucket, Sequence[BulkRow]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


EVER = (INSTANT_MIN_MS, INSTANT_MAX_MS + 1)
"""The range of all possible scheduled times."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Bounds of a query; None is not a bound."""

    first_ms: int = EVER[0]
    end_ms: int = EVER[1]
    """Scheduled times are in [first, end)."""
    partitions: frozenset[int] | None = None
    ordering_ids: frozenset[str] | None = None
    states: frozenset[str] | None = None
    """Values of ``state`` or ``result``, whichever the table has."""

    def partitions_of(self, count: int) -> frozenset[int]:
        """Return the partitions to read, of ``count``."""
        wanted = frozenset(range(count))
        if self.partitions is not None:
            wanted &= self.partitions
        if self.ordering_ids is not None:
            wanted &= {partition_of(each, count) for each in self.ordering_ids if each}
        return wanted

    def is_whole(self) -> bool:
        """True if a row of any bucket can match."""
        unnamed = self.partitions is None and self.ordering_ids is None
        return unnamed and (self.first_ms, self.end_ms) == EVER

    def is_empty(self) -> bool:
        """True if no row can match."""
        named = (self.partitions, self.ordering_ids, self.states)
        return self.first_ms >= self.end_ms or frozenset() in named

    def narrowed(self, wanted: Filter) -> "Selection":
        """Return the selection with one more filter; an unknown kind of filter changes nothing."""
        path: tuple[str, ...] = getattr(wanted, "attribute", ())
        if len(path) != 1:
            return self
        match path[0]:
            case "scheduled_time":
                return self._within(*_span(wanted, 1))
            case "hour":
                return self._within(*_span(wanted, HOUR_MS))
            case "partition":
                return replace(self, partitions=_both(self.partitions, _values(wanted, int)))
            case "ordering_id":
                return replace(self, ordering_ids=_both(self.ordering_ids, _values(wanted, str)))
            case "state" | "result":
                return replace(self, states=_both(self.states, _values(wanted, str)))
            case _:
                return self

    def _within(self, first_ms: int, end_ms: int) -> "Selection":
        return replace(self, first_ms=max(self.first_ms, first_ms), end_ms=min(self.end_ms, end_ms))


def selection_of(filters: Iterable[Filter]) -> Selection:
    """Return the selection of filters that must all hold."""
    selection = Selection()
    for each in filters:
        selection = selection.narrowed(each)
    return selection


def _span(wanted: Filter, step_ms: int) -> tuple[int, int]:
    """Return the scheduled times [first, end) of a bound on a column whose values stand for
    ``step_ms`` each: 1 for the time itself, an hour for the bucket.
    """
    if isinstance(wanted, In):
        if not wanted.value or not all(isinstance(value, datetime) for value in wanted.value):
            return EVER
        steps = [_step(value, step_ms) for value in wanted.value]
        return min(steps), max(steps) + step_ms
    value = getattr(wanted, "value", None)
    if not isinstance(value, datetime):
        return EVER
    start_ms = _step(value, step_ms)
    match wanted:
        case EqualTo() | EqualNullSafe():
            return start_ms, start_ms + step_ms
        case GreaterThan() | GreaterThanOrEqual():
            # A bound within a step may be rounded down, never up.
            return start_ms, EVER[1]
        case LessThan() if start_ms * 1000 == _micros(value):
            return EVER[0], start_ms
        case LessThan() | LessThanOrEqual():
            return EVER[0], start_ms + step_ms
        case _:
            return EVER


def _step(value: datetime, step_ms: int) -> int:
    """Return the start of a moment's step."""
    time_ms = _micros(value) // 1000
    return hour_of(time_ms) if step_ms == HOUR_MS else time_ms


def _micros(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _values(wanted: Filter, kind: type) -> frozenset[Any] | None:
    """Return the values that this filter allows for a column; None if it does not limit them."""
    match wanted:
        case EqualTo(value=value) | EqualNullSafe(value=value) if isinstance(value, kind):
            return frozenset([value])
        case In(value=values) if all(isinstance(value, kind) for value in values):
            return frozenset(values)
        case _:
            return None


def _both(known: frozenset[Any] | None, more: frozenset[Any] | None) -> frozenset[Any] | None:
    if known is None or more is None:
        return known if more is None else more
    return known & more


class BucketsPartition(InputPartition):
    """The buckets that one Spark task reads, in order."""

    def __init__(self, buckets: Sequence[Bucket]) -> None:
        super().__init__(tuple(tuple(bucket) for bucket in buckets))

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets of this part."""
        return [Bucket(*each) for each in self.value]


class WholePartition(InputPartition):
    """A part of a whole table."""

    def __init__(self, part: int, parts: int) -> None:
        super().__init__((part, parts))


class HourhandReader(DataSourceReader):
    """One read; pickled to the workers with its filters."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._selection = Selection()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters for the selection; Spark evaluates every filter anyway."""
        self._selection = selection_of(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Find the buckets that may match and divide them among tasks."""
        if self._selection.is_empty():
            return [BucketsPartition([])]
        settings = self._options.settings()
        with closing(wiring.open_bulk(settings)) as bulk:
            buckets = self._buckets(bulk, settings)
        asked_for = self._options.buckets_per_task
        size = asked_for or min(-(-len(buckets) // _TASKS_WANTED), _BUCKETS_PER_TASK_MAX)
        if buckets and not asked_for and self._is_whole():
            parts = -(-len(buckets) // size)
            return [WholePartition(part, parts) for part in range(parts)]
        return [
            BucketsPartition(buckets[start : start + size])
            for start in range(0, len(buckets), size or 1)
        ] or [BucketsPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some buckets, or of a part of the table, as Arrow batches."""
        if isinstance(partition, WholePartition):
            yield from self._read_part(*partition.value)
            return
        assert isinstance(partition, BucketsPartition), "dealt out by this class"
        buckets, rows = partition.buckets, 0
        if buckets:
            for batch in self._batches(self._pages(opened_bulk(self._options), buckets)):
                rows += batch.num_rows
                yield batch
        self._note(len(buckets), rows)

    def _is_whole(self) -> bool:
        """True if every bucket is read by itself; a state is made of two tables' rows."""
        return self._selection.is_whole() and self._options.table != STATES

    def _read_part(self, part: int, parts: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema_of(self._options.table, self._options.columns)
        bulk, table = opened_bulk(self._options), BulkTable(self._options.table)
        stored, counted = stored_names(table), self._options.metrics is not None
        bucket = (stored["partition"], stored["hour"])
        asked = {*(stored[name] for name in schema.names), *(bucket if counted else ())}
        buckets, rows = BucketCount(), 0
        for page in bulk.scan_part(table, part, parts, sorted(asked)):
            columns = {name: page[stored[name]] for name in schema.names}
            batch = batch_of_columns(schema, columns, stored=self._options.stored)
            rows += batch.num_rows
            if counted:
                buckets.add(*(page[name] for name in bucket))
            yield batch
        self._note(buckets.count, rows)

    def _batches(self, pages: Iterable[Page]) -> Iterator[pa.RecordBatch]:
        """Combine pages into batches that are large enough to be efficient and fit the memory."""
        table, stored = self._options.table, self._options.stored
        schema = arrow_schema_of(table, self._options.columns)
        held: list[Page] = []
        rows = size_bytes = 0
        for bucket, page in pages:
            held.append((bucket, page))
            rows += len(page)
            size_bytes += sum(map(_text_bytes, page))
            if rows >= _BATCH_ROWS or size_bytes >= _BATCH_BYTES:
                yield batch_of(table, schema, held, stored=stored)
                held, rows, size_bytes = [], 0, 0
        if held:
            yield batch_of(table, schema, held, stored=stored)

    def _note(self, buckets: int, rows: int) -> None:
        _freeze_modules()
        table = self._options.table
        note_metrics(self._options, {"table": table, "buckets": buckets, "rows": rows})

    def _buckets(self, bulk: BulkStore, settings: Settings) -> list[Bucket]:
        wanted = self._selection
        count = bulk.partition_count() or settings.topic.partitions
        partitions = wanted.partitions_of(count)
        tables = (
            [BulkTable.TASKS, BulkTable.STATUSES]
            if self._options.table == STATES
            else [BulkTable(self._options.table)]
        )
        only_open = wanted.states is not None and wanted.states <= OPEN_STATES
        if self._options.table == STATES and only_open:
            tables = [BulkTable.TASKS]
        found = {
            bucket
            for table in tables
            for bucket in bulk.list_buckets(table, partitions, wanted.first_ms, wanted.end_ms)
        }
        if self._options.table == STATES and only_open:
            floors = _open_floors(settings, partitions)
            found = {b for b in found if b.hour_ms + HOUR_MS > floors[b.partition]}
        return sorted(found)

    def _pages(self, bulk: BulkStore, buckets: Sequence[Bucket]) -> Iterator[Page]:
        first_ms, end_ms = self._selection.first_ms, self._selection.end_ms
        if self._options.table == STATES:
            pages: Iterable[Page] = (
                (bucket, page)
                for bucket in buckets
                for page in _pieces(state_rows(bulk, bucket, first_ms, end_ms))
            )
            state: int | None = 3
        else:
            table = BulkTable(self._options.table)
            pages = bulk.scan(table, buckets, first_ms, end_ms)
            state = COLUMNS[table].index("result") if table is not BulkTable.TASKS else None
        ids, states = self._selection.ordering_ids, self._selection.states
        for bucket, rows in pages:
            kept = rows
            if ids is not None:
                kept = [row for row in kept if row[1] in ids]
            if states is not None and state is not None:
                kept = [row for row in kept if row[state] in states]
            if kept:
                yield bucket, kept


def _pieces(rows: Iterator[BulkRow]) -> Iterator[list[BulkRow]]:
    while piece := list(islice(rows, _PIECE_ROWS)):
        yield piece


def _open_floors(settings: Settings, partitions: Iterable[int]) -> dict[int, float]:
    """Return, for each partition, the time before which no key is open."""
    claims = read_claims(settings, partitions)
    return {
        each: float("-inf") if claim is None else claim.watermark.first_open_ms
        for each, claim in claims.items()
    }


def read_claims(settings: Settings, partitions: Iterable[int]) -> dict[int, Claim | None]:
    """Return the owner's claim of each partition; None for one that never had an owner."""
    with closing(wiring.open_stores(settings)) as stores:
        asked = {each: stores.ownership.read_watermark(each) for each in partitions}
        return {each: answered(reading, JOB_S) for each, reading in asked.items()}


@lru_cache(maxsize=1)
def opened_bulk(options: Options) -> BulkStore:
    """Open the stores once for each worker process: Spark uses one for many tasks."""
    return wiring.open_bulk(options.settings())


@lru_cache(maxsize=1)
def _freeze_modules() -> None:
    """Keep this worker's collector from looking at imported modules.

    After every task Spark runs Python's collector over all objects, some hundred thousand of
    modules included, which took as long as reading. Frozen objects are skipped.
    """
    gc.collect()
    gc.freeze()


def _text_bytes(row: Sequence[Any]) -> int:
    """Return the size of the one column that may be long in every row: a task's data."""
    return len(row[3]) if isinstance(row[3], str) else 0


def note_metrics(options: Options, counts: dict[str, Any]) -> None:
    """Write the counts of a Spark task to the metrics folder, if there is one."""
    if options.metrics is not None:
        folder = Path(options.metrics)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{uuid.uuid4().hex}.json").write_text(json.dumps(counts))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the counts that the tasks of a read or write left in their metrics folder."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
