"""``format("hourhand")``: the tables of an installation as a Spark data source.

Decides the options of a query, and the columns of rows that can be written as tasks: each Spark
task writes through a sink of its own, which makes tasks durable. Rows of one bucket that arrive
together become one batch, so a writer wants them sorted (``transform_load.by_bucket``).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    IntegerType,
    IntegralType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask, SettingsInvalid
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.pipeline.columns import WRITTEN, schema_of
from hourhand.scheduler.pipeline.options import Options, parse_options
from hourhand.scheduler.pipeline.reading import HourhandReader, note_metrics
from hourhand.scheduler.pipeline.sink import (
    NO_OFFSET,
    Looked,
    SinkCounts,
    SinkPorts,
    TaskSink,
    bulk_write_time,
)
from hourhand.scheduler.pipeline.transform_load import times_of
from hourhand.scheduler.pipeline.validation import BESIDE, LoadRules, plain_tasks, validate
from hourhand.scheduler.ports.bulk import BulkTable
from hourhand.scheduler.runtime.pause import pause

FORMAT = "hourhand"
_CHUNK_ROWS = 5_000
_PIECES_WRITTEN_MAX = 2


class _SinkMessage(WriterCommitMessage):
    """The counts of one Spark task."""

    def __init__(self, counts: SinkCounts) -> None:
        self.counts = tuple(counts)


def require_columns(schema: StructType) -> None:
    """Raise InvalidTask if columns are missing, or have a type that tasks cannot have."""
    allowed: dict[str, tuple[type, ...]] = {
        "scheduled_time": (TimestampType,),
        "ordering_id": (StringType,),
        "uniqueness_key": (StringType, IntegerType, LongType),
        "data": (StringType,),
    }
    further: Mapping[str, tuple[type, ...]] = {
        "kind": (StringType,),
        "priority": (IntegralType,),
        "seal": (StringType,),
        "expires": (StringType,),
        "links": (StringType,),
    }
    allowed |= {name: types for name, types in further.items() if name in schema.names}
    missing = [each.name for each in WRITTEN if each.name not in schema.names]
    if missing:
        raise InvalidTask(
            f"columns missing: {', '.join(missing)}; the DataFrame has"
            f" {', '.join(schema.names)}: rename them with withColumnRenamed"
        )
    for name, types in allowed.items():
        if not isinstance(schema[name].dataType, types):
            hint = (
                ": a time without a zone must be given one first (to_utc_timestamp)"
                if name == "scheduled_time"
                else ""
            )
            raise InvalidTask(
                f"column {name} is {schema[name].dataType.simpleString()},"
                f" {_named(types[0])} is needed{hint}"
            )


def _named(kind: type) -> str:
    return "a whole number" if kind is IntegralType else str(kind().simpleString())


class HourhandWriter(DataSourceArrowWriter):
    """One write; pickled to the workers."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self._options = options
        self._names = list(names)
        self._write_time = bulk_write_time(wiring.open_clock().now_ms())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one Spark task; repeating it changes nothing."""
        settings = self._options.settings()
        counts = SinkCounts()
        rules = LoadRules(
            # The sink decides the partition of a task.
            partition_count=1,
            oldest_ms=INSTANT_MIN_MS,
            record_bytes_max=settings.client.record_bytes_max,
            stored=self._options.stored,
        )
        with opened_sink(settings, self._write_time) as sink:
            for found in self._written(sink, self._pieces(iterator), rules):
                counts += found
        note_metrics(self._options, {"table": "tasks", **counts._asdict()})
        return _SinkMessage(counts)

    def _pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine small batches and cut large ones to the size that a sink takes at once."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            for start in range(0, batch.num_rows, _CHUNK_ROWS):
                held.append(batch.slice(start, _CHUNK_ROWS))
                rows += held[-1].num_rows
                if rows >= _CHUNK_ROWS:
                    yield pa.concat_batches(held).rename_columns(self._names)
                    held, rows = [], 0
        if held:
            yield pa.concat_batches(held).rename_columns(self._names)

    def _written(
        self, sink: TaskSink, pieces: Iterable[pa.RecordBatch], rules: LoadRules
    ) -> Iterator[SinkCounts]:
        """Write pieces, a few at a time: while the store works the next one is prepared."""
        writing: deque[Future[SinkCounts]] = deque()
        with ThreadPoolExecutor(_PIECES_WRITTEN_MAX) as pool:
            for piece in pieces:
                looked = sink.look(tasks_of(piece, rules))
                writing.append(pool.submit(_write_looked, sink, looked))
                if len(writing) >= _PIECES_WRITTEN_MAX:
                    yield writing.popleft().result()
                self._pause(piece.num_rows)
            while writing:
                yield writing.popleft().result()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: each task's rows are already durable and known."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep the written rows: they are correct, and a repetition writes the same."""

    def _pause(self, rows: int) -> None:
        if self._options.rows_per_second is not None:
            pause(rows / self._options.rows_per_second)


