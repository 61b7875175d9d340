"""Compression with zlib, which every Python has.

Decides when it helps: data that would not get smaller stays unchanged.
"""

import zlib

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import PayloadDamaged, SettingsInvalid
from hourhand.actors.model.values.public import public
from hourhand.scheduler.payloads.codec import EncodedPayload, OpenedTooLarge

DATA_BYTES_MAX = 256 * 1024 * 1024
"""Limit for unpacked data: a few bytes may expand to any number of them."""
_LEVELS = range(1, 10)
_SMALLEST_BYTES = 64


@public("hourhand.payloads")
class Deflate:
    """Compresses data; put it before encryption, because encrypted data does not get smaller.

    ``level`` is zlib's, from 1, the fastest, to 9. Raises SettingsInvalid for another.
    """

    name = "deflate"
    blocks = False

    def __init__(self, level: int = 6) -> None:
        if level not in _LEVELS:
            raise SettingsInvalid(f"the level of Deflate is {shown(level)}, 1 to 9 is needed")
        self._level = level

    def knows(self, key_id: str | None) -> bool:
        """True for every text: there is no key."""
        return key_id is None

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        """Return the data compressed; None if that is not smaller."""
        del bound_to
        if len(data) < _SMALLEST_BYTES:
            return None
        packed = zlib.compress(data, self._level)
        return EncodedPayload(packed) if len(packed) < len(data) else None

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Return the data unpacked; PayloadDamaged if that fails."""
        try:
            return self.decode_within(data, key_id, bound_to, DATA_BYTES_MAX)
        except OpenedTooLarge:
            raise PayloadDamaged(
                f"compressed data holds more than {DATA_BYTES_MAX} bytes"
            ) from None

    def decode_within(
        self, data: bytes, key_id: str | None, bound_to: bytes, bytes_max: int
    ) -> bytes:
        """Return the data unpacked, up to a size; OpenedTooLarge, PayloadDamaged."""
        del key_id, bound_to
        unpacking = zlib.decompressobj()
        try:
            unpacked = unpacking.decompress(data, bytes_max + 1)
        except zlib.error as error:
            raise PayloadDamaged(f"compressed data cannot be unpacked: {error}") from None
        if len(unpacked) > bytes_max:
            raise OpenedTooLarge
        if not unpacking.eof:
            raise PayloadDamaged("compressed data is cut off")
        return unpacked
