"""The whole content of an installation, as Arrow tables: the three of tasks, and the rest.

Decides the columns of tables that only a move of everything reads: definitions, outcomes of
commands, owners, and records that no node has read; and how their rows become values again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from hourhand.actors.model.operations.ownership import Claim, Straggler, Watermark
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.scheduler.pipeline.columns import stored_columns_of
from hourhand.scheduler.ports.bulk import BulkTable
from hourhand.scheduler.ports.transfer import OutcomeRow

DEFINITIONS, OUTCOMES, OWNERS, LOG = "definitions", "outcomes", "owners", "log"
STATE_TABLES = (*(table.value for table in BulkTable), DEFINITIONS, OUTCOMES, OWNERS, LOG)

_TIME = pa.timestamp("us", tz="UTC")
_KEY = [("scheduled_time", _TIME), ("ordering_id", pa.string()), ("uniqueness_key", pa.string())]

DEFINITION_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("id", pa.string()),
        ("log_offset", pa.int64()),
        ("rule", pa.binary()),
        ("next_time", _TIME),
        ("expires", _TIME),
    ]
)
OUTCOME_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("outcome", pa.string()),
        *_KEY,
        *((f"new_{name}", kind) for name, kind in _KEY),
    ]
)
OWNER_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("epoch", pa.int64()),
        ("watermark", _TIME),
        ("loaded_until", _TIME),
        ("next_offset", pa.int64()),
        ("tasks_swept_until", _TIME),
        ("statuses_swept_until", _TIME),
        ("statuses_due_until", _TIME),
        ("statuses_due_at", _TIME),
        ("stragglers", pa.list_(pa.struct([("ordering_id", pa.string()), ("first", _TIME)]))),
    ]
)
LOG_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("recorded_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)


def compared_columns(table: str) -> list[str]:
    """Return the columns by which rows are compared; write times are each installation's own."""
    if table in {each.value for each in BulkTable}:
        return [each.name for each in stored_columns_of(table) if each.name != "write_time"]
    schemas = {DEFINITIONS: DEFINITION_SCHEMA, OUTCOMES: OUTCOME_SCHEMA, LOG: LOG_SCHEMA}
    return list(schemas.get(table, OWNER_SCHEMA).names)


def owner_table(claims: Mapping[int, Claim | None]) -> pa.Table:
    """Return claims as a table of ``OWNER_SCHEMA``."""
    rows = [_owner_row(each, claim) for each, claim in sorted(claims.items()) if claim is not None]
    return pa.Table.from_pylist(rows, schema=OWNER_SCHEMA)


def claims_of(owners: DataFrame, partition_count: int) -> dict[int, Claim | None]:
    """Return the claims in ``owners_frame``'s rows: one for each partition."""
    claims: dict[int, Claim | None] = dict.fromkeys(range(partition_count))
    table = owners.toArrow().cast(OWNER_SCHEMA)
    for row in _millis(table):
        claims[row["partition"]] = _claim(row)
    return claims


def records_of(batch: pa.RecordBatch) -> Iterator[LogRecord]:
    """Yield the records of a batch of ``LOG_SCHEMA``."""
    for row in batch.to_pylist():
        headers = tuple((each["name"], each["value"]) for each in row["headers"] or ())
        yield LogRecord(
            row["partition"],
            row["log_offset"],
            row["recorded_ms"],
            row["key"],
            row["value"],
            headers,
        )


def definitions_of(batch: pa.RecordBatch) -> Iterator[tuple[int, Definition]]:
    """Yield partition and definition of a batch of ``DEFINITION_SCHEMA``."""
    for row in _millis(pa.Table.from_batches([batch])):
        name = DefinitionName(DefinitionKind(row["kind"]), row["id"])
        yield (
            row["partition"],
            Definition(name, row["log_offset"], row["rule"], row["next_time"], row["expires"]),
        )


