"""The value that a task ended with, as user code returns it and as stores keep it.

Decides which values there may be, and which attempt's value is the one of a completion.  Never
decides when one becomes durable.
"""

from math import ceil

import msgspec

from hourhand.actors.model.task.json_text import (
    SEALED_TEXT_BYTES_MAX,
    VALUE_BYTES_MAX,
    row_text,
    value_bytes,
    value_of,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.values.errors import InvalidResult


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """One row of ``task_result``: the value of the last attempt that ended well with one."""

    key: TaskKey
    attempt: int
    """Number of the attempt that returned it."""
    finished_ms: int
    """When that attempt ended, in milliseconds since 1970, as in the completion."""
    kept_until_ms: int
    body: bytes
    """The row's text: a JSON object with the value, or with the envelope of a sealed one.  Empty
    once the store has forgotten it, which it may do from ``kept_until_ms`` on."""
    fence: int = 0
    """Owner epoch of the node that ran the attempt."""

    @property
    def kept_s(self) -> int:
        """Seconds for which a store keeps the body from its write on; at least 1."""
        return max(1, ceil((self.kept_until_ms - self.finished_ms) / 1000))

    def is_kept(self, now_ms: int) -> bool:
        """True if its value can still be read."""
        return bool(self.body) and now_ms < self.kept_until_ms

    def is_of(self, completed_ms: int) -> bool:
        """True if it is the value of a success at that time; an older one is of an attempt whose
        completion was lost with its node, after which the task ended without a value.
        """
        return self.finished_ms >= completed_ms


def result_text(value: object) -> bytes:
    """Return the text of a row before it is sealed; raises InvalidResult where the value is not
    JSON.
    """
    return row_text(value, "result", InvalidResult)


def result_value(text: bytes) -> object:
    """Return the value of a row's text; PayloadSealed where it is sealed."""
    return value_of(text, "result")


def require_storable(text: bytes) -> None:
    """Raise InvalidResult for the text of a row that is too large."""
    if is_sealed(text):
        if len(text) > SEALED_TEXT_BYTES_MAX:
            raise InvalidResult(
                f"the result has {len(text)} bytes when it is sealed, at most"
                f" {SEALED_TEXT_BYTES_MAX} are allowed: return less, or let a ClaimCheck be the"
                " last of the payload codecs"
            )
    elif value_bytes(text) > VALUE_BYTES_MAX:
        raise InvalidResult(
            f"the result has {value_bytes(text)} bytes as JSON, at most {VALUE_BYTES_MAX} are"
            " allowed: return where it is kept, or give the node a ClaimCheck as payload codec"
            " with a threshold below that"
        )
