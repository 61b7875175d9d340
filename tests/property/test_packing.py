"""Packed batches are what the driver itself writes of the same values, byte for byte.

This pins the driver: a release that writes a batch differently fails here.
"""

from typing import Any, NamedTuple

from cassandra import ConsistencyLevel
from cassandra.cqltypes import BooleanType, DateType, Int32Type, LongType, UTF8Type
from cassandra.protocol import BatchMessage, ColumnMetadata, ProtocolHandler, QueryMessage
from cassandra.query import BatchStatement, BatchType, PreparedStatement
from hypothesis import example, given
from hypothesis import strategies as st

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.adapters.cassandra.packing import (
    PACKED_BOOLEANS,
    PackedProtocol,
    RowPrefix,
    joined,
    packed_bigint,
    packed_bigints,
    packed_bytes,
    packed_int,
    packed_key,
    packed_text,
)
from tests.property.strategies import storable_text

COLUMNS = (
    ("partition_id", Int32Type),
    ("hour", DateType),
    ("scheduled_time", DateType),
    ("ordering_id", UTF8Type),
    ("uniqueness_key", UTF8Type),
    ("attempt", Int32Type),
    ("data", UTF8Type),
    ("finished", DateType),
    ("suspect", BooleanType),
    ("message", UTF8Type),
    ("log_offset", LongType),
    ("[timestamp]", LongType),
)


def prepared(query_id: bytes) -> PreparedStatement:
    """Return a statement of all columns."""
    columns = [ColumnMetadata("hourhand", "any_table", name, kind) for name, kind in COLUMNS]
    return PreparedStatement(columns, query_id, [0, 1], "INSERT …", None, 5, None, None)


PREPARED, OTHER = prepared(b"sixteen bytes id"), prepared(b"the id of others")
LARGE = "ü" * 2**19


class Row(NamedTuple):
    """What a row may hold, in the order of ``COLUMNS`` from the key on."""

    key: TaskKey
    attempt: int
    data: bytes
    finished_ms: int | None
    suspect: bool
    message: str | None
    offset: int
    write_time: int

    def bound(self) -> tuple[object, ...]:
        """Return the values as the driver takes them."""
        return (*self.key, self.attempt, self.data.decode(), *self[3:])

    def packed(self) -> bytes:
        """Return the values as the adapter packs them."""
        values = (
            packed_key(self.key),
            packed_int(self.attempt),
            packed_bytes(self.data),
            packed_bigint(self.finished_ms),
            PACKED_BOOLEANS[self.suspect],
            packed_text(self.message),
            packed_bigints(self.offset, self.write_time),
        )
        return b"".join(values)


ints = st.integers(-(2**31), 2**31 - 1)
bigints = st.integers(-(2**63), 2**63 - 1)
rows = st.builds(
    Row,
    key=st.builds(TaskKey, bigints, storable_text, storable_text),
    attempt=ints,
    data=storable_text.map(str.encode),
    finished_ms=st.none() | bigints,
    suspect=st.booleans(),
    message=st.none() | storable_text,
    offset=bigints,
    write_time=bigints,
)
version = st.sampled_from([4, 5])
around = st.fixed_dictionaries(
    {"consistency_level": st.sampled_from(sorted(ConsistencyLevel.value_to_name))},
    optional={
        "serial_consistency_level": st.sampled_from(
            [ConsistencyLevel.SERIAL, ConsistencyLevel.LOCAL_SERIAL]
        ),
        "timestamp": bigints.filter(lambda each: each >= 0),
    },
)
LOWEST = Row(TaskKey(-(2**63), "", ""), -(2**31), b"", None, False, None, -(2**63), 0)
HIGHEST = Row(
    TaskKey(2**63 - 1, LARGE, "\0"), 2**31 - 1, LARGE.encode(), 2**63 - 1, True, "", 1, 2**63 - 1
)


def encoded(handler: Any, batch: BatchStatement, version: int, **around: object) -> bytes:
    """Return the request that the driver sends for ``batch``."""
    values = batch._statements_and_parameters  # As the driver's session reads it.
    message = BatchMessage(batch.batch_type, values, **around)
    frame: bytes = handler.encode_message(message, 7, version, None, False)
    return frame


@given(st.integers(0, 2**31 - 1), bigints, st.lists(rows, min_size=1, max_size=5), version, around)
@example(0, -(2**63), [LOWEST, HIGHEST], 5, {"consistency_level": ConsistencyLevel.ONE})
def test_a_packed_batch_is_what_the_driver_writes(
    partition: int, hour_ms: int, batch_rows: list[Row], version: int, around: dict[str, object]
) -> None:
    """Whatever the values, and whatever stands around them; it goes to the same replica."""
    prefix = RowPrefix(PREPARED, packed_int(partition), packed_bigint(hour_ms))
    packed = prefix.batch([prefix.packed + row.packed() for row in batch_rows])
    bound = BatchStatement(BatchType.UNLOGGED)
    for row in batch_rows:
        bound.add(PREPARED, (partition, hour_ms, *row.bound()))

    assert (packed.routing_key, packed.keyspace) == (bound.routing_key, bound.keyspace)
    assert encoded(PackedProtocol, packed, version, **around) == encoded(
        ProtocolHandler, bound, version, **around
    )


@given(st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=4), version)
def test_joined_batches_are_what_the_driver_writes(calls: list[list[Row]], version: int) -> None:
    """Rows of several partitions, and of several statements, in one request."""
    packed, bound = [], BatchStatement(BatchType.UNLOGGED)
    for number, batch_rows in enumerate(calls):
        statement = OTHER if number % 2 else PREPARED
        prefix = RowPrefix(statement, packed_int(number), packed_bigint(3_600_000))
        packed.append(prefix.batch([prefix.packed + row.packed() for row in batch_rows]))
        for row in batch_rows:
            bound.add(statement, (number, 3_600_000, *row.bound()))

    together, level = joined(packed), ConsistencyLevel.LOCAL_QUORUM
    assert together.is_idempotent
    assert together.routing_key == packed[0].routing_key
    assert encoded(PackedProtocol, together, version, consistency_level=level) == encoded(
        ProtocolHandler, bound, version, consistency_level=level
    )


def test_a_batch_may_be_sent_twice_without_harm() -> None:
    """The driver tries another node only where it knows that."""
    assert RowPrefix(PREPARED, packed_int(0), packed_bigint(0)).batch([]).is_idempotent


def test_whatever_is_not_packed_is_left_to_the_driver() -> None:
    """Batches the driver bound, one without rows, and other requests."""
    bound = BatchStatement(BatchType.LOGGED)
    bound.add(PREPARED, (1, 2, *LOWEST.bound()))
    level = ConsistencyLevel.ONE
    for batch in (bound, BatchStatement(BatchType.LOGGED)):
        assert encoded(PackedProtocol, batch, 5, consistency_level=level) == encoded(
            ProtocolHandler, batch, 5, consistency_level=level
        )
    query = QueryMessage("SELECT now() FROM system.local", level)
    assert PackedProtocol.encode_message(query, 1, 5, None, False) == (
        ProtocolHandler.encode_message(query, 1, 5, None, False)
    )
