"""Compression: when it is worth while, and what a bomb does."""

import zlib

import pytest

from hourhand.actors.model.values.errors import PayloadDamaged, SettingsInvalid
from hourhand.scheduler.payloads import deflate
from hourhand.scheduler.payloads.deflate import Deflate


def test_data_gets_smaller_or_stays_as_it_is() -> None:
    """Nothing is paid for nothing."""
    packed = Deflate().encode(b"text " * 100, b"")

    assert packed is not None and len(packed.data) < 50
    assert Deflate().decode(packed.data, None, b"") == b"text " * 100
    assert Deflate().encode(bytes(range(256)), b"") is None
    assert Deflate().encode(b"a" * 63, b"") is None


@pytest.mark.parametrize("data", [b"", b"text", zlib.compress(b"text" * 50)[:-3]])
def test_what_is_not_whole_is_damaged(data: bytes) -> None:
    """Cut off, or never compressed."""
    with pytest.raises(PayloadDamaged):
        Deflate().decode(data, None, b"")


def test_a_few_bytes_cannot_fill_the_memory() -> None:
    """Unpacking ends at a bound."""
    bomb = zlib.compress(bytes(deflate.DATA_BYTES_MAX + 1), 9)

    with pytest.raises(PayloadDamaged, match="more than"):
        Deflate().decode(bomb, None, b"")


def test_a_level_of_its_own_is_zlibs() -> None:
    """0 would not compress."""
    with pytest.raises(SettingsInvalid, match="1 to 9"):
        Deflate(level=0)
