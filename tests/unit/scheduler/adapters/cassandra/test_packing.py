"""Where rows are cut into batches, and which of them are refused."""

from typing import Any

import pytest
from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.scheduler.adapters.cassandra.packing import (
    ROW_BYTES_MAX,
    ROWS_MAX,
    PackedRow,
    PackedRows,
    RowPrefix,
    batches,
    packed_bigint,
    packed_int,
)

PREPARED = PreparedStatement(
    [ColumnMetadata("hourhand", "any_table", "partition_id", None)],
    b"id",
    [0],
    "INSERT …",
    None,
    5,
    None,
    None,
)
PREFIX_BYTES = len(RowPrefix(PREPARED, packed_int(1), packed_bigint(0)).packed)


def row(number: int, size_bytes: int = 10, hour: int = 0) -> PackedRow:
    """Return a row that takes so many bytes in a batch."""
    values_bytes = size_bytes - PREFIX_BYTES - 4
    return TaskKey(hour * HOUR_MS, "o", str(number)), b"%4d" % number, b"v" * values_bytes


def cut(rows: list[PackedRow], batch_bytes: int = 1_000) -> list[PackedRows]:
    """Return the packed rows of each batch."""
    made: list[Any] = list(batches(PREPARED, 1, rows, batch_bytes))
    return [batch._statements_and_parameters[0][2] for batch in made]


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [
        ([100] * 10, [10]),
        ([100] * 11, [10, 1]),
        ([900, 100, 100, 800, 100], [2, 3]),
        ([5_000, 100, 5_000], [1, 1, 1]),
        ([1_000, 1_001, 999], [1, 1, 1]),
        ([], []),
    ],
)
def test_batches_are_cut_at_their_bytes(sizes: list[int], numbers: list[int]) -> None:
    """As many rows as fit, and at least one; every byte is counted."""
    made = cut([row(number, size) for number, size in enumerate(sizes)])
    assert [each.number for each in made] == numbers
    assert sum(len(each.packed) for each in made) == sum(sizes)


def test_a_batch_holds_no_more_rows_than_its_bound() -> None:
    """However small they are."""
    made = cut([row(number, PREFIX_BYTES + 4) for number in range(2 * ROWS_MAX + 1)], 2**30)
    assert [each.number for each in made] == [ROWS_MAX, ROWS_MAX, 1]


def test_a_batch_is_of_one_hour() -> None:
    """So that it is one mutation; rows keep their order, and begin with partition and hour."""
    made = cut([row(number, hour=number % 2) for number in range(6)])
    assert [each.number for each in made] == [3, 3]
    for hour, each in enumerate(made):
        prefix = RowPrefix(PREPARED, packed_int(1), packed_bigint(hour * HOUR_MS)).packed
        expected = [prefix + b"%4d" % number for number in range(hour, 6, 2)]
        assert each.packed == b"".join(expected)


def test_of_two_rows_of_one_key_the_last_stands() -> None:
    """They have one write time, so a store that got both might mix them."""
    made = cut([row(1, 200), row(2, 100), row(1, 300)])
    assert [(each.number, len(each.packed)) for each in made] == [(2, 400)]


def test_a_row_the_store_can_never_hold_is_refused_before_the_others_are_made() -> None:
    """The error names the task, and what to do; just at the bound it is made."""
    longest = row(7, ROW_BYTES_MAX + PREFIX_BYTES)
    assert [each.number for each in cut([longest])] == [1]
    made = batches(PREPARED, 1, [row(1), row(7, ROW_BYTES_MAX + PREFIX_BYTES + 1)], 1_000)
    with pytest.raises(PoisonRecord, match=r"o,7 has .*record_bytes_max"):
        next(made)
