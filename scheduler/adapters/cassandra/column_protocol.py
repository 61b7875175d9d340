"""Decodes an answer of many rows into columns, which costs much less than tuples do.

Numbers are copied into arrays as they stand in the answer, and only texts become Python objects:
the driver's parser into NumPy arrays.  Where the driver was built without it, rows come as tuples
and are turned into columns here.  It decides how an answer becomes columns; it never knows a table.

A ``timestamp`` is read as the milliseconds that the server sends: exact in every year, and without
a function that the server would call for each row.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from cassandra.cqltypes import LongType
from cassandra.protocol import NumpyProtocolHandler, ProtocolHandler, ResultMessage

_TIMESTAMP = 0x000B
"""The code of the type in Cassandra's native protocol, version 5, section 4.2.5.2."""

Column = Sequence[Any]


def _in_order_of_machine(array: Any) -> Any:
    """Turn numbers as the network orders their bytes into the machine's; leave objects alone."""
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
        """Decode the rows; the driver calls this for each answer that has some."""
        super().recv_results_rows(*arguments)
        # Where its fast parser fails, the driver finds no fault in the rows themselves, and makes
        # of them an answer without any: whoever looks for what is missing would find all well.
        if self.parsed_rows is None:
            raise AssertionError("the driver's parser failed: is this NumPy newer than it knows?")


class ColumnProtocol(_Handler):  # type: ignore[misc,valid-type]
    """For sessions whose answers are read with ``columns_of``."""

    message_types_by_opcode: ClassVar[dict[int, Any]] = {
        **_Handler.message_types_by_opcode,
        ResultMessage.opcode: _ColumnResult,
    }


def columns_of(page: Sequence[Any]) -> list[Column]:
    """Return the columns of an answer, in the order selected, with None where nothing is stored.

    None of them where the answer has no rows.
    """
    if not page or not isinstance(page[0], dict):
        return list(zip(*page, strict=True))
    columns = [_with_nulls(array) for array in page[0].values()]
    return columns if len(columns[0]) else []


def _with_nulls(array: Any) -> Column:
    """Numbers come with a mask of those that are null; what is under it has no meaning."""
    if not hasattr(array, "mask"):
        return array  # type: ignore[no-any-return]
    return array.tolist() if array.mask.any() else array.data  # type: ignore[no-any-return]
