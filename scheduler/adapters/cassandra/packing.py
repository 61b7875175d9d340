"""Packs the rows of a batch by hand, which costs a fifth of what the driver's binding costs.

The driver binds a batch value by value: it looks up a type, calls its serializer and writes the
result to a stream, 25 µs of this process for a row of eight values.  All rows of a batch are of
one statement and one Cassandra partition here, so what they begin with is packed once, and the
rest of a row is a few calls of ``struct``.

Only public parts of the driver are used.  ``Session.client_protocol_handler`` is its place for
whoever encodes messages differently; ``PackedProtocol`` goes there.  A batch holds one
``BoundStatement``, whose ``values`` are all rows as bytes, of other statements too where
batches were joined; whatever else a request holds, its
consistency and its flags, is written by the driver's own encoder.  ``tests/property`` compares
the result with the driver's, byte for byte.

Rows of one hour share a Cassandra partition, so a batch of them is one atomic mutation and costs
the server little more than one row.  It decides where to cut and how values are laid out; it
never knows a table.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType, BoundStatement

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.values.errors import PoisonRecord

NULL = b"\xff\xff\xff\xff"
"""A null value: the length -1."""
PACKED_BOOLEANS = (b"\0\0\0\1\0", b"\0\0\0\1\1")
"""Both values of a ``boolean``, false first."""
_BY_ID = b"\x01"
"""The first byte of a row whose statement was prepared."""

_short = Struct(">H").pack
_length = Struct(">i").pack
_int = Struct(">ii").pack
_bigint = Struct(">iq").pack
_bigints = Struct(">iqiq").pack
_bigint_and_length = Struct(">iqi").pack
ROWS_MAX = 1_000
"""Rows of one batch; the protocol ends at 65,535, and more gained nothing."""
ROW_BYTES_MAX = 15 * 2**20
"""Half a commit log segment (16 MiB by default) less the bytes around a row."""

PackedRow = tuple[TaskKey, bytes, bytes]
"""A row for writing: its key, the clustering columns, and all columns behind them."""


def packed_int(value: int) -> bytes:
    """Pack an ``int``."""
    return _int(4, value)


def packed_bigint(value: int | None) -> bytes:
    """Pack a ``bigint``, or a ``timestamp`` in milliseconds."""
    return NULL if value is None else _bigint(8, value)


def packed_bigints(first: int, second: int) -> bytes:
    """Pack two values as ``packed_bigint`` does, in half the time."""
    return _bigints(8, first, 8, second)


def packed_bytes(value: bytes) -> bytes:
    """Pack a ``blob``, or a ``text`` in UTF-8."""
    return _length(len(value)) + value


def packed_text(value: str | None) -> bytes:
    """Pack a ``text``."""
    return NULL if value is None else packed_bytes(value.encode())


def packed_key(key: TaskKey) -> bytes:
    """Pack the columns of a key: a ``timestamp`` and two ``text``."""
    ordering_id, uniqueness_key = key.ordering_id.encode(), key.uniqueness_key.encode()
    time = _bigint_and_length(8, key.scheduled_ms, len(ordering_id))
    return b"".join((time, ordering_id, _length(len(uniqueness_key)), uniqueness_key))


class PackedRows(NamedTuple):
    """The rows of one batch, in the protocol's form."""

    number: int
    packed: bytes


class PackedBatch(BatchStatement):  # type: ignore[misc]
    """Rows of one statement, or of several, as one request."""

    def __init__(self, prepared: Any, routing_key: bytes, rows: PackedRows) -> None:
        super().__init__(BatchType.UNLOGGED)
        self.prepared = prepared
        self.rows = rows
        bound = BoundStatement(prepared, routing_key=routing_key)
        bound.values = rows
        self.add(bound)
        self.is_idempotent = True


