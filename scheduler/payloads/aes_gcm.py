"""Encryption with AES-GCM, by the package cryptography.

Decides which key seals and which keys open; it never shows a key.
"""

import os
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Self

from hourhand.actors.model.values.errors import PayloadDamaged, SettingsInvalid
from hourhand.actors.model.values.public import public
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.payloads.codec import EncodedPayload

_NONCE_BYTES = 12
_KEY_BYTES = frozenset({16, 24, 32})
_is_key_id = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch


@public("hourhand.payloads")
class AesGcm:
    """Encrypts data, and binds it to its task: it opens only as that task's data.

    ``keys`` has each key by its id; a key is 16, 24 or 32 random bytes. The first seals, all of
    them open. To rotate, put a new one first and keep the old ones as long as tasks of them may be
    left. Key ids are not encrypted. Use a key for at most 2^32 tasks, as NIST SP 800-38D says of
    random nonces. Raises SettingsInvalid for invalid keys, and if the package cryptography is
    missing.
    """

    name = "aes-gcm"
    blocks = False

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        with required_by("AesGcm"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        if not keys:
            raise SettingsInvalid("AesGcm has no key: give it at least one, by its id")
        for place, (key_id, key) in enumerate(keys.items(), 1):
            _refuse_key(place, key_id, key)
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = next(iter(keys))
        self._invalid_tag = InvalidTag

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read keys from text, as in an environment variable or a mounted secret.

        Each is ``id:key``, the key in base64, separated by white space or a comma. Raises
        SettingsInvalid, which shows no part of the text.
        """
        keys: dict[str, bytes] = {}
        for place, pair in enumerate(text.replace(",", " ").split(), 1):
            key_id, _, encoded = pair.partition(":")
            try:
                keys[key_id] = b64decode(encoded, validate=True)
            except ValueError:
                raise SettingsInvalid(
                    f"key {place} of AesGcm is not id:key with the key in base64"
                ) from None
        return cls(keys)

    def __repr__(self) -> str:
        return f"AesGcm(keys={list(self._ciphers)})"

    def knows(self, key_id: str | None) -> bool:
        """True if it has the key."""
        return key_id in self._ciphers

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload:
        """Return the data encrypted with the first key."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, data, bound_to)
        return EncodedPayload(nonce + sealed, self._current)

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Return the data decrypted; PayloadDamaged if it was changed or belongs to another
        task.
        """
        assert key_id is not None, "only what is known is decoded"
        try:
            return self._ciphers[key_id].decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to)
        except (self._invalid_tag, ValueError):
            raise PayloadDamaged(
                f"data that is encrypted with the key {key_id} cannot be decrypted: it was changed,"
                " was sealed for another task, or the id stands for another key now"
            ) from None


def _refuse_key(place: int, key_id: object, key: object) -> None:
    # Neither part is shown: the id may be a key if they were swapped.
    if not isinstance(key_id, str) or _is_key_id(key_id) is None:
        raise SettingsInvalid(
            f"the id of key {place} of AesGcm is not one: write at most 64 letters, digits and _.-,"
            " and the key behind it"
        )
    if not isinstance(key, bytes) or len(key) not in _KEY_BYTES:
        got = f"{len(key)} bytes long" if isinstance(key, bytes) else f"a {type(key).__name__}"
        raise SettingsInvalid(
            f"key {place} of AesGcm is {got}: 16, 24 or 32 random bytes are needed"
        )
