"""Sealed data: a task's data in an envelope that says what is needed to open it.

The envelope is the first member of a JSON object, in compact form.  It names the steps that made
its text, in their order, and the key of each that has one.  Members behind it are in the clear.
Decides how an envelope is written and told from plain data; opens none.
"""

from typing import Literal, NoReturn

import msgspec

from actors.model.display import shown
from actors.model.errors import PayloadSealed

MEMBER = "hourhand.sealed"
"""The envelope's name; reserved, as the first member of a task's data."""
VERSION = 1

_OPENS = b'{"%b":' % MEMBER.encode()
_SHOWN_STEPS_MAX = 5


class SealingStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One codec that data went through."""

    codec: str
    key: str | None = None
    """The id of the key that it used."""

    def __str__(self) -> str:
        codec = shown(self.codec).strip("'")
        return codec if self.key is None else f"{codec} (key id {shown(self.key)})"


class SealedData(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is in place of a task's data."""

    steps: list[SealingStep]
    """In the order in which they were taken."""
    data: str
    """What the last step returned, in base64."""
    bound: Literal["task", "recurring"] = "task"
    """Which ids it is bound to: a task's, or a recurring schedule's, whose occurrences share it."""
    version: int = VERSION

    def __str__(self) -> str:
        said = ", ".join(map(str, self.steps[:_SHOWN_STEPS_MAX]))
        return f"sealed with {said}"


class _Sealed(msgspec.Struct):
    envelope: SealedData = msgspec.field(name=MEMBER)


_decode = msgspec.json.Decoder(_Sealed).decode


def is_sealed(data: bytes) -> bool:
    """Whether a row's data begins with an envelope."""
    return data.startswith(_OPENS)


def envelope_of(data: bytes) -> SealedData | None:
    """Return the envelope that a row's data begins with; None where there is none to be read."""
    if not is_sealed(data):
        return None
    try:
        return _decode(data).envelope
    except (msgspec.MsgspecError, UnicodeError):
        return None


def envelope_in(data: object) -> SealedData | None:
    """Return the envelope in a task's data; None where there is none to be read."""
    if not (isinstance(data, dict) and MEMBER in data):
        return None
    try:
        return msgspec.convert(data[MEMBER], SealedData)
    except msgspec.MsgspecError:
        return None


def sealing_of(data: bytes) -> str | None:
    """Return in words how a row's data is sealed; None where it is plain."""
    if not is_sealed(data):
        return None
    found = envelope_of(data)
    return "sealed in a way that this version does not read" if found is None else str(found)


def refuse_sealed(data: bytes) -> NoReturn:
    """Raise PayloadSealed, as a node without payload codecs does."""
    raise PayloadSealed(
        f"the task's data is {sealing_of(data)}, and this node has no payload codecs: the task"
        " waits for a node that was given them (payloads=)"
    )