def joined(batches: Sequence[PackedBatch]) -> PackedBatch:
    """Return one request with the writes of all of these; it goes to the first one's server."""
    rows = [each.rows for each in batches]
    together = PackedRows(sum(each.number for each in rows), b"".join(each.packed for each in rows))
    return PackedBatch(batches[0].prepared, batches[0].routing_key, together)


class RowPrefix:
    """The common first bytes of all rows of one statement and one Cassandra partition."""

    def __init__(self, prepared: Any, *columns: bytes) -> None:
        """``columns`` are those of the partition key, packed; they come first in the statement."""
        self._prepared = prepared
        self._routing_key = b"".join(_short(len(each) - 4) + each[4:] + b"\0" for each in columns)
        query_id: bytes = prepared.query_id
        values = _short(len(prepared.column_metadata))
        self.packed = b"".join((_BY_ID, _short(len(query_id)), query_id, values, *columns))

    def batch(self, rows: Sequence[bytes]) -> PackedBatch:
        """Make a statement of rows, each with this prefix."""
        return PackedBatch(self._prepared, self._routing_key, PackedRows(len(rows), b"".join(rows)))


class PackedProtocol(ProtocolHandler):  # type: ignore[misc]
    """The driver's protocol, with packed batches written as they are."""

    @classmethod
    def encode_message(cls, msg: Any, *arguments: Any, **named: Any) -> Any:
        """Encode one request; the driver calls this for each one."""
        if isinstance(msg, BatchMessage):
            for _, _, values in msg.queries[:1]:
                if isinstance(values, PackedRows):
                    msg = _PackedBatch(msg, values)
        return super().encode_message(msg, *arguments, **named)


class _PackedBatch(BatchMessage):  # type: ignore[misc]
    """A driver's message with its rows packed."""

    def __init__(self, message: BatchMessage, rows: PackedRows) -> None:
        self.__dict__.update(message.__dict__, queries=())
        self._rows = rows

    def send_body(self, f: BinaryIO, protocol_version: int) -> None:
        """Write the driver's bytes for a batch without rows, and insert the rows."""
        without_rows = BytesIO()
        super().send_body(without_rows, protocol_version)
        driver = without_rows.getvalue()
        # The type of the batch, the number of its rows, and the bytes behind them.
        assert driver[1:3] == _short(0), "the driver lays batches out differently"
        f.write(b"".join((driver[:1], _short(self._rows.number), self._rows.packed, driver[3:])))


def batches(
    prepared: Any, partition: int, rows: Iterable[PackedRow], batch_bytes: int
) -> Iterator[PackedBatch]:
    """Yield unlogged batches, each of one hour, that together hold all rows.

    If two rows have the same clustering columns only the last is sent: they have the same write
    time, so the store could not decide. Raises PoisonRecord for a row that is too long for the
    store, before it yields anything.
    """
    by_hour: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
    for key, clustering, values in rows:
        size_bytes = len(clustering) + len(values)
        if size_bytes > ROW_BYTES_MAX:
            raise PoisonRecord(
                f"task {key} has {size_bytes} bytes, and Cassandra holds no row above"
                f" {ROW_BYTES_MAX}: lower client.record_bytes_max"
            )
        by_hour[hour_of(key.scheduled_ms)][clustering] = values
    for hour_ms, found in by_hour.items():
        prefix = RowPrefix(prepared, packed_int(partition), packed_bigint(hour_ms))
        packed = [prefix.packed + clustering + values for clustering, values in found.items()]
        for piece in cut(packed, batch_bytes):
            yield prefix.batch(piece)


def cut(rows: Sequence[bytes], batch_bytes: int) -> Iterator[Sequence[bytes]]:
    """Yield slices of rows for one batch each: at least one row, at most ``ROWS_MAX``."""
    start, size_bytes = 0, 0
    for position, row in enumerate(rows):
        row_bytes = len(row)
        if position > start and (
            size_bytes + row_bytes > batch_bytes or position - start == ROWS_MAX
        ):
            yield rows[start:position]
            start, size_bytes = position, 0
        size_bytes += row_bytes
    yield rows[start:]
