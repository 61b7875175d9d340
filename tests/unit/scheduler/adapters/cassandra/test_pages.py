"""How a page is read piece by piece: how many rows at a time, where it ends, what it says."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.scheduler.adapters.cassandra.pages import (
    PIECE_ROWS_FIRST,
    PIECE_ROWS_MAX,
    Piece,
    mean_bytes,
    read_page,
    rows_wanted,
)
from hourhand.scheduler.adapters.cassandra.session import Row

BEFORE = TaskKey(-1, "", "")
LARGE = 1_000_000


def rows_of(sizes: Sequence[int]) -> list[Row]:
    """Return rows in key order with data of these sizes."""
    return [(number, "o", "u", "x" * size, 7) for number, size in enumerate(sizes)]


class Table:
    """Rows in key order, read as the adapter reads them."""

    def __init__(self, sizes: Sequence[int], *, more: int = 0, fewer: bool = False) -> None:
        self.rows = rows_of(sizes)
        self.asked: list[int] = []
        self._more = more
        """Rows that come above those asked for, as where hours share them."""
        self._fewer = fewer
        """True if one row at a time comes, as where an hour fills its share."""

    def read(self, after: TaskKey, rows_max: int) -> Piece:
        """Return the next rows."""
        self.asked.append(rows_max)
        rest = [row for row in self.rows if TaskKey(*row[:3]) > after]
        brought = 1 if self._fewer else rows_max + self._more
        return Piece(rest[:brought], len(rest) < brought)


@pytest.mark.parametrize("limit", [1, 2, 31, 32, 33, 500, 1_000])
@pytest.mark.parametrize("count", [0, 1, 32, 33, 500])
@pytest.mark.parametrize(("more", "fewer"), [(0, False), (5, False), (0, True)])
def test_a_page_tells_the_truth_about_its_end(
    limit: int, count: int, more: int, *, fewer: bool
) -> None:
    """Complete exactly where there is no further row, however the pieces fell."""
    table = Table([10] * count, more=more, fewer=fewer)
    page = read_page(table.read, BEFORE, limit)
    assert page == Piece(table.rows[:limit], count <= limit)


def test_small_rows_are_asked_for_in_ever_larger_pieces() -> None:
    """Up to a bound, and never more than the page has room for, and one to tell its end."""
    table = Table([10] * 2_000)
    read_page(table.read, BEFORE, 1_000)
    assert table.asked[0] == PIECE_ROWS_FIRST
    assert max(table.asked) == PIECE_ROWS_MAX
    assert sum(table.asked) == 1_001


def test_large_rows_are_asked_for_a_few_at_a_time() -> None:
    """After a first piece, a piece holds about four megabytes."""
    table = Table([200_000] * 1_000)
    page = read_page(table.read, BEFORE, 1_000)
    assert table.asked[1] == max(table.asked[1:]) == 20
    assert len(table.asked) > 2
    assert not page.complete


def test_a_small_page_begins_with_few_rows_and_holds_at_least_one() -> None:
    """Where memory is short, so is the first read; what is known of the rows makes it exact."""
    table = Table([200_000] * 100)
    page = read_page(table.read, BEFORE, 1_000, 2**20)
    known = read_page(table.read, BEFORE, 1_000, 2**20, mean_bytes(page.rows))
    least = read_page(table.read, BEFORE, 1_000, 1)
    assert (len(page.rows), len(known.rows), len(least.rows)) == (6, 6, 1)
    assert table.asked[0] == 2
    assert max(table.asked) <= 6


@pytest.mark.parametrize("small", [0, 1, 31, 32, 33, 300])
def test_pages_of_mixed_rows_stay_below_their_bound_and_lose_none(small: int) -> None:
    """A run of large rows among small ones ends the page at the row that reaches the bound."""
    table = Table([10] * small + [LARGE] * 60 + [10] * small)
    after, found, complete = BEFORE, list[Row](), False
    while not complete:
        page, complete = read_page(table.read, after, 1_000)
        assert page
        assert sum(len(row[3]) for row in page[:-1]) < PAGE_BYTES_MAX
        found += page
        after = TaskKey(*found[-1][:3])
    assert found == table.rows


def test_a_row_above_the_bound_is_a_page_of_its_own() -> None:
    """At least one row comes where there is one, and the last one says that it is."""
    table = Table([2 * PAGE_BYTES_MAX] * 2)
    first = read_page(table.read, BEFORE, 10)
    last = read_page(table.read, TaskKey(*first.rows[-1][:3]), 10)
    assert (first, last) == (Piece(table.rows[:1], False), Piece(table.rows[1:], True))


def test_what_is_asked_for_follows_the_size_of_rows() -> None:
    """Never none, never above the bound, never many times what was asked before."""
    wanted = [rows_wanted(PIECE_ROWS_FIRST, size * 10, 10) for size in (0, 50_000, 500_000, 10**8)]
    assert all(larger <= smaller for smaller, larger in pairwise(wanted))
    assert wanted == [PIECE_ROWS_MAX, 83, 8, 1]
    assert rows_wanted(1, 10, 10) == 8
