"""Encryption: which keys are taken, and what is never shown of them."""

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hourhand.actors.model.values.errors import PayloadDamaged, SettingsInvalid
from hourhand.scheduler.payloads.aes_gcm import AesGcm

KEY = bytes(range(32))
TEXT = b64encode(KEY).decode()


def test_it_is_plain_aes_gcm() -> None:
    """Twelve bytes of nonce, then the text and its tag: any other program can open it."""
    found = AesGcm({"k1": KEY}).encode(b"data", b"task")

    assert found.key_id == "k1"
    assert AESGCM(KEY).decrypt(found.data[:12], found.data[12:], b"task") == b"data"


def test_the_same_data_is_never_sealed_alike() -> None:
    """Two records do not show that their data is the same."""
    codec = AesGcm({"k1": KEY})

    assert len({codec.encode(b"data", b"task").data for _ in range(50)}) == 50


def test_every_changed_byte_is_found() -> None:
    """In the nonce, the text and the tag."""
    codec = AesGcm({"k1": KEY})
    sealed = codec.encode(b"data", b"task").data

    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(PayloadDamaged):
            codec.decode(bytes(changed), "k1", b"task")
    with pytest.raises(PayloadDamaged, match="key k1"):
        codec.decode(sealed, "k1", b"another task")


def test_keys_are_read_from_text_the_first_one_seals() -> None:
    """As an environment variable or a mounted file holds them."""
    other = b64encode(b"o" * 16).decode()
    codec = AesGcm.from_text(f"k2:{TEXT},k1:{other}\n")

    assert codec.encode(b"", b"").key_id == "k2"
    assert codec.knows("k1") and not codec.knows("k3") and not codec.knows(None)


@pytest.mark.parametrize(
    "text", ["", "k1", f"k1:{TEXT}!", "k1:AAEC", f":{TEXT}", f"bad-id!:{TEXT}", TEXT, f"{TEXT}:k1"]
)
def test_text_without_keys_is_refused_and_not_shown(text: str) -> None:
    """A key in an error would stand in a log."""
    with pytest.raises(SettingsInvalid) as refused:
        AesGcm.from_text(text)

    assert TEXT[:8] not in str(refused.value) and "AAEC" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("keys", [{}, {"k1": b"short"}, {"k1": "text"}, {"": KEY}, {"a b": KEY}])
def test_keys_that_are_none_are_refused(keys: dict[str, bytes]) -> None:
    """When a process starts, not when its first task comes."""
    with pytest.raises(SettingsInvalid) as refused:
        AesGcm(keys)

    assert "short" not in str(refused.value) and "text" not in str(refused.value)
