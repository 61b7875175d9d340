"""What a payload codec is: one step between a task's data and what its record holds.

A protocol; decides nothing.
"""

from typing import NamedTuple, Protocol, cast


class OpenedTooLarge(Exception):
    """What a step would return is larger than it may be."""


class EncodedPayload(NamedTuple):
    """What a step made of its data."""

    data: bytes
    key_id: str | None = None
    """The id of the key that was used, by which the data is opened later; stands in the clear."""


class PayloadCodec(Protocol):
    """One step; used from many threads at once.

    What ``encode`` raises refuses the task, as PayloadUnavailable.  What ``decode`` raises fails
    the attempt, which is tried again as the executor's policy says; PayloadDamaged is for what
    another try would not change.
    """

    @property
    def name(self) -> str:
        """What stands in each envelope, and finds the codec again: letters, digits and -."""

    @property
    def blocks(self) -> bool:
        """Whether it may wait for a disk or a network, so that no event loop may call it."""

    def knows(self, key_id: str | None) -> bool:
        """Whether it can open what was sealed with this key; a task it cannot is held."""

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        """Return what is kept in place of ``data``; None to leave it as it is.

        ``bound_to`` names the task; ``decode`` is given the same.
        """

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Return what ``encode`` was given."""


class BoundedCodec(Protocol):
    """A step that keeps to a size while it decodes, as few bytes may stand for many."""

    def decode_within(
        self, data: bytes, key_id: str | None, bound_to: bytes, bytes_max: int
    ) -> bytes:
        """Do what ``decode`` does; raises OpenedTooLarge before more than that is in memory."""


def bounded_form(codec: PayloadCodec) -> BoundedCodec | None:
    """Return a codec that keeps to a size; None where it, or a class made of it, only decodes."""
    for each in type(codec).__mro__:
        if "decode_within" in vars(each):
            return cast("BoundedCodec", codec)
        if "decode" in vars(each):
            return None
    return None