def _write_looked(sink: TaskSink, looked: Looked) -> SinkCounts:
    return sink.settle(sink.write_looked(looked))


class opened_sink:  # noqa: N801 - used like a function
    """Opens a sink's ports for the duration of a ``with`` block."""

    def __init__(self, settings: Settings, write_time: int) -> None:
        self._settings = settings
        self._write_time = write_time
        self._opened: list[Any] = []

    def __enter__(self) -> TaskSink:
        settings = self._settings
        try:
            writer = self._keep(wiring.open_writer(settings))
            # The embedded store has one writer at a time, and that is the node.
            direct = settings.store != "embedded"
            clock = wiring.open_clock()
            stores = self._keep(wiring.open_published_stores(settings, clock)) if direct else None
            bulk = self._keep(wiring.open_bulk(settings)) if direct else None
            ports = SinkPorts(
                writer=writer,
                stores=stores,
                begin_partition=bulk.begin_partition if bulk else _never,
                now_ms=clock.now_ms,
                list_buckets=bulk.list_buckets if bulk else None,
            )
            return TaskSink(
                ports,
                write_time=self._write_time,
                record_bytes_max=settings.client.record_bytes_max,
                in_flight_max=settings.client.bulk_in_flight_max,
            )
        except BaseException:
            self._close()
            raise

    def __exit__(self, *_: object) -> None:
        self._close()

    def _keep(self, opened: Any) -> Any:
        self._opened.append(opened)
        return opened

    def _close(self) -> None:
        while self._opened:
            self._opened.pop().close()


def _never(*_: object) -> Any:
    raise AssertionError("an embedded partition is begun by its node")


def tasks_of(batch: pa.RecordBatch, rules: LoadRules) -> list[StoredTask]:
    """Return the tasks of a batch; raises InvalidTask that names the first row which is not a
    task.
    """
    nothing = pa.nulls(batch.num_rows, pa.string())
    columns = (
        batch.column("scheduled_time"),
        batch.column("ordering_id"),
        batch.column("uniqueness_key").cast(pa.string()),
        batch.column("data"),
        *(
            batch.column(name).cast(pa.string()) if name in batch.schema.names else nothing
            for name in BESIDE
        ),
    )
    plain = plain_tasks(rules, *columns)
    if plain is None:
        rows = (times_of(columns[0]), *(each.to_pylist() for each in columns[1:]))
        return [_task(rules, *row) for row in zip(*rows, strict=True)]
    *key, data = (each.to_pylist() for each in plain)
    return list(map(StoredTask, map(TaskKey, *key), data, repeat(NO_OFFSET)))


def _task(rules: LoadRules, *row: Any) -> StoredTask:
    task, reason = validate(rules, *row)
    if task is None:
        raise InvalidTask(
            f"row {shown(row)} is not a task: {reason}; filter such rows out, or use"
            " `hourhand pipeline load`, which puts them aside"
        )
    return task


class HourhandDataSource(DataSource):
    """Tables ``tasks``, ``statuses``, ``attempts`` and ``states``; ``tasks`` can be written."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the table that option ``table`` names, or of its ``columns``."""
        return schema_of(self._options.table, self._options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; a schema of the caller's is refused."""
        if schema.names != self.schema().names:
            raise SettingsInvalid(
                f"table {self._options.table} has a schema of its own: leave out .schema(…) and"
                " name what you need in option columns"
            )
        return HourhandReader(self._options)

    def writer(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's contract
    ) -> DataSourceWriter:
        """Return the writer of tasks; tables are never overwritten as a whole."""
        if self._options.table != BulkTable.TASKS.value:
            raise SettingsInvalid(
                f"table {self._options.table} is only read: what ran is written by the nodes;"
                " write to table tasks"
            )
        if overwrite:
            raise SettingsInvalid(
                'mode("overwrite") would delete every waiting task: write with mode("append"),'
                " which replaces tasks of the same key"
            )
        require_columns(schema)
        return HourhandWriter(self._options, schema.names)
