"""How the ring is cut, and how many rows a page of a whole table has."""

import pytest

from scheduler.adapters.cassandra.whole_tables import rows_wanted, tokens_of

MIB = 2**20


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
