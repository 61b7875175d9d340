"""The end of a task as the task behind it sees it.

Decides its fields; never how they are stored, nor when a follower runs.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import msgspec
from pydantic import JsonValue

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.sealed import is_sealed, refuse_sealed
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.public import public


class _ResultRow(msgspec.Struct):
    value: object


_decode_value = msgspec.json.Decoder(_ResultRow).decode


@public("hourhand.testing")
@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEnd:
    """The end of a task, in ``task.after`` of the one that follows it."""

    key: TaskKey
    state: str
    """``success``, ``failure``, ``dropped``, ``expired`` or ``cancelled``."""
    finished_ms: int
    """When it was closed, in milliseconds since 1970."""
    attempts: int = 0
    """The number of its last attempt; 0 if there was none."""
    reason: str | None = None
    """The reason of its end, cut, where there is one."""
    result_text: bytes | None = field(default=None, repr=False)
    """Its result as stores have it; read ``result``."""

    @property
    def result(self) -> JsonValue:
        """The value that it ended with; None without one.  Raises PayloadSealed where it is sealed
        and this process has no codecs.
        """
        if self.result_text is None:
            return None
        if is_sealed(self.result_text):
            refuse_sealed(self.result_text)
        return cast("JsonValue", _decode_value(self.result_text).value)

    @property
    def finished_time(self) -> datetime:
        """When it was closed, in UTC."""
        return from_millis(self.finished_ms)
