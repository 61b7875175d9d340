"""Many rows in one step of a statement, read or written.

For each step sqlite3 releases the interpreter's lock and takes it again. If other threads of the
process are busy, that costs tens of microseconds of processor time, and a wait that is longer than
all other work for a row. Decides only the number of steps; ``seal`` checks the rows.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from hourhand.scheduler.adapters.embedded.seal import Damage, Row

WRITTEN_MAX = 32
"""Most rows of one statement: the numbers of rows are few, so that SQLite has compiled them."""
_READ_MIN = 3
"""A smaller number is read one by one as cheaply."""
_READ_BYTES_MAX = 1 << 20
"""Limit for bytes and ids: a page that holds more is read row by row, because its text would be
more than twice as long."""

_decode_sizes = msgspec.json.Decoder(list[int]).decode
_decode_rows = msgspec.json.Decoder(list[list[Any]]).decode


def write_rows(
    connection: sqlite3.Connection, statement: Callable[[int], str], rows: Sequence[Row]
) -> None:
    """Run ``statement(n)``, which takes the values of ``n`` rows, until all rows are written."""
    first = 0
    while left := len(rows) - first:
        size = min(WRITTEN_MAX, 1 << (left.bit_length() - 1))
        some = rows[first : first + size]
        connection.execute(statement(size), tuple(chain.from_iterable(some)))
        first += size


class PageQuery:
    """A query for rows, whose last parameter is their number."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        bytes_names: Sequence[str],
        id_names: Sequence[str],
        source: str,
    ) -> None:
        """``names`` are the columns; those in ``bytes_names`` hold bytes or NULL, and those in
        ``id_names`` text whose bytes count as well. ``source`` is the rest of the SELECT after its
        columns, with its parameters, up to ``LIMIT ?``.
        """
        self._bytes_at = tuple(names.index(name) for name in bytes_names)
        columns = ", ".join(names)
        # The length of bytes is known without reading them; the length of text ends at a NUL.
        lengths = [f"ifnull(length({name}), 0)" for name in bytes_names]
        lengths += [f"length(CAST({name} AS BLOB))" for name in id_names]
        size_sum = " + ".join(lengths)
        text_columns = ", ".join(
            f"CASE WHEN {name} IS NULL THEN NULL ELSE hex({name}) END"
            if name in bytes_names
            else name
            for name in names
        )
        self._row_by_row = f"SELECT {columns} {source}"
        self._sizes = f"SELECT json_group_array(size) FROM (SELECT {size_sum} AS size {source})"
        self._together = (
            f"SELECT json_group_array(json_array({text_columns})) FROM (SELECT {columns} {source})"
        )

    def page(
        self, connection: sqlite3.Connection, arguments: Row, limit: int, bytes_max: int
    ) -> tuple[Iterable[Row], bool]:
        """Return up to ``limit`` rows, ending with the one whose bytes reach ``bytes_max``, and
        True if there are no more rows. Raises Damage for rows that cannot have been written.
        """
        ((found,),) = connection.execute(self._sizes, (*arguments, limit))
        sizes = _decode_sizes(found)
        count = found_bytes = 0
        for size in sizes:
            count += 1
            found_bytes += size
            if found_bytes >= bytes_max:
                break
        arguments = (*arguments, count)
        if count < _READ_MIN or found_bytes > _READ_BYTES_MAX:
            rows: Iterable[Row] = connection.execute(self._row_by_row, arguments)
        else:
            ((text,),) = connection.execute(self._together, arguments)
            rows = self._taken_apart(text)
        return rows, count == len(sizes)

    def _taken_apart(self, text: str) -> Iterator[Row]:
        try:
            rows = _decode_rows(text)
        except msgspec.DecodeError as error:
            raise Damage(f"a page is not what was written: {error}") from error
        for row in rows:
            for at in self._bytes_at:
                if row[at] is not None:
                    row[at] = bytes.fromhex(row[at])
            yield tuple(row)
