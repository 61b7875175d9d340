"""Pages read, and rows written, in few steps: the same rows, in bounds, whatever they hold."""

import sqlite3
from collections.abc import Iterator

import pytest

from hourhand.scheduler.adapters.embedded.many_rows import WRITTEN_MAX, PageQuery, write_rows
from hourhand.scheduler.adapters.embedded.seal import Damage, Row

QUERY = PageQuery(
    ("number", "text", "data", "more"),
    bytes_names=("data", "more"),
    id_names=("text",),
    source="FROM page WHERE number >= ? ORDER BY number LIMIT ?",
)
ODD = [
    (-(1 << 63), "", b"", None),
    ((1 << 63) - 1, 'a "quoted" \\ text\n', None, b"\x00\xff"),
    (0, "nul \x00 and ünïcode \U0001f40d", b"\x00", b"{}"),
    (1, "[1, 2]", b"text", b""),
]
MIB = 1 << 20


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A connection to an empty table."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE page (number INTEGER, text TEXT, data BLOB, more BLOB)")
    yield connection
    connection.close()


def insertion(count: int) -> str:
    """Return the statement for so many rows."""
    marks = ", ".join(["(?, ?, ?, ?)"] * count)
    return f"INSERT INTO page VALUES {marks}"  # noqa: S608 - question marks alone


def page(
    connection: sqlite3.Connection, first: int, limit: int = 100, bytes_max: int = MIB
) -> tuple[list[Row], bool]:
    """Return the rows of a page, and whether there are no more."""
    rows, is_all = QUERY.page(connection, (first,), limit, bytes_max)
    return list(rows), is_all


def test_rows_of_a_page_are_what_was_written(connection: sqlite3.Connection) -> None:
    """NULL, no bytes, any text and the longest numbers; few rows and many."""
    write_rows(connection, insertion, ODD)

    assert page(connection, -(1 << 63)) == (sorted(ODD), True)
    assert page(connection, 1) == (sorted(ODD)[2:], True)
    assert page(connection, 2) == ([ODD[1]], True)


def test_a_page_without_rows(connection: sqlite3.Connection) -> None:
    """It is whole."""
    assert page(connection, 0) == ([], True)


@pytest.mark.parametrize("size", [10, MIB // 4])
def test_a_page_ends_with_the_row_that_fills_it(connection: sqlite3.Connection, size: int) -> None:
    """Of short rows, which are read together, and of long ones."""
    rows = [(number, "", b"x" * size, None) for number in range(20)]
    write_rows(connection, insertion, rows)

    assert page(connection, 0, bytes_max=10 * size) == (rows[:10], False)
    assert page(connection, 0, bytes_max=10 * size - 1) == (rows[:10], False)
    assert page(connection, 0, bytes_max=10 * size + 1) == (rows[:11], False)
    assert page(connection, 0, bytes_max=20 * size) == (rows, True)
    assert page(connection, 0, limit=7, bytes_max=10 * size) == (rows[:7], True)


@pytest.mark.parametrize("text", ["i" * 100, "\x00" * 100, "\u00fc" * 50])
def test_ids_count_for_the_size_of_a_page(connection: sqlite3.Connection, text: str) -> None:
    """Each byte of them, also behind a NUL."""
    rows = [(number, text, b"", None) for number in range(20)]
    write_rows(connection, insertion, rows)

    assert page(connection, 0, bytes_max=1_000) == (rows[:10], False)


def test_a_number_that_is_none_is_damage(connection: sqlite3.Connection) -> None:
    """What cannot have been written is told as such."""
    write_rows(connection, insertion, ODD)
    connection.execute("UPDATE page SET number = 9e999 WHERE number = 0")

    with pytest.raises(Damage, match="not what was written"):
        page(connection, -5)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 31, 32, 33, 100])
def test_rows_are_written_in_few_statements(connection: sqlite3.Connection, count: int) -> None:
    """Of few sizes, the largest first, each row once and in order."""
    statements: list[str] = []
    rows = [(number, str(number), b"", None) for number in range(count)]
    connection.set_trace_callback(statements.append)
    write_rows(connection, insertion, rows)
    connection.set_trace_callback(None)
    whole, rest = divmod(count, WRITTEN_MAX)

    assert len(statements) == whole + rest.bit_count()
    assert connection.execute("SELECT * FROM page ORDER BY rowid").fetchall() == rows
