"""The protocol of a payload codec: one step between a task's data and its record's.

Decides nothing.
"""

from typing import NamedTuple, Protocol, cast

from hourhand.actors.model.values.public import public


@public("hourhand.payloads")
class OpenedTooLarge(Exception):
    """The result of a step is larger than allowed."""


@public("hourhand.payloads")
class EncodedPayload(NamedTuple):
    """The result of a step."""

    data: bytes
    key_id: str | None = None
    """The id of the key that was used, by which the data is opened later; it is not encrypted."""


@public("hourhand.payloads")
class PayloadCodec(Protocol):
    """One step; used from many threads at once.

    An error of ``encode`` refuses the task, as PayloadUnavailable. An error of ``decode`` fails the
    attempt, which is retried by the executor's policy; PayloadDamaged is for data that a retry
    would not open.
    """

    @property
    def name(self) -> str:
        """The codec's name in envelopes, by which it is found again: letters, digits and -."""

    @property
    def blocks(self) -> bool:
        """True if it may wait for a disk or a network, so that no event loop may call it."""

    def knows(self, key_id: str | None) -> bool:
        """True if it can open data that was sealed with this key; other tasks are held."""

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        """Return the replacement for ``data``; None to leave it unchanged.

        ``bound_to`` names the task; ``decode`` gets the same.
        """

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Return the data that ``encode`` was given."""


@public("hourhand.payloads")
class BoundedCodec(Protocol):
    """A step that limits its size while it decodes, because few bytes may expand to many."""

    def decode_within(
        self, data: bytes, key_id: str | None, bound_to: bytes, bytes_max: int
    ) -> bytes:
        """Decode as ``decode``; raises OpenedTooLarge before more than ``bytes_max`` is in
        memory.
        """


def bounded_form(codec: PayloadCodec) -> BoundedCodec | None:
    """Return a codec with a size limit; None if it, or its class, only has ``decode``."""
    for each in type(codec).__mro__:
        if "decode_within" in vars(each):
            return cast("BoundedCodec", codec)
        if "decode" in vars(each):
            return None
    return None
