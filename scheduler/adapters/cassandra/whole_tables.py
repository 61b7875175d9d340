"""Reads all of a table, in the order in which Cassandra keeps it: by token.

To read bucket by bucket costs the server two to three times as much, and a reader of everything
needs no order of time. It decides how the ring is cut into parts and how many rows a page has: the
server counts rows, and a row may be large.

Answers are decoded into columns, which costs much less than tuples do: numbers are copied into
arrays unchanged, and only texts become Python objects. If the driver was built without its parser
into NumPy arrays, rows come as tuples and are turned into columns here. A ``timestamp`` is read as
the milliseconds that the server sends: exact in every year, and without a function that the server
would call for each row.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar

from cassandra.cqltypes import LongType
from cassandra.protocol import NumpyProtocolHandler, ProtocolHandler, ResultMessage

from hourhand.scheduler.adapters.cassandra.session import CassandraSession

_TOKEN_MIN = -(2**63)
"""No partition has this token: Cassandra's partitioner, Murmur3, moves it elsewhere."""
_TOKENS = 2**64
_PAGE_ROWS_FIRST = 1_000
_PAGE_ROWS_MAX = 5_000
"""A page costs a third less for each row than one of 1,000, and larger ones gain nothing."""
_PAGE_BYTES = 4 * 2**20
_GROWTH_MAX = 4
_STATEMENTS = 4
"""Statements of one part: pages of one follow each other, those of several come side by side."""
_TIMESTAMP = 0x000B
"""The code of the type in Cassandra's native protocol, version 5, section 4.2.5.2."""

Column = Sequence[Any]


def _in_order_of_machine(array: Any) -> Any:
    """Convert numbers from the network's byte order to the machine's; leave objects alone."""
    if array.dtype.kind == "O":
        return array
    return array.byteswap().view(array.dtype.newbyteorder("="))


if NumpyProtocolHandler is None:
    _Handler = ProtocolHandler
else:
    from cassandra import numpy_parser

    # The driver's own function calls a method that NumPy 2 no longer has.
    numpy_parser.make_native_byteorder = _in_order_of_machine
    _Handler = NumpyProtocolHandler


_Result: Any = _Handler.message_types_by_opcode[ResultMessage.opcode]


class _ColumnResult(_Result):  # type: ignore[misc]
    type_codes: ClassVar[dict[int, Any]] = {**ResultMessage.type_codes, _TIMESTAMP: LongType}

    def recv_results_rows(self, *arguments: Any) -> None:
        """Decode the rows; the driver calls this for each answer with rows."""
        super().recv_results_rows(*arguments)
        # If its fast parser fails, the driver ignores that and returns an answer without rows: a
        # search for missing rows would then find nothing wrong.
        if self.parsed_rows is None:
            raise AssertionError("the driver's parser failed: is this NumPy newer than it knows?")


class ColumnProtocol(_Handler):  # type: ignore[misc,valid-type]
    """The protocol of sessions whose answers are read with ``columns_of``."""

    message_types_by_opcode: ClassVar[dict[int, Any]] = {
        **_Handler.message_types_by_opcode,
        ResultMessage.opcode: _ColumnResult,
    }


def columns_of(page: Sequence[Any]) -> list[Column]:
    """Return the columns of an answer, in the order selected, with None for null.

    An empty list if the answer has no rows.
    """
    if not page or not isinstance(page[0], dict):
        return list(zip(*page, strict=True))
    columns = [_with_nulls(array) for array in page[0].values()]
    return columns if len(columns[0]) else []


def _with_nulls(array: Any) -> Column:
    """Apply the mask of nulls that comes with numbers; masked values have no meaning."""
    if not hasattr(array, "mask"):
        return array  # type: ignore[no-any-return]
    return array.tolist() if array.mask.any() else array.data  # type: ignore[no-any-return]


class WholeTable:
    """One table; ``long`` are the columns whose texts may be long."""

    def __init__(self, session: CassandraSession, name: str, long: Collection[str]) -> None:
        self._session = session
        self._name = name
        self._long = long
        self._page_rows = _PAGE_ROWS_FIRST
        """Page size of the last part, the best estimate for the next one."""
        self._prepared = lru_cache(self._prepare)

    def pages(self, part: int, parts: int, selected: tuple[str, ...]) -> Iterator[list[Column]]:
        """Yield the selected columns of the ``part``-th of ``parts`` ranges, a page at a time."""
        texts = [place for place, name in enumerate(selected) if name in self._long]
        asked: list[Any] = []
        reads = self._reads(part, parts, selected, asked)
        for position, page in self._session.stream(reads, ColumnProtocol):
            if columns := columns_of(page):
                long = chain.from_iterable(filter(None, columns[place]) for place in texts)
                rows = len(columns[0])
                # The stream has already requested the next page: this is for the one after it.
                self._page_rows = rows_wanted(self._page_rows, sum(map(len, long)), rows)
                asked[position].fetch_size = self._page_rows
                yield columns

    def _reads(
        self, part: int, parts: int, selected: tuple[str, ...], asked: list[Any]
    ) -> Iterator[Any]:
        """Yield the statements of a range and keep them."""
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
    """Return the range (first, last] of tokens of a part; all parts together are the ring."""
    first = _TOKEN_MIN + _TOKENS * part // parts
    last = _TOKEN_MIN + _TOKENS * (part + 1) // parts
    return first, min(last, -_TOKEN_MIN - 1)


def rows_wanted(last_wanted: int, page_bytes: int, page_rows: int) -> int:
    """Return the number of rows for a later page, from the size of one."""
    fitting = _PAGE_BYTES * page_rows // max(page_bytes, 1)
    return max(1, min(fitting, _GROWTH_MAX * last_wanted, _PAGE_ROWS_MAX))
