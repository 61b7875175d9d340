"""Sealed data: an envelope instead of a task's data, which names the steps to open it.

It names the steps that made its text, in their order, and the key of each that has one. A record
has it beside the data, which then holds only the plain members; the text of a row begins with it
(``row_text``). Decides how an envelope is written and recognised; opens none.
"""

from collections.abc import Mapping
from typing import Literal, NoReturn, TypeVar, cast

import msgspec

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import PayloadSealed

MEMBER = "hourhand.sealed"
"""The envelope's name in the text of a row."""
VERSION = 1
T = TypeVar("T")

OPENS = b'{"%b":' % MEMBER.encode()
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
    """The replacement for a task's data."""

    steps: list[SealingStep]
    """The steps in the order of sealing."""
    data: str
    """The result of the last step, in base64."""
    bound: Literal["task", "recurring"] = "task"
    """The ids that it is bound to: a task's, or a recurring schedule's, whose occurrences share
    it."""
    version: int = VERSION

    def __str__(self) -> str:
        said = ", ".join(map(str, self.steps[:_SHOWN_STEPS_MAX]))
        return f"sealed with {said}"


class SealedMembers(dict[str, object]):
    """The data of a sealed task: its plain members, with the envelope.

    A type of its own, because no member of data may claim that data is sealed.
    """

    __slots__ = ("envelope",)

    def __init__(self, clear: Mapping[str, object], envelope: SealedData | None) -> None:
        super().__init__(clear)
        self.envelope = envelope
        """None if this version cannot read it."""

    def __reduce__(
        self,
    ) -> tuple[type["SealedMembers"], tuple[dict[str, object], SealedData | None]]:
        return SealedMembers, (dict(self), self.envelope)


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_envelope = msgspec.json.Decoder(SealedData).decode
_encode = msgspec.json.Encoder().encode


def is_sealed(text: bytes) -> bool:
    """True if the text of a row begins with an envelope."""
    return text.startswith(OPENS)


def with_envelope(data: bytes, envelope: bytes) -> bytes:
    """Return the text of a row, from the plain members and the envelope, both as JSON."""
    clear = data.strip()
    assert clear.startswith(b"{"), "data is a JSON object"
    clear = clear[1:].lstrip()
    return b"".join((OPENS, envelope, b"" if clear.startswith(b"}") else b",", clear))


def split_envelope(text: bytes) -> tuple[bytes | None, bytes]:
    """Return the envelope at the begin of a row's text, and the plain members, as JSON."""
    if not is_sealed(text):
        return None, text
    members = _decode_members(text)
    assert MEMBER in members, "it begins with that"
    envelope = members.pop(MEMBER)
    return bytes(envelope), _encode(members)


def envelope_of(text: bytes) -> SealedData | None:
    """Return the envelope at the begin of a row's text; None if there is no readable one."""
    if not is_sealed(text):
        return None
    try:
        return read_envelope(_decode_members(text)[MEMBER])
    except (msgspec.MsgspecError, UnicodeError):
        return None


def read_envelope(envelope: bytes | msgspec.Raw) -> SealedData | None:
    """Return an envelope that is written as JSON; None if this version cannot read it."""
    try:
        return _decode_envelope(envelope)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def envelope_in(data: object) -> SealedData | None:
    """Return the envelope of a task's data; None if it is not sealed, or cannot be read."""
    return data.envelope if isinstance(data, SealedMembers) else None


def seal_of(data: object) -> object:
    """Return the envelope of a task's data as plain values; None if it is not sealed."""
    envelope = envelope_in(data)
    return None if envelope is None else msgspec.to_builtins(envelope)


def sealed_with(data: dict[str, T], envelope: SealedData | None) -> dict[str, T]:
    """Return data unchanged, or as the plain members with its envelope."""
    return data if envelope is None else cast("dict[str, T]", SealedMembers(data, envelope))


def member_of_before(data: object) -> SealedData | None:
    """Return a possible envelope of the previous version, which had it as a member of the data.

    None if it does not have the written form. Only its keys show whether it is one.
    """
    if type(data) is not dict or next(iter(data), None) != MEMBER:
        return None
    try:
        return msgspec.convert(data[MEMBER], SealedData)
    except msgspec.MsgspecError:
        return None


def sealing_of(text: bytes) -> str | None:
    """Return in words how the data of a row is sealed; None if it is plain."""
    if not is_sealed(text):
        return None
    found = envelope_of(text)
    return "sealed in a way that this version does not read" if found is None else str(found)


def refuse_sealed(text: bytes) -> NoReturn:
    """Raise PayloadSealed, as a node without payload codecs does."""
    raise PayloadSealed(
        f"the task's data is {sealing_of(text)}, and this node has no payload codecs: the task"
        " waits for a node that was given them (payloads=)"
    )
