"""JSON values that user code leaves with its task, as the text of a row.

Decides which values there are and how they are written.  Never decides what a value is for.
"""

import msgspec

from hourhand.actors.model.task.codec import encode_object
from hourhand.actors.model.task.sealed import is_sealed, sealing_of
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import CallerError, InvalidTask, PayloadSealed

VALUE_BYTES_MAX = 65_536
"""Largest value that is not sealed, as JSON in UTF-8."""
_OPENS, _CLOSES = b'{"value":', b"}"
TEXT_BYTES_MAX = VALUE_BYTES_MAX + len(_OPENS + _CLOSES)
"""Largest text of a row, before it is sealed."""
SEALED_TEXT_BYTES_MAX = 2 * TEXT_BYTES_MAX
"""Largest text of a row at all: codecs add a little, and base64 a third."""


def row_text(value: object, noun: str, error: type[CallerError]) -> bytes:
    """Return the text of a row; raises ``error`` where the value, a ``noun``, is not JSON."""
    try:
        text = b"".join((_OPENS, encode_object(value), _CLOSES))
    except InvalidTask as raised:
        raise _not_json(value, noun, error, str(raised.__cause__)) from None
    # Much that is not JSON can be written as some: its reader would find something else.
    if (found := _decode_value(text).value) != value:
        raise _not_json(value, noun, error, f"it would be found as {shown(found)}")
    return text


def value_bytes(text: bytes) -> int:
    """Return the size of the value in a row's text that is not sealed."""
    return len(text) - len(_OPENS + _CLOSES)


def _not_json(value: object, noun: str, error: type[CallerError], reason: str) -> CallerError:
    return error(
        f"the {noun} {shown(value)} is not JSON ({reason}): give texts, numbers, true, false,"
        " None, lists, and dictionaries with texts as names"
    )


class _Value(msgspec.Struct):
    value: object


_decode_value = msgspec.json.Decoder(_Value).decode


def value_of(text: bytes, noun: str) -> object:
    """Return the value of a row's text; PayloadSealed where it is sealed."""
    if is_sealed(text):
        raise PayloadSealed(
            f"the {noun} is {sealing_of(text)}, and this process has no payload codecs: give it"
            " those of the nodes (payloads=)"
        )
    return _decode_value(text).value


def shown_value(text: bytes) -> object:
    """Return the value of a row's text that is not sealed, for people: the text, cut, where it
    cannot be read.
    """
    try:
        return _decode_value(text).value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return shown(text)
