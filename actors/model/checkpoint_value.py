"""Checkpoints of tasks, by which code reports its progress, as the text of a row.

Decides which values a checkpoint may hold and how it is written. Others decide when it is durable.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from actors.model.codec import encode_object
from actors.model.display import shown
from actors.model.errors import InvalidCheckpoint, InvalidTask, PayloadSealed
from actors.model.sealed import is_sealed, sealing_of

CHECKPOINT_BYTES_MAX = 65_536
"""Largest checkpoint, as JSON in UTF-8."""

_OPENS, _CLOSES = b'{"value":', b"}"
CHECKPOINT_TEXT_BYTES_MAX = CHECKPOINT_BYTES_MAX + len(_OPENS + _CLOSES)
"""Largest text of a row, before it is sealed."""
SEALED_TEXT_BYTES_MAX = 2 * CHECKPOINT_TEXT_BYTES_MAX
"""Largest text of a row at all: codecs add a little, and base64 a third."""


class AttemptCheckpoints(Protocol):
    """The checkpoints of one attempt; may be used from any thread."""

    @property
    def found(self) -> bytes | None:
        """The text of the newest one of the attempts before; None where there is none."""

    def make(self, text: bytes) -> None:
        """Take a row's text as the newest one; returns at once, whatever the store does."""


class _NoAttempt:
    """Stands for the checkpoints of an executor that no node runs, as in its own tests."""

    @property
    def found(self) -> bytes | None:
        return None

    def make(self, text: bytes) -> None:
        del text


NO_ATTEMPT: AttemptCheckpoints = _NoAttempt()


def checkpoint_text(value: object) -> bytes:
    """Return the text of a row; raises InvalidCheckpoint where the value cannot be one."""
    try:
        encoded = encode_object(value)
    except InvalidTask as error:
        raise _not_json(value, str(error.__cause__)) from None
    if len(encoded) > CHECKPOINT_BYTES_MAX:
        raise InvalidCheckpoint(
            f"the checkpoint has {len(encoded)} bytes as JSON, at most {CHECKPOINT_BYTES_MAX} are"
            " allowed: keep what is large in a store of your own, and here where it is"
        )
    text = b"".join((_OPENS, encoded, _CLOSES))
    # Much that is not JSON can be written as some: the next attempt would find something else.
    if (found := checkpoint_value(text)) != value:
        raise _not_json(value, f"it would be found as {shown(found)}")
    return text


def _not_json(value: object, reason: str) -> InvalidCheckpoint:
    return InvalidCheckpoint(
        f"the checkpoint {shown(value)} is not JSON ({reason}): give texts, numbers, true, false,"
        " None, lists, and dictionaries with texts as names"
    )


class _Value(msgspec.Struct):
    value: object


_decode_value = msgspec.json.Decoder(_Value).decode


def checkpoint_value(text: bytes | None) -> object:
    """Return the value of a row's text, None without one; PayloadSealed where it is sealed."""
    if text is None:
        return None
    if is_sealed(text):
        raise PayloadSealed(
            f"the checkpoint is {sealing_of(text)}, and this process has no payload codecs: give it"
            " those of the nodes (payloads=)"
        )
    return _decode_value(text).value


def shown_value(text: bytes) -> object:
    """Return the value of a row's text that is not sealed, for people: the text, cut, where it
    cannot be read.
    """
    try:
        return checkpoint_value(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return shown(text)


class Progress(msgspec.Struct, frozen=True):
    """The progress of a task, from its checkpoint."""

    done: float
    total: float

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1."""
        return min(1.0, max(0.0, self.done / self.total))


def progress_of(value: object) -> Progress | None:
    """Return the progress of a checkpoint with the numbers ``done`` and ``total``; else None."""
    if not isinstance(value, Mapping):
        return None
    done, total = _number(value.get("done")), _number(value.get("total"))
    return None if done is None or total is None or total <= 0 else Progress(done, total)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
