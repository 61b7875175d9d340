"""How the ring is cut, how many rows a page of a whole table has, and how columns are read."""

from io import BytesIO
from struct import pack
from typing import Any

import numpy as np
import pytest
from cassandra import ProtocolVersion, numpy_parser
from cassandra.protocol import RESULT_KIND_ROWS, ResultMessage

from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.cassandra.whole_tables import (
    ColumnProtocol,
    columns_of,
    rows_wanted,
    tokens_of,
)

MIB = 2**20
_TIMESTAMP, _TEXT = 0x000B, 0x000D


def _answer(*rows: tuple[bytes | None, bytes | None]) -> Any:
    """Decode an answer of a timestamp and a text, as the server writes it."""
    one_table, columns = 1, ((b"due", _TIMESTAMP), (b"data", _TEXT))
    parts = [pack(">ii", one_table, len(columns)), *map(_string, (b"keyspace", b"table"))]
    parts += [_string(name) + pack(">H", code) for name, code in columns]
    parts.append(pack(">i", len(rows)))
    for value in (value for row in rows for value in row):
        parts.append(pack(">i", -1) if value is None else pack(">i", len(value)) + value)
    message = ColumnProtocol.message_types_by_opcode[ResultMessage.opcode](RESULT_KIND_ROWS)
    message.recv_results_rows(BytesIO(b"".join(parts)), ProtocolVersion.V5, {}, None, None)
    return message.parsed_rows


def _string(text: bytes) -> bytes:
    return pack(">H", len(text)) + text


def test_times_are_milliseconds_in_every_year() -> None:
    """And what is null is None, whichever its type."""
    times = (INSTANT_MIN_MS, -1, INSTANT_MAX_MS)
    rows = [(pack(">q", time_ms), "é".encode()) for time_ms in times]

    assert [list(each) for each in columns_of([_answer(*rows)])] == [list(times), ["é"] * 3]
    assert list(columns_of([_answer(rows[0], (None, None))])[0]) == [INSTANT_MIN_MS, None]
    assert columns_of([_answer()]) == []


def test_an_answer_that_cannot_be_decoded_is_not_one_without_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the driver would have it where its parser and NumPy do not fit each other."""
    monkeypatch.setattr(numpy_parser, "make_native_byteorder", None)

    with pytest.raises(AssertionError, match="is this NumPy newer"):
        _answer((pack(">q", 5), b"{}"))


def test_arrays_are_columns_with_none_where_nothing_is_stored() -> None:
    """Numbers under a mask are not numbers."""
    some = np.ma.MaskedArray([5, 9], mask=[False, True])
    every = np.ma.MaskedArray([7, 8], mask=[False, False])
    texts = np.array(["a", None], dtype=object)

    columns = columns_of([{"first": some, "second": every, "third": texts}])

    assert [list(column) for column in columns] == [[5, None], [7, 8], ["a", None]]


def test_tuples_are_columns() -> None:
    """Of a driver that was built without NumPy's parser."""
    assert columns_of([(1, "a"), (2, None)]) == [(1, 2), ("a", None)]


def test_an_answer_without_rows_has_no_columns() -> None:
    """However it says that."""
    nothing = np.ma.MaskedArray(np.empty(0, dtype=np.int64))

    assert columns_of([]) == columns_of([{"first": nothing}]) == []


@pytest.mark.parametrize("parts", [1, 2, 7, 32])
def test_the_parts_are_the_ring(parts: int) -> None:
    """Stretches (first, last] without a gap: all tokens but the least, which no partition has."""
    stretches = [tokens_of(part, parts) for part in range(parts)]

    assert stretches[0][0] == -(2**63)
    assert stretches[-1][1] == 2**63 - 1
    assert [first for first, _ in stretches[1:]] == [last for _, last in stretches[:-1]]


@pytest.mark.parametrize(
    ("last_wanted", "page_bytes", "page_rows", "wanted"),
    [
        (1_000, 100_000, 1_000, 4_000),
        (4_000, 400_000, 4_000, 5_000),
        (1_000, 1_000 * MIB, 1_000, 4),
        (4, 40 * MIB, 4, 1),
        (1_000, 0, 0, 1),
        (1_000, 0, 10, 4_000),
    ],
)
def test_a_page_has_as_many_rows_as_fit(
    last_wanted: int, page_bytes: int, page_rows: int, wanted: int
) -> None:
    """A server counts rows; what is held here are bytes."""
    assert rows_wanted(last_wanted, page_bytes, page_rows) == wanted
