"""The columns of each table in Spark: names, types, and meanings.

Decides how rows of the store become Arrow batches. Times are timestamps in UTC, whole milliseconds;
no column is a number ``_ms``, so nobody has to convert.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hourhand.actors.model.task.expiry import HOLDING_KIND, carried_expiry
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import MEMBER as KIND_MEMBER
from hourhand.actors.model.task.kind import carried_kind
from hourhand.actors.model.task.links import group_id_of, read_links
from hourhand.actors.model.task.links_text import HOLDING_KIND as LINKED_KIND
from hourhand.actors.model.task.priority import MEMBER as PRIORITY_MEMBER
from hourhand.actors.model.task.priority import carried_links, carried_priority
from hourhand.actors.model.task.row_text import data_of
from hourhand.actors.model.task.sealed import MEMBER as SEAL_MEMBER
from hourhand.actors.model.task.sealed import split_envelope
from hourhand.actors.model.task.trace import RESERVED
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.pipeline.options import STATES
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkTable


class Column(NamedTuple):
    """One column: its type in Spark and in Arrow, and its meaning."""

    name: str
    spark: DataType
    arrow: pa.DataType
    meaning: str
    nullable: bool = False


_TIME = (TimestampType(), pa.timestamp("us", tz="UTC"))
_TEXT = (StringType(), pa.string())
_INT = (IntegerType(), pa.int32())
_LONG = (LongType(), pa.int64())
_FLAG = (BooleanType(), pa.bool_())

BUCKET = (
    Column("partition", *_INT, "partition of the log that owns the ordering id"),
    Column("hour", *_TIME, "start of the hour the task is due in: the bucket"),
)
KEY = (
    Column("scheduled_time", *_TIME, "due time of the task; part of its key"),
    Column("ordering_id", *_TEXT, "id of tasks that run one at a time, in order; part of the key"),
    Column("uniqueness_key", *_TEXT, "distinguishes tasks of one id and time; part of the key"),
)
_DATA = Column("data", *_TEXT, "the task's data, a JSON object")
_OFFSET = Column(
    "log_offset",
    *_LONG,
    "offset of the record, with its era above 2^43; -1: bulk-loaded; lower: of another log",
)
_WRITE_TIME = Column(
    "write_time", *_LONG, "orders writes of one row: owner epoch * 2^40 + a counter, less: bulk"
)
_STARTED = Column("started", *_TIME, "begin of the attempt that closed the key", nullable=True)
_FINISHED = Column("finished", *_TIME, "time at which the key was closed")
_ATTEMPTS = Column("attempts", *_INT, "highest attempt number given out")
_REASON = Column("reason", *_TEXT, "reason given by the executor or operator", nullable=True)

_TABLES: dict[str, tuple[Column, ...]] = {
    BulkTable.TASKS.value: (_DATA, _OFFSET, _WRITE_TIME),
    BulkTable.STATUSES.value: (
        Column(
            "result",
            *_TEXT,
            "success, failure, dropped, cancelled, moved or reopened; dropped for good: expired",
        ),
        Column("log_offset", *_LONG, "offset of the record that was run, or of the command"),
        _ATTEMPTS,
        _STARTED,
        _FINISHED,
        Column("moved_to", *_TIME, "the new time of a moved task", nullable=True),
        Column(
            "for_good",
            *_FLAG,
            "of a move: no later record reopens it (run-now); of dropped: expired",
        ),
        _REASON,
        _WRITE_TIME,
    ),
    BulkTable.ATTEMPTS.value: (
        Column("attempt", *_INT, "number of the attempt, 1 for the first"),
        Column(
            "result",
            *_TEXT,
            "started, success, failure, retry, dropped or timeout; as retry: snoozed",
        ),
        Column("started", *_TIME, "time at which user code was called"),
        Column(
            "finished", *_TIME, "end of the attempt; null: runs, or its process died", nullable=True
        ),
        Column("next_attempt", *_TIME, "earliest start of the next attempt", nullable=True),
        Column("used", *_INT, "attempts counted against the policy's maximum"),
        Column("suspect", *_FLAG, "the attempt before it may have killed its process"),
        Column(
            "error_class",
            *_TEXT,
            "class of the exception; hourhand.snoozed: it is not over",
            nullable=True,
        ),
        Column("error_message", *_TEXT, "its message; how often it was snoozed", nullable=True),
        Column("error_stack", *_TEXT, "its trace", nullable=True),
        Column("fence", *_LONG, "owner epoch of the node that ran it"),
        _WRITE_TIME,
    ),
    STATES: (
        Column(
            "state",
            *_TEXT,
            "pending, running, retrying, snoozed, blocked, expired, or as result of statuses",
        ),
        _DATA._replace(nullable=True),
        _OFFSET._replace(nullable=True),
        _ATTEMPTS,
        _STARTED,
        _FINISHED._replace(nullable=True),
        _REASON,
        Column("snoozed", *_INT, "times that its last attempt was put off"),
    ),
}

_KIND = Column("kind", *_TEXT, "kind, which chooses the executor; null: the default", nullable=True)
_PRIORITY = Column("priority", *_INT, "the task's own priority; null: its kind's", nullable=True)
_EXPIRES = Column(
    "expires",
    *_TEXT,
    "its own expiry, an instant or a duration from scheduled_time; null: its kind's",
    nullable=True,
)
_LINKS = Column(
    "links",
    *_TEXT,
    "the task that follows it, with its whole record, and the ends of those before it, as JSON",
    nullable=True,
)
_FOLLOWER = Column("follower", *_TEXT, "key of the task that follows it", nullable=True)
_GROUP_ID = Column(
    "group_id", *_TEXT, "the group that counts its end; its follower is a report", nullable=True
)
_SEAL = Column(
    "seal",
    *_TEXT,
    "the envelope of sealed data, whose members in the clear are in data; null: it is plain",
    nullable=True,
)
_RESERVED = RESERVED.decode()
_HELD = f'"{HOLDING_KIND}"'
_OPENS_KIND, _OPENS_PRIORITY = f'"{KIND_MEMBER}":', f'"{PRIORITY_MEMBER}":'
_OPENS_SEALED = f'{{"{SEAL_MEMBER}":'
_LINKED = f'"{LINKED_KIND}"'
_COMPUTED = (_KIND, _PRIORITY, _SEAL, _EXPIRES, _LINKS, _FOLLOWER, _GROUP_ID)
_DERIVED: dict[str, tuple[Column, ...]] = {
    BulkTable.TASKS.value: _COMPUTED,
    STATES: _COMPUTED,
}
"""Columns that no store has: they are computed from others at reading."""

WRITTEN = (*KEY, _DATA)
"""Columns that a DataFrame of tasks needs; ``kind``, ``priority``, ``seal``, ``expires`` and
``links`` are optional, others are ignored."""


def columns_of(table: str, chosen: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Return a table's columns in order, or the chosen ones; SettingsInvalid for an unknown one."""
    columns = (*stored_columns_of(table), *_DERIVED.get(table, ()))
    if chosen is None:
        return columns
    names = [each.name for each in columns]
    if unknown := [name for name in chosen if name not in names]:
        raise SettingsInvalid(
            f"option columns: table {table} has no column {shown(unknown[0])}: choose of"
            f" {', '.join(names)}"
        )
    return tuple(each for each in columns if each.name in chosen)


