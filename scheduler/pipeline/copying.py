"""Writes the rows of a DataFrame into the stores of an installation that no node works on.

Decides how rows become batches, and their write times: above every owner of the old installation,
below every owner of the new one. Writing the same rows again changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.columns import stored_columns_of
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITIONS,
    OUTCOMES,
    definitions_of,
    outcomes_of,
)
from hourhand.scheduler.ports.bulk import COLUMNS, BulkTable
from hourhand.scheduler.runtime.answers import JOB_S, answered

_IN_FLIGHT_MAX = 64
_ATTEMPT_SHIFT = 32
"""The write times of one Spark task: 2^32 for each of its attempts, in order."""


class Destination(NamedTuple):
    """The target of rows; pickled to the workers."""

    options: Options
    epochs: Mapping[int, int]
    """The job's own owner epoch of each partition."""

    def write_time(self, partition: int, number: int) -> int:
        """Return a write time of the job in a partition; other content needs another ``number``."""
        epoch = self.epochs.get(partition) or max(self.epochs.values())
        return (epoch << EPOCH_SHIFT) | number


def write_rows(rows: DataFrame, table: str, destination: Destination) -> int:
    """Write all rows of a table and return their number."""
    settings = destination.options.settings()
    if settings.store == "embedded":
        # One file, one writer at a time: a second one would only wait.
        rows = rows.coalesce(1)
    written = rows.mapInArrow(partial(_write_batches, destination, table), "rows bigint")
    # One sum for each Spark task: a further step of Spark might be run twice.
    return sum(row.rows for row in written.collect())


def attempt_number() -> int:
    """Return a number above those of earlier attempts of this Spark task."""
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    return (attempt + 1) << _ATTEMPT_SHIFT


def _write_batches(
    destination: Destination, table: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rows = 0
    with closing(wiring.open_stores(destination.options.settings())) as stores:
        for batch in batches:
            _wait_all(_WRITERS[table](stores, destination, batch))
            rows += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


_Write = Callable[[Stores, Destination, pa.RecordBatch], Iterable["Future[None]"]]


def _write_tasks(
    stores: Stores, destination: Destination, batch: pa.RecordBatch
) -> Iterator["Future[None]"]:
    for owner, rows in _by_owner(BulkTable.TASKS, batch):
        tasks = [StoredTask(TaskKey(*row[:3]), row[3].encode(), row[4]) for row in rows]
        yield stores.schedule.insert_tasks(owner, tasks, destination.write_time(owner, 1))


def _write_statuses(
    stores: Stores, destination: Destination, batch: pa.RecordBatch
) -> Iterator["Future[None]"]:
    for owner, rows in _by_owner(BulkTable.STATUSES, batch):
        completions = [
            Completion(TaskKey(*row[:3]), CompletionResult(row[3]), *row[4:11]) for row in rows
        ]
        at = destination.write_time(owner, 1)
        yield stores.status.insert_completions(owner, completions, at)


def _write_attempts(
    stores: Stores, destination: Destination, batch: pa.RecordBatch
) -> Iterator["Future[None]"]:
    for owner, rows in _by_owner(BulkTable.ATTEMPTS, batch):
        attempts = [
            AttemptRecord(TaskKey(*row[:3]), row[3], AttemptResult(row[4]), *row[5:14])
            for row in rows
        ]
        yield stores.status.insert_attempts(owner, attempts, destination.write_time(owner, 1))


def _write_definitions(
    stores: Stores, _destination: Destination, batch: pa.RecordBatch
) -> Iterator["Future[None]"]:
    """Write definitions; their write time is their own offset."""
    now_ms = wiring.open_clock().now_ms()
    by_owner = defaultdict(list)
    for owner, definition in definitions_of(batch):
        by_owner[owner].append(definition)
    for owner, definitions in by_owner.items():
        yield stores.definitions.save(owner, definitions, now_ms)


def _write_outcomes(
    stores: Stores, destination: Destination, batch: pa.RecordBatch
) -> Iterator["Future[None]"]:
    for partition, offset, outcome in outcomes_of(batch):
        at = destination.write_time(partition, 1)
        yield stores.ownership.insert_outcome(partition, offset, outcome, at)


_WRITERS: dict[str, _Write] = {
    BulkTable.TASKS.value: _write_tasks,
    BulkTable.STATUSES.value: _write_statuses,
    BulkTable.ATTEMPTS.value: _write_attempts,
    DEFINITIONS: _write_definitions,
    OUTCOMES: _write_outcomes,
}


def _by_owner(
    table: BulkTable, batch: pa.RecordBatch
) -> Iterator[tuple[int, Sequence[tuple[Any, ...]]]]:
    """Return a batch's rows in the port's form, by partition."""
    columns = []
    for column in stored_columns_of(table.value)[2:]:
        values = batch.column(column.name)
        if pa.types.is_timestamp(values.type):
            numbers = values.cast(pa.int64()).to_pylist()
            columns.append([None if each is None else each // 1_000 for each in numbers])
        else:
            columns.append(values.to_pylist())
    assert len(columns) == len(COLUMNS[table]), "a table's columns are the port's"
    by_owner = defaultdict(list)
    owners = batch.column("partition").to_pylist()
    for owner, row in zip(owners, zip(*columns, strict=True), strict=True):
        by_owner[owner].append(row)
    return iter(by_owner.items())


def _wait_all(writes: Iterable["Future[None]"]) -> None:
    """Wait for writes, some of which are under way at a time."""
    in_flight: list[Future[None]] = []
    for each in writes:
        in_flight.append(each)
        if len(in_flight) >= _IN_FLIGHT_MAX:
            answered(in_flight.pop(0), JOB_S)
    for each in in_flight:
        answered(each, JOB_S)