def outcomes_of(batch: pa.RecordBatch) -> Iterator[OutcomeRow]:
    """Yield the outcomes of a batch of ``OUTCOME_SCHEMA``."""
    names = [name for name, _ in _KEY]
    for row in _millis(pa.Table.from_batches([batch])):
        new = [row[f"new_{name}"] for name in names]
        outcome = RecordedOutcome(
            CommandOutcome(row["outcome"]),
            TaskKey(*(row[name] for name in names)),
            None if new[0] is None else TaskKey(*new),
        )
        yield OutcomeRow(row["partition"], row["log_offset"], outcome)


def definition_batch(rows: Sequence[tuple[int, Definition]]) -> pa.RecordBatch:
    """Return definitions as a batch."""
    values = [
        (
            at,
            each.name.kind.value,
            each.name.id,
            each.offset,
            each.rule,
            _micros(each.next_ms),
            _micros(each.expires_ms),
        )
        for at, each in rows
    ]
    return _batch(values, DEFINITION_SCHEMA)


def outcome_batch(rows: Sequence[OutcomeRow]) -> pa.RecordBatch:
    """Return outcomes as a batch."""
    values = [
        (
            each.partition,
            each.offset,
            each.outcome.outcome.value,
            *_key_values(each.outcome.key),
            *_key_values(each.outcome.new_key),
        )
        for each in rows
    ]
    return _batch(values, OUTCOME_SCHEMA)


def record_batch(records: Sequence[LogRecord]) -> pa.RecordBatch:
    """Return records as a batch."""
    values = [
        (
            each.partition,
            each.offset,
            each.timestamp_ms,
            each.key,
            each.value,
            [{"name": name, "value": value} for name, value in each.headers],
        )
        for each in records
    ]
    return _batch(values, LOG_SCHEMA)


def _owner_row(partition: int, claim: Claim) -> dict[str, Any]:
    mark = claim.watermark
    return {
        "partition": partition,
        "epoch": claim.epoch,
        "watermark": _micros(mark.watermark_ms),
        "loaded_until": _micros(mark.loaded_until_ms),
        "next_offset": mark.next_offset,
        "tasks_swept_until": _micros(mark.tasks_swept_until_ms),
        "statuses_swept_until": _micros(mark.statuses_swept_until_ms),
        "statuses_due_until": _micros(mark.statuses_due_until_ms),
        "statuses_due_at": _micros(mark.statuses_due_at_ms),
        "stragglers": [
            {"ordering_id": each.ordering_id, "first": _micros(each.first_ms)}
            for each in mark.stragglers
        ],
    }


def _claim(row: Mapping[str, Any]) -> Claim:
    return Claim(
        row["epoch"],
        Watermark(
            watermark_ms=row["watermark"],
            loaded_until_ms=row["loaded_until"],
            next_offset=row["next_offset"],
            tasks_swept_until_ms=row["tasks_swept_until"],
            statuses_swept_until_ms=row["statuses_swept_until"],
            statuses_due_until_ms=row["statuses_due_until"],
            statuses_due_at_ms=row["statuses_due_at"],
            stragglers=tuple(
                Straggler(each["ordering_id"], each["first"]) for each in row["stragglers"]
            ),
        ),
    )


def _millis(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows with their times, nested ones too, as UTC milliseconds."""
    for row in table.cast(_as_numbers(table.schema)).to_pylist():
        for field in table.schema:
            if field.type == _TIME and row[field.name] is not None:
                row[field.name] //= 1_000
        for each in row.get("stragglers") or ():
            each["first"] //= 1_000
        yield row


def _as_numbers(schema: pa.Schema) -> pa.Schema:
    numbered = pa.list_(pa.struct([("ordering_id", pa.string()), ("first", pa.int64())]))
    kinds = {"stragglers": numbered}
    return pa.schema(
        [
            (each.name, pa.int64() if each.type == _TIME else kinds.get(each.name, each.type))
            for each in schema
        ]
    )


def _micros(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1_000


def _key_values(key: TaskKey | None) -> tuple[int | None, str | None, str | None]:
    if key is None:
        return None, None, None
    return _micros(key.scheduled_ms), key.ordering_id, key.uniqueness_key


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(values, pa.int64()).cast(_TIME)
        if field.type == _TIME
        else pa.array(values, field.type)
        for field, values in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