def stored_columns_of(table: str) -> tuple[Column, ...]:
    """Return a table's columns without the computed ones."""
    return (*BUCKET, *KEY, *_TABLES[table])


def schema_of(table: str, chosen: Sequence[str] | None = None) -> StructType:
    """Return the schema of a table, or of columns of it; a column's comment has its meaning."""
    return StructType(
        [
            StructField(each.name, each.spark, each.nullable, {"comment": each.meaning})
            for each in columns_of(table, chosen)
        ]
    )


def arrow_schema_of(table: str, chosen: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of the batches of a table, or of columns of it."""
    columns = columns_of(table, chosen)
    return pa.schema([pa.field(each.name, each.arrow, each.nullable) for each in columns])


def stored_names(table: BulkTable) -> dict[str, str]:
    """Return the store's name of each column, or of the column that it is computed from."""
    names = [each.name for each in stored_columns_of(table.value)[len(BUCKET) :]]
    others = dict(zip(names, COLUMNS[table], strict=True))
    derived = {each.name: others["data"] for each in _DERIVED.get(table.value, ())}
    return {"partition": "partition", "hour": COLUMNS[table][0], **others, **derived}


def batch_of_columns(
    schema: pa.Schema, columns: Mapping[str, Sequence[Any]], *, stored: bool = False
) -> pa.RecordBatch:
    """Turn columns by name, times in milliseconds, into an Arrow batch.

    ``hour`` may be any time in its hour; ``data`` and the columns computed from it get the text of
    rows. With ``stored`` the data stays in that form.
    """
    arrays = [_array_of(field, columns[field.name], stored=stored) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array_of(field: pa.Field, values: Sequence[Any], *, stored: bool) -> pa.Array:
    if field.name == _DATA.name and not stored:
        values = data_of_texts(values)
    if field.name in _COMPUTE:
        return pa.array(_COMPUTE[field.name](values), field.type)
    if not pa.types.is_timestamp(field.type):
        return pa.array(values, field.type)
    millis = pa.array(values, pa.int64())
    return instants_of(hours_of(millis) if field.name == "hour" else millis)


def data_of_texts(texts: Sequence[str | None]) -> list[str | None]:
    """Return the data in the text of each row; for sealed data the members that are not sealed."""
    return [
        text if text is None or _RESERVED not in text else data_of(text.encode()).decode()
        for text in texts
    ]


def seals_of(texts: Sequence[str | None]) -> list[bytes | None]:
    """Return the envelope in the text of each row; None for plain data."""
    return [
        split_envelope(text.encode())[0]
        if text is not None and text.startswith(_OPENS_SEALED)
        else None
        for text in texts
    ]


def expiries_of(texts: Sequence[str | None]) -> list[str | None]:
    """Return the text of the expiry in the text of each row; None if it has none."""
    return [
        None if text is None or _HELD not in text else _expiry_of(text.encode()) for text in texts
    ]


def _expiry_of(text: bytes) -> str | None:
    expiry = carried_expiry(text)
    return None if expiry is None else str(expiry)


def kinds_of(data: Sequence[str | None]) -> list[str | None]:
    """Return the kind in each task's data; None if it has none."""
    return [
        None
        if text is None or _OPENS_KIND not in text
        # Behind an expiry stands a kind that is not the task's.
        else _kind_of(text if _HELD in text else text[text.index(_OPENS_KIND) :])
        for text in data
    ]


def priorities_of(data: Sequence[str | None]) -> list[int | None]:
    """Return the priority in each task's data; None if it has none."""
    return [
        None
        if text is None or _OPENS_PRIORITY not in text
        else _priority_of(text if _HELD in text else text[text.index(_OPENS_PRIORITY) :])
        for text in data
    ]


@lru_cache(maxsize=1_000)
def _priority_of(tail: str) -> int | None:
    # The text of a single member lacks the comma before it, which makes no difference.
    return carried_priority(tail.encode())


@lru_cache(maxsize=1_000)
def _kind_of(tail: str) -> str | None:
    # Most tasks have one of few kinds and no trace, so their data ends alike.
    return carried_kind(tail.encode())


def links_of(texts: Sequence[str | None]) -> list[str | None]:
    """Return the links in the text of each row, as JSON; None if it has none."""
    return [
        None if text is None or _LINKED not in text else _links_of(text.encode()) for text in texts
    ]


def _links_of(text: bytes) -> str | None:
    links = carried_links(text)
    return None if links is None else links.decode()


def followers_of(texts: Sequence[str | None]) -> list[str | None]:
    """Return the key of the follower in the text of each row; None if it has none."""
    return [None if key is None else str(key) for key in _follower_keys(texts)]


def group_ids_of(texts: Sequence[str | None]) -> list[str | None]:
    """Return the id of the group that the task of each row is in; None if it is in none."""
    return list(map(group_id_of, _follower_keys(texts)))


def _follower_keys(texts: Sequence[str | None]) -> Iterator[TaskKey | None]:
    for links in links_of(texts):
        yield None if links is None else read_links(links.encode()).follower


_COMPUTE: Mapping[str, Callable[[Sequence[str | None]], list[Any]]] = {
    _KIND.name: kinds_of,
    _PRIORITY.name: priorities_of,
    _SEAL.name: seals_of,
    _EXPIRES.name: expiries_of,
    _LINKS.name: links_of,
    _FOLLOWER.name: followers_of,
    _GROUP_ID.name: group_ids_of,
}
"""Functions that make computed columns of the texts of rows."""


class BucketCount:
    """Counts the buckets in pages whose rows are sorted by bucket."""

    def __init__(self) -> None:
        self.count = 0
        self._last: object = None

    def add(self, partitions: Sequence[object], times_ms: Sequence[object]) -> None:
        """Count the buckets of the next rows, without one that began before."""
        hours = hours_of(pa.array(times_ms, pa.int64()))
        table = pa.table({"partition": pa.array(partitions, pa.int32()), "hour": hours})
        first, last = table.slice(0, 1).to_pylist(), table.slice(len(table) - 1).to_pylist()
        self.count += len(table.group_by(table.column_names).aggregate([])) - (first == self._last)
        self._last = last


def batch_of(
    table: str,
    schema: pa.Schema,
    pages: Sequence[tuple[Bucket, Sequence[Sequence[Any]]]],
    *,
    stored: bool = False,
) -> pa.RecordBatch:
    """Return an Arrow batch of a table's rows, in the order of its columns after the bucket's."""
    rows = [row for _, page in pages for row in page]
    of_buckets = [[bucket[part] for bucket, page in pages for _ in page] for part in (0, 1)]
    names = [each.name for each in stored_columns_of(table)]
    columns = dict(zip(names, [*of_buckets, *zip(*rows, strict=True)], strict=True))
    columns.update({each.name: columns["data"] for each in _DERIVED.get(table, ())})
    return batch_of_columns(schema, columns, stored=stored)


def hours_of(millis: pa.Array) -> pa.Array:
    """Return the hours of times; Arrow divides towards zero, so times before 1970 are corrected."""
    towards_zero = pc.multiply(pc.divide(millis, HOUR_MS), HOUR_MS)
    below = pc.if_else(pc.less(millis, towards_zero), HOUR_MS, 0)
    return pc.subtract(towards_zero, below)


def instants_of(millis: pa.Array) -> pa.Array:
    """Return milliseconds as the timestamps of a table's columns."""
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(_TIME[1])


def described(table: str) -> Mapping[str, str]:
    """Return the meaning of each column of a table, by name."""
    return {each.name: each.meaning for each in columns_of(table)}


assert all(len(_TABLES[table.value]) + len(KEY) == len(COLUMNS[table]) for table in BulkTable), (
    "a table's rows and columns agree"
)
