"""Batches whose bodies are packed by hand: what the driver spends on a row without its binding.

``client_protocol_handler`` is the driver's own place for this; the list that a BatchStatement
hands to it is private, which is fine for a limit that is measured and nothing else.
"""

import struct
from collections.abc import Iterable
from io import BytesIO
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType

_LENGTH = struct.Struct(">i")
_COUNT = struct.Struct(">H")
_NUMBER = struct.Struct(">iq")
_SMALL = struct.Struct(">ii")
_BATCH_END = struct.Struct(">H")


class PackedRows:
    """The rows of one batch, as bytes of the protocol."""

    def __init__(self, count: int, body: bytes) -> None:
        self.count = count
        self.body = body

    def __len__(self) -> int:
        return self.count


class PackedHandler(ProtocolHandler):  # type: ignore[misc]
    """Writes packed batches as they are, and leaves everything else to the driver."""

    @classmethod
    def encode_message(cls, msg: Any, *arguments: Any, **named: Any) -> Any:
        """Encode one request."""
        if isinstance(msg, BatchMessage) and isinstance(msg.queries, PackedRows):
            msg.send_body = _sender(msg)
        return super().encode_message(msg, *arguments, **named)


def _sender(message: Any) -> Any:
    rows: PackedRows = message.queries
    consistency: int = message.consistency_level

    def send_body(stream: BytesIO, protocol_version: int) -> None:
        flags = b"\0\0\0\0" if protocol_version >= 5 else b"\0"
        stream.write(b"\1" + _COUNT.pack(rows.count))
        stream.write(rows.body)
        stream.write(_BATCH_END.pack(consistency) + flags)

    return send_body


def batch(rows: Iterable[bytes]) -> BatchStatement:
    """Make a statement of packed rows."""
    packed = list(rows)
    statement = BatchStatement(
        batch_type=BatchType.UNLOGGED, consistency_level=ConsistencyLevel.LOCAL_QUORUM
    )
    statement._statements_and_parameters = PackedRows(len(packed), b"".join(packed))
    statement.is_idempotent = True
    return statement


def head(prepared: Any, parameters: int, partition: int, *numbers: int) -> bytes:
    """Pack what all rows of one Cassandra partition begin with: statement and row key."""
    query_id: bytes = prepared.query_id
    return b"".join(
        [
            b"\1" + _COUNT.pack(len(query_id)) + query_id + _COUNT.pack(parameters),
            _SMALL.pack(4, partition),
            *(number(each) for each in numbers),
        ]
    )


def number(value: int) -> bytes:
    """Pack a bigint or a timestamp."""
    return _NUMBER.pack(8, value)


def text(value: bytes) -> bytes:
    """Pack a text or a blob."""
    return _LENGTH.pack(len(value)) + value
