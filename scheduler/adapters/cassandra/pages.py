"""Looks keys up, and reads a page piece by piece, so that an answer in memory stays small (P13).

The server counts rows and never bytes, and a row may hold a megabyte or more. So a read begins with
few rows and asks for more if they were small, and a page ends early when it holds enough. It
decides the number of rows of a read; it knows no table.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import ID_BYTES_MAX
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row

PIECE_ROWS_FIRST = 32
PIECE_ROWS_MAX = 256
"""Rows of one read: the risk in memory if they are large after small ones."""
PIECE_BYTES = 4 * 2**20
"""Target size of a read, judged by the rows of the last one."""
_GROWTH_MAX = 8
ROW_BYTES_UNKNOWN = 2**19
"""Assumed size of unknown rows: a full page begins with 32 of them."""
KEY_COLUMNS = "toUnixTimestamp(scheduled_time), ordering_id, uniqueness_key"
"""The first selected columns of a query; the time as a number, exact in every year."""
KEY_BOUND = "(scheduled_time, ordering_id, uniqueness_key)"
KEYS_MAX = 50
"""Keys of one look-up in one hour."""


class KeyFinder:
    """Looks single keys up, those of one hour together."""

    def __init__(self, session: CassandraSession, select: str) -> None:
        self._session = session
        self._find = session.prepare(
            f"{select} WHERE partition_id = ? AND hour = ? AND {KEY_BOUND} IN ?"
        )

    def find(self, partition: int, keys: Sequence[TaskKey]) -> list[Row]:
        """Return the rows of ``keys``, in any order; waits. Raises StoreUnavailable."""
        by_hour: defaultdict[int, list[TaskKey]] = defaultdict(list)
        for key in dict.fromkeys(keys):
            if can_exist(key):
                by_hour[hour_of(key.scheduled_ms)].append(key)
        answers = self._session.execute_all(
            [
                self._find.bind((partition, hour, asked[start : start + KEYS_MAX]))
                for hour, asked in by_hour.items()
                for start in range(0, len(asked), KEYS_MAX)
            ]
        )
        return [row for rows in answers for row in rows]


def key_of(row: Row) -> TaskKey:
    """Return the key in the first three columns."""
    return TaskKey(row[0], row[1], row[2])


def can_exist(key: TaskKey) -> bool:
    """True if a row can have this key: operators may type impossible ones."""
    try:
        return all(len(each.encode()) <= ID_BYTES_MAX for each in key[1:])
    except UnicodeEncodeError:
        return False


class Piece(NamedTuple):
    """Rows in key order; ``complete`` if there are no more, and else at least one row."""

    rows: list[Row]
    complete: bool


def read_page(
    read: Callable[[TaskKey, int], Piece],
    after: TaskKey,
    limit: int,
    page_bytes: int = PAGE_BYTES_MAX,
    row_bytes: int = ROW_BYTES_UNKNOWN,
) -> Piece:
    """Return the first rows above ``after``, at most ``limit``; ``complete`` is exact. The page may
    end early, with the row that reaches ``page_bytes``; ``row_bytes`` is the expected size of a
    row, for the first read.

    ``read`` takes the key to continue after and a number of rows; it may return a few more, or
    fewer. Large rows make the page shorter than ``limit``.
    """
    found: list[Row] = []
    sizes: list[int] = []
    found_bytes, wanted = 0, max(1, min(PIECE_ROWS_FIRST, page_bytes // row_bytes))
    while True:
        # One row more than requested shows that the page is not the last one.
        rows, complete = read(after, min(wanted, limit + 1 - len(found)))
        found += rows
        sizes += map(_size_bytes, rows)
        piece_bytes = sum(islice(sizes, len(sizes) - len(rows), None))
        found_bytes += piece_bytes
        is_full = len(found) > limit or (found_bytes >= page_bytes)
        if complete or is_full:
            page_rows = _rows_of_page(sizes, limit, page_bytes)
            return Piece(found[:page_rows], complete and page_rows == len(found))
        after = key_of(found[-1])
        wanted = rows_wanted(wanted, piece_bytes, len(rows), page_bytes - found_bytes)


def rows_wanted(
    last_wanted: int, piece_bytes: int, piece_rows: int, left_bytes: int = PIECE_BYTES
) -> int:
    """Return the number of rows for the next read, from the size of the last one's."""
    fitting = min(PIECE_BYTES, left_bytes) * piece_rows // max(piece_bytes, 1)
    return max(1, min(fitting, _GROWTH_MAX * last_wanted, PIECE_ROWS_MAX))


def _rows_of_page(sizes: Sequence[int], limit: int, page_bytes: int) -> int:
    """Return the number of rows of these sizes in the page; the next page begins with the
    others.
    """
    ends = accumulate(sizes)
    reaching = (number for number, end in enumerate(ends, 1) if end >= page_bytes)
    return min(limit, next(reaching, len(sizes)))


def mean_bytes(rows: Sequence[Row]) -> int:
    """Return the mean size of rows, which estimates that of the next ones."""
    return max(1, sum(map(_size_bytes, rows)) // len(rows))


def _size_bytes(row: Row) -> int:
    # Behind the time are both ids and the data; characters stand for the bytes of an id.
    return len(row[1]) + len(row[2]) + len(row[3])
