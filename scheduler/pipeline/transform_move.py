"""Rows of one installation in the form of another one: pure functions.

Decides one rule (docs/adr/0010): every stored offset is lowered by the same number, so that all of
them keep their order and stay below every record of the new log. Offsets are also in definitions
and in the names of the tasks that belong to one. The partitioner decides the partition of a row.
"""

import re
from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from hourhand.actors.model.task.codec import Command
from hourhand.actors.model.task.definition import (
    RESERVED,
    Definition,
    DefinitionKind,
    ordering_id_parts,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import RecordedOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.log_offset import RECORDS_MAX
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITIONS,
    OUTCOMES,
    definition_batch,
    definitions_of,
    outcome_batch,
    outcomes_of,
)

_KEPT_S = 86_400
"""Rows that expire within a day may vanish while a job runs, and are not compared."""
MOVED_BY = 512 * RECORDS_MAX
"""More than any stored offset after 512 topics of one name. 64 bits leave room for 2,048 moves."""

_NUMBERED = frozenset({DefinitionKind.TIMER.value, DefinitionKind.RECURRING.value})
"""Kinds whose tasks carry the offset of their definition."""
_GENERATION = re.compile(r"(tick|pop):(-?\d{1,20})(:.*)?", re.DOTALL)


def moved_offset(offset: int) -> int:
    """Return an offset below every record of a new log; InvalidInput if it is too high."""
    if offset >= MOVED_BY:
        raise InvalidInput(
            f"a row has the log offset {offset}, and offsets from {MOVED_BY} on cannot be moved"
        )
    return offset - MOVED_BY


def is_numbered(ordering_id: str) -> bool:
    """True if tasks of an ordering id may carry an offset in their names and data."""
    parts = ordering_id_parts(ordering_id)
    return parts is not None and parts[0] in _NUMBERED


def moved_unique(ordering_id: str, uniqueness_key: str) -> str:
    """Return a uniqueness key, renumbered if it contains the offset of a definition."""
    if not is_numbered(ordering_id):
        return uniqueness_key
    found = _GENERATION.fullmatch(uniqueness_key)
    if found is None:
        return uniqueness_key
    return f"{found[1]}:{moved_offset(int(found[2])):020d}{found[3] or ''}"


def moved_data(ordering_id: str, data: bytes) -> bytes:
    """Return a task's data, renumbered if they contain the offset of a definition."""
    if not is_numbered(ordering_id) or b'"generation"' not in data:
        return data
    value = msgspec.json.decode(data)
    if not isinstance(value.get("generation"), int):
        return data
    return msgspec.json.encode({**value, "generation": moved_offset(value["generation"])})


def moved_key(key: TaskKey) -> TaskKey:
    """Return a key, renumbered if it contains the offset of a definition."""
    return key._replace(uniqueness_key=moved_unique(key.ordering_id, key.uniqueness_key))


def moved_task(task: StoredTask) -> StoredTask:
    """Return a task in the form of the new log's installation."""
    data = moved_data(task.key.ordering_id, task.body)
    return StoredTask(moved_key(task.key), data, moved_offset(task.offset))


def moved_command(command: Command) -> Command:
    """Return a command with an offset before the new log's first record."""
    return replace(command, key=moved_key(command.key), offset=moved_offset(command.offset))


def moved_outcome(outcome: RecordedOutcome) -> RecordedOutcome:
    """Return an outcome with renumbered keys.

    Its data is not moved: the new log begins empty, so no record from before a move is read again.
    """
    new_key = None if outcome.new_key is None else moved_key(outcome.new_key)
    return RecordedOutcome(outcome.outcome, moved_key(outcome.key), new_key)


def moved_definition(definition: Definition) -> Definition:
    """Return a definition in the form of the new log's installation."""
    rule = definition.rule
    if definition.name.kind.value in _NUMBERED and rule:
        rule = _moved_rule(definition.name.ordering_id, rule)
    return replace(definition, offset=moved_offset(definition.offset), rule=rule)


def _moved_rule(ordering_id: str, rule: bytes) -> bytes:
    """Renumber the last change of a timer or schedule, and the task that made it."""
    value = msgspec.json.decode(rule)
    value["changed_at"] = moved_offset(value.get("changed_at", -1))
    if "declared_at" in value:
        value["declared_at"] = moved_offset(value["declared_at"])
    # A schedule stores the time before the name of the task, a timer the name alone.
    time, colon, name = str(value.get("made_by", "")).partition(":")
    if colon and time.lstrip("-").isdigit():
        value["made_by"] = f"{time}:{moved_unique(ordering_id, name)}"
    return msgspec.json.encode(value)


def moved(rows: DataFrame, table: str, new_count: int) -> DataFrame:
    """Return a table's rows with the partitions of ``new_count`` and renumbered offsets."""
    move = {DEFINITIONS: _move_definitions, OUTCOMES: _move_outcomes}.get(table, _move_rows)
    return rows.mapInArrow(partial(move, new_count), rows.schema)


def lasting(rows: DataFrame, now_s: float) -> DataFrame:
    """Return the rows that certainly exist for another day."""
    if "expires" not in rows.columns:
        return rows
    end = f.timestamp_seconds(f.lit(now_s + _KEPT_S))
    return rows.where(f.col("expires").isNull() | (f.col("expires") > end))


def _move_rows(new_count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = {field.name: batch.column(field.name) for field in batch.schema}
        ids = columns["ordering_id"].to_pylist()
        columns["partition"] = pa.array([partition_of(each, new_count) for each in ids], pa.int32())
        if "log_offset" in columns and batch.num_rows:
            # Refuses offsets that are too high; the others are lowered together.
            moved_offset(pc.max(columns["log_offset"]).as_py())
            columns["log_offset"] = pc.subtract(columns["log_offset"], MOVED_BY)
        if pc.any(pc.starts_with(columns["ordering_id"], RESERVED)).as_py():
            _rename_own(ids, columns)
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _rename_own(ids: list[str], columns: dict[str, pa.Array]) -> None:
    """Renumber the names and data of Hourhand's own tasks, if they carry an offset."""
    uniques = columns["uniqueness_key"].to_pylist()
    columns["uniqueness_key"] = pa.array(map(moved_unique, ids, uniques), pa.string())
    if "data" in columns:
        data = columns["data"].to_pylist()
        columns["data"] = pa.array(
            [
                moved_data(each, text.encode()).decode()
                for each, text in zip(ids, data, strict=True)
            ],
            pa.string(),
        )


def _move_definitions(
    new_count: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [moved_definition(each) for _, each in definitions_of(batch)]
        owners = [partition_of(each.name.ordering_id, new_count) for each in rows]
        yield definition_batch(list(zip(owners, rows, strict=True)))


def _move_outcomes(new_count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield outcomes with renumbered offsets; they stay with their record's partition, with which
    an offset is unique.
    """
    del new_count
    for batch in batches:
        yield outcome_batch(
            [
                each._replace(offset=moved_offset(each.offset), outcome=moved_outcome(each.outcome))
                for each in outcomes_of(batch)
            ]
        )
