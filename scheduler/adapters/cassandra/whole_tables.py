"""Reads all of a table, in the order in which Cassandra keeps it: by token.

To ask for buckets one by one costs the server two to three times as much as to walk through what
it holds, and nobody who wants everything needs buckets in order of time.  It decides how the ring
is cut into parts and how many rows a page has, as the server counts rows and a row may be large.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from scheduler.adapters.cassandra.column_protocol import Column, ColumnProtocol, columns_of
from scheduler.adapters.cassandra.session import CassandraSession

_TOKEN_MIN = -(2**63)
"""No partition has this one: the partitioner of Cassandra, Murmur3, moves it elsewhere."""
_TOKENS = 2**64
_PAGE_ROWS_FIRST = 1_000
_PAGE_ROWS_MAX = 5_000
"""A page costs a third less for each row than one of 1,000, and larger ones gain nothing."""
_PAGE_BYTES = 4 * 2**20
_GROWTH_MAX = 4
_STATEMENTS = 4
"""Statements of one part: pages of one follow each other, those of several come side by side."""


class WholeTable:
    """One table; ``long`` are the columns whose texts may be long."""

    def __init__(self, session: CassandraSession, name: str, long: Collection[str]) -> None:
        self._session = session
        self._name = name
        self._long = long
        self._page_rows = _PAGE_ROWS_FIRST
        """What the last part came to: it tells most about the next one."""
        self._prepared = lru_cache(self._prepare)

    def pages(self, part: int, parts: int, selected: tuple[str, ...]) -> Iterator[list[Column]]:
        """Yield what is selected of the ``part``-th of ``parts`` stretches, a page at a time."""
        texts = [place for place, name in enumerate(selected) if name in self._long]
        asked: list[Any] = []
        reads = self._reads(part, parts, selected, asked)
        for position, page in self._session.stream(reads, ColumnProtocol):
            if columns := columns_of(page):
                long = chain.from_iterable(filter(None, columns[place]) for place in texts)
                rows = len(columns[0])
                # The stream has asked for the next page already: this is for the one after it.
                self._page_rows = rows_wanted(self._page_rows, sum(map(len, long)), rows)
                asked[position].fetch_size = self._page_rows
                yield columns

    def _reads(
        self, part: int, parts: int, selected: tuple[str, ...], asked: list[Any]
    ) -> Iterator[Any]:
        """Yield the statements of a stretch and note them."""
        prepared = self._prepared(selected)
        for stretch in range(part * _STATEMENTS, (part + 1) * _STATEMENTS):
            asked.append(prepared.bind(tokens_of(stretch, parts * _STATEMENTS)))
            asked[-1].fetch_size = self._page_rows
            yield asked[-1]

    def _prepare(self, selected: Sequence[str]) -> Any:
        return self._session.prepare(
            f"SELECT {', '.join(selected)} FROM {{keyspace}}.{self._name}"
            " WHERE token(partition_id, hour) > ? AND token(partition_id, hour) <= ?"
        )


def tokens_of(part: int, parts: int) -> tuple[int, int]:
    """Return the stretch (first, last] of tokens of a part; all parts together are the ring."""
    first = _TOKEN_MIN + _TOKENS * part // parts
    last = _TOKEN_MIN + _TOKENS * (part + 1) // parts
    return first, min(last, -_TOKEN_MIN - 1)


def rows_wanted(last_wanted: int, page_bytes: int, page_rows: int) -> int:
    """Return how many rows a later page asks for, from what one brought."""
    fitting = _PAGE_BYTES * page_rows // max(page_bytes, 1)
    return max(1, min(fitting, _GROWTH_MAX * last_wanted, _PAGE_ROWS_MAX))
