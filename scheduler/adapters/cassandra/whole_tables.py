"""Reads all of a table, in the order in which Cassandra keeps it: by token.

To ask for buckets one by one costs the server two to three times as much as to walk through what
it holds, and nobody who wants everything needs buckets in order of time.  It decides how the ring
is cut into parts and how many rows a page has, as the server counts rows and a row may be large.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from scheduler.adapters.cassandra.session import CassandraSession

_TOKEN_MIN = -(2**63)
"""No partition has this one: the partitioner of Cassandra, Murmur3, moves it elsewhere."""
_TOKENS = 2**64
_PAGE_ROWS_FIRST = 1_000
_PAGE_ROWS_MAX = 5_000
"""A page costs a third less for each row than one of 1,000, and larger ones gain nothing."""
_PAGE_BYTES = 4 * 2**20
_GROWTH_MAX = 4

Columns = list[tuple[Any, ...]]


class WholeTable:
    """One table; ``texts`` are the places of the selected columns that may be long."""

    def __init__(
        self, session: CassandraSession, name: str, selected: str, texts: Sequence[int]
    ) -> None:
        self._session = session
        self._texts = texts
        self._read = session.prepare(
            f"SELECT {selected} FROM {{keyspace}}.{name}"
            " WHERE token(partition_id, hour) > ? AND token(partition_id, hour) <= ?"
        )

    def pages(self, part: int, parts: int) -> Iterator[Columns]:
        """Yield the columns of a page of rows of the ``part``-th of ``parts`` stretches."""
        statement = self._read.bind(tokens_of(part, parts))
        statement.fetch_size = _PAGE_ROWS_FIRST
        for _, page in self._session.stream([statement]):
            columns = list(zip(*page, strict=True))
            texts = chain.from_iterable(filter(None, columns[each]) for each in self._texts)
            # The stream has asked for the next page already: this is for the one after it.
            statement.fetch_size = rows_wanted(
                statement.fetch_size, sum(map(len, texts)), len(page)
            )
            yield columns


def tokens_of(part: int, parts: int) -> tuple[int, int]:
    """Return the stretch (first, last] of tokens of a part; all parts together are the ring."""
    first = _TOKEN_MIN + _TOKENS * part // parts
    last = _TOKEN_MIN + _TOKENS * (part + 1) // parts
    return first, min(last, -_TOKEN_MIN - 1)


def rows_wanted(last_wanted: int, page_bytes: int, page_rows: int) -> int:
    """Return how many rows a later page asks for, from what one brought."""
    fitting = _PAGE_BYTES * page_rows // max(page_bytes, 1)
    return max(1, min(fitting, _GROWTH_MAX * last_wanted, _PAGE_ROWS_MAX))
