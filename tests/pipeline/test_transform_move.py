"""Moving rows, on small frames: partitions, offsets, names; everything else stays."""

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.pipeline.columns import arrow_schema_of, batch_of
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITIONS,
    compared_columns,
    definition_batch,
    definitions_of,
)
from hourhand.scheduler.pipeline.transform_archive import fingerprint
from hourhand.scheduler.pipeline.transform_move import MOVED_BY, lasting, moved, moved_definition
from hourhand.scheduler.ports.bulk import Bucket, BulkTable
from hourhand.scheduler.services.recurring.state import name_of, tick_task
from tests.builders import NOW_MS, a_key
from tests.pipeline.installation import HOUR

pytestmark = pytest.mark.integration

NEW = 48
IDS = ("customer-7", "", "hourhand:send:=x", "\U0001f408 cat", "nul\x00inside")


def tasks(spark: SparkSession) -> DataFrame:
    """Return rows of four old partitions, a tick among them."""
    tick = tick_task(IDS[0], NOW_MS, 7)
    rows = [(*a_key(ordering_id=each), '{"a":1}', offset, 99) for offset, each in enumerate(IDS)]
    rows.append((*tick.key, '{"generation":7}', 2**40, 99))
    schema = arrow_schema_of(BulkTable.TASKS.value)
    batch = batch_of(BulkTable.TASKS.value, schema, [(Bucket(1, HOUR), rows)])
    return spark.createDataFrame(pa.Table.from_batches([batch]))


def test_rows_go_to_the_partition_of_their_ordering_id(spark: SparkSession) -> None:
    """With lower offsets in the same order, and all else as it was."""
    before = tasks(spark)

    after = moved(before, BulkTable.TASKS.value, NEW)

    was, rows = before.collect(), after.collect()
    assert after.schema == before.schema
    assert [row.partition for row in rows] == [partition_of(r.ordering_id, NEW) for r in rows]
    assert [row.log_offset + MOVED_BY for row in rows] == [row.log_offset for row in was]
    assert [row[1:4] for row in rows] == [row[1:4] for row in was]
    assert [row.data for row in rows[:-1]] == ['{"a":1}'] * len(IDS)
    assert rows[-1].data == f'{{"generation":{7 - MOVED_BY}}}'
    assert rows[-1].uniqueness_key == tick_task(IDS[0], NOW_MS, 7 - MOVED_BY).key.uniqueness_key


def test_write_times_are_not_compared_and_all_else_is(spark: SparkSession) -> None:
    """A copy has the same checksum until one value of it differs."""
    rows = tasks(spark)
    columns = compared_columns(BulkTable.TASKS.value)

    def checksum(frame: DataFrame) -> str:
        found = fingerprint(frame, columns).first()
        assert found is not None
        return str(found.checksum)

    assert "write_time" not in columns
    assert checksum(rows) == checksum(rows.drop("write_time").repartition(3))
    other = rows.replace('{"generation":7}', '{"generation":8}', ["data"])
    assert checksum(rows) != checksum(other)


def test_definitions_go_to_the_partition_of_their_own_ordering_id(spark: SparkSession) -> None:
    """What expires within a day is not compared, as it may be gone before the comparison."""
    definitions = [
        Definition(name_of("nightly"), 5, b'{"changed_at":4,"made_by":"x"}', NOW_MS),
        Definition(DefinitionName(DefinitionKind.PARKED, "p"), 0, b"\x00\xff"),
        Definition(DefinitionName(DefinitionKind.RELAY, "r"), 9, b"", None, NOW_MS + 1),
    ]
    batch = definition_batch([(1, each) for each in definitions])
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))

    rows = moved(frame, DEFINITIONS, NEW)

    table = rows.toArrow().combine_chunks().to_batches()[0]
    found = list(definitions_of(table))
    assert [at for at, _ in found] == [partition_of(d.name.ordering_id, NEW) for d in definitions]
    assert [each.offset for _, each in found] == [d.offset - MOVED_BY for d in definitions]
    assert [each.rule for _, each in found[1:]] == [b"\x00\xff", b""]
    assert [each.expires_ms for _, each in found] == [None, None, NOW_MS + 1]
    assert lasting(rows, NOW_MS / 1000).count() == 2
    assert lasting(rows, NOW_MS / 1000 - 2 * 86_400).count() == 3


def test_a_schedule_that_was_declared_again_takes_declarations_of_the_new_log() -> None:
    """A record of the new log is later than each one of the log before."""
    state = {"changed_at": 4, "declared_at": 6, "made_by": "x"}
    row = Definition(name_of("nightly"), 7, msgspec.json.encode(state))

    found = msgspec.json.decode(moved_definition(row).rule)
    assert found == {**state, "changed_at": 4 - MOVED_BY, "declared_at": 6 - MOVED_BY}
