"""A DuckDB database in memory that answers one question and can change nothing.

Accepts one statement that only reads. It may read only files of the given folder; it has no
network, and limited memory. Larger intermediate results are written to a temporary folder with a
limit of its own, which is removed at the end.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import duckdb

from hourhand.actors.model.values.errors import InvalidQuery

_ROWS_INSERTED = 10_000
"""Rows of one insert."""
_EXPLAIN = re.compile(
    r"\s*EXPLAIN\s+"
    r"(?:ANALYZE\s+|\(\s*(?:(?:ANALYZE|FORMAT\s+\w+)\s*,?\s*)+\)\s*)?(?P<explained>.*)",
    re.IGNORECASE | re.DOTALL,
)


class QueryAnswer(NamedTuple):
    """The result of a question."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    has_more: bool
    """True if rows were left out, because there are more than requested."""


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """A table to be filled: its name, and its columns with their types."""

    name: str
    columns: dict[str, str]


class ReadOnlyDatabase:
    """Is filled, sealed, and then asked; a context manager that closes it."""

    def __init__(self, memory_bytes_max: int, spill_bytes_max: int) -> None:
        self._limits_mb = memory_bytes_max // 1_000_000, spill_bytes_max // 1_000_000
        memory_mb, spill_mb = self._limits_mb
        self._spill = TemporaryDirectory(prefix="hourhand-sql-")
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET memory_limit = '{memory_mb}MB'")
        self._connection.execute(f"SET temp_directory = '{_quoted(self._spill.name)}'")
        self._connection.execute(f"SET max_temp_directory_size = '{spill_mb}MB'")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self._spill.cleanup()

    def fill(self, table: QueriedTable, rows: Sequence[Sequence[Any]]) -> None:
        """Make a table of these rows; times are aware datetimes, JSON is text."""
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        self._connection.execute(f"CREATE TABLE {table.name} ({columns})")
        values = ", ".join(f"unnest(?::{kind}[])" for kind in table.columns.values())
        for begin in range(0, len(rows), _ROWS_INSERTED):
            some = rows[begin : begin + _ROWS_INSERTED]
            by_column = [list(each) for each in zip(*some, strict=True)]
            self._connection.execute(f"INSERT INTO {table.name} SELECT {values}", by_column)

    def show(self, name: str, query: str) -> None:
        """Make a view."""
        self._connection.execute(f"CREATE VIEW {name} AS {query}")

    def show_files(self, name: str, files: Path, further: Mapping[str, str]) -> None:
        """Make a view of the Parquet files of a pattern, with further columns by expression."""
        columns = "".join(f", {value} AS {each}" for each, value in further.items())
        self.show(name, f"SELECT *{columns} FROM read_parquet('{_quoted(str(files))}')")

    def columns_of_files(self, files: Path) -> set[str]:
        """Return the names of the columns in the Parquet files of a pattern."""
        query = f"DESCRIBE SELECT * FROM read_parquet('{_quoted(str(files))}')"
        return {str(name) for name, *_ in self._connection.execute(query).fetchall()}

    def define(self, name: str, function: Callable[..., Any], takes: list[str], gives: str) -> None:
        """Make a function of Python one of SQL; it gets NULL as None."""
        connection: Any = self._connection
        connection.create_function(name, function, takes, gives, null_handling="special")

    def seal(self, folder: Path | None = None) -> None:
        """Allow only files of the folder from now on, and no change of settings."""
        if folder is not None:
            self._connection.execute(f"SET allowed_directories = ['{_quoted(str(folder))}/']")
        self._connection.execute("SET autoinstall_known_extensions = false")
        self._connection.execute("SET autoload_known_extensions = false")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def ask(self, question: str, rows_max: int) -> QueryAnswer:
        """Answer a question with at most ``rows_max`` rows; InvalidQuery if it is not possible."""
        try:
            statements = duckdb.extract_statements(question)
            _require_one_that_reads(statements)
            cursor = self._connection.execute(question)
            rows = cursor.fetchmany(rows_max + 1)
            columns = tuple(str(each[0]) for each in cursor.description or ())
        except duckdb.OutOfMemoryException:
            memory_mb, spill_mb = self._limits_mb
            raise InvalidQuery(
                f"the answer needs more than {memory_mb} MB of memory and {spill_mb} MB of files:"
                " ask for less at once, or sort and group fewer rows"
            ) from None
        except duckdb.Error as error:
            message = " ".join(str(error).split())
            raise InvalidQuery(
                f"{message} (tables: {', '.join(self.tables())}; DESCRIBE TABLE shows its columns)"
            ) from None
        return QueryAnswer(columns, rows[:rows_max], len(rows) > rows_max)

    def tables(self) -> list[str]:
        """Return the names of tables and views."""
        found = self._connection.execute("SHOW TABLES").fetchall()
        return sorted(str(name) for (name, *_) in found)


def _require_one_that_reads(statements: Sequence[Any]) -> None:
    """Raise InvalidQuery unless there is one statement, and it reads, and so does one that it
    explains.
    """
    kind = duckdb.StatementType
    if len(statements) == 1 and statements[0].type == kind.EXPLAIN:
        # EXPLAIN ANALYZE runs the explained statement, which DuckDB does not report.
        found = _EXPLAIN.fullmatch(statements[0].query)
        statements = duckdb.extract_statements(found["explained"]) if found else ()
    if len(statements) != 1 or statements[0].type != kind.SELECT:
        raise InvalidQuery(
            "a question is one statement that reads, such as SELECT or DESCRIBE: nothing is"
            " changed here"
        )


def _quoted(text: str) -> str:
    return text.replace("'", "''")
