"""Reads a page piece by piece, so that an answer held in memory stays small (P13).

The server counts rows and never bytes, and a row may hold a megabyte or more.  So a read
begins with few rows and asks for more the smaller they were, and a page ends early when it
holds enough.  It decides how many rows are asked for; it never knows a table.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from actors.model.key import TaskKey
from scheduler.adapters.cassandra.keys import key_of
from scheduler.adapters.cassandra.session import Row

PIECE_ROWS_FIRST = 32
PIECE_ROWS_MAX = 128
"""Rows of one read: what is held where all of them are large and those before were small."""
PIECE_BYTES = 4 * 2**20
"""What a read shall bring, judged by the rows of the last one."""
PAGE_BYTES_MAX = 16 * 2**20
"""A page ends with the row that reaches this, though it holds fewer rows than asked for."""
_GROWTH_MAX = 4


class Piece(NamedTuple):
    """Rows in key order; ``complete`` where there are no more, and else at least one row."""

    rows: list[Row]
    complete: bool


def read_page(read: Callable[[TaskKey, int], Piece], after: TaskKey, limit: int) -> Piece:
    """Return the first rows above ``after``, at most ``limit``; ``complete`` tells the truth.

    ``read`` takes the key to go on after and the number of rows wanted; it may bring a few
    more than that, or fewer.  Fewer than ``limit`` come back where they are large.
    """
    found: list[Row] = []
    found_bytes, wanted = 0, PIECE_ROWS_FIRST
    while True:
        # One row more than asked for tells that the page is not the last one.
        rows, complete = read(after, min(wanted, limit + 1 - len(found)))
        found += rows
        if complete and len(found) <= limit and len(found) == _rows_of_page(found, limit):
            return Piece(found, complete=True)
        piece_bytes = sum(map(_size_bytes, rows))
        found_bytes += piece_bytes
        if len(found) > limit or (found_bytes >= PAGE_BYTES_MAX and len(found) > 1):
            return Piece(found[: _rows_of_page(found, limit)], complete=False)
        after = key_of(found[-1])
        wanted = rows_wanted(wanted, piece_bytes, len(rows))


def rows_wanted(last_wanted: int, piece_bytes: int, piece_rows: int) -> int:
    """Return how many rows the next read asks for, from what the last one brought."""
    fitting = PIECE_BYTES * piece_rows // max(piece_bytes, 1)
    return max(1, min(fitting, _GROWTH_MAX * last_wanted, PIECE_ROWS_MAX))


def _rows_of_page(found: Sequence[Row], limit: int) -> int:
    """Return how many of the rows make up the page; the next one begins with the others."""
    sizes = accumulate(map(_size_bytes, found))
    reaching = (number for number, size in enumerate(sizes, 1) if size >= PAGE_BYTES_MAX)
    return min(limit, next(reaching, len(found)))


def _size_bytes(row: Row) -> int:
    # Of the texts as Python holds them; a look at their headers, whatever their length.
    return sum(map(sys.getsizeof, row))
