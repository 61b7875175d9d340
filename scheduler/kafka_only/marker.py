"""The progress of a partition's owner: a next offset, and the offsets done beyond it.

It is written in the transaction that makes the progress, so the last committed one is complete; a
new owner reads it before anything else. Pure.
"""

import zlib
from collections.abc import Iterable

import msgspec

_VERSION = 1


class Marker(msgspec.Struct, frozen=True):
    """All offsets before ``next_offset`` are done, and later ones that ``done`` names."""

    next_offset: int
    done: int = 0
    """Bit n stands for offset ``next_offset + n``."""
    topic_id: str = ""
    """The incarnation of the topic that the offsets belong to; empty if it was not recorded."""

    def is_done(self, offset: int) -> bool:
        """True if a record was passed on or moved."""
        return offset < self.next_offset or bool(self.done >> (offset - self.next_offset) & 1)

    def doing(self, offsets: Iterable[int], next_offset: int) -> "Marker":
        """Return the marker with more offsets done; all before ``next_offset`` are done."""
        places = [each - self.next_offset for each in offsets if each >= self.next_offset]
        bits = bytearray(max(places, default=0) // 8 + 1)
        for place in places:
            bits[place >> 3] |= 1 << (place & 7)
        done = self.done | int.from_bytes(bits, "little")
        if next_offset < self.next_offset:
            raise ValueError(f"a marker never goes back: {self.next_offset} to {next_offset}")
        return Marker(next_offset, done >> (next_offset - self.next_offset), self.topic_id)


def encode_marker(marker: Marker) -> bytes:
    """Return the stored form of a marker."""
    bits = marker.done.to_bytes((marker.done.bit_length() + 7) // 8, "little")
    # Behind one message with a long delay nearly all are done: long runs compress well.
    packed = zlib.compress(bits, 1)
    # Nodes that know no topic id read only the compressed bits.
    return msgspec.msgpack.encode((_VERSION, marker.next_offset, packed + marker.topic_id.encode()))


def decode_marker(value: bytes) -> Marker:
    """Return a marker; raises ValueError for other bytes, and for another version."""
    version, next_offset, packed = msgspec.msgpack.decode(value, type=tuple[int, int, bytes])
    if version != _VERSION:
        raise ValueError(f"a marker of version {version}: update this node")
    unpacking = zlib.decompressobj()
    bits = unpacking.decompress(packed)
    return Marker(next_offset, int.from_bytes(bits, "little"), unpacking.unused_data.decode())
