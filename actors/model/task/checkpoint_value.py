"""Checkpoints of tasks, by which code reports its progress, as the text of a row.

Decides which values a checkpoint may hold.  Others decide when it is durable.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from hourhand.actors.model.task.json_text import VALUE_BYTES_MAX, row_text, value_bytes, value_of
from hourhand.actors.model.values.errors import InvalidCheckpoint


class AttemptCheckpoints(Protocol):
    """The checkpoints of one attempt; may be used from any thread."""

    @property
    def found(self) -> bytes | None:
        """The text of the newest one of the attempts before; None where there is none."""

    @property
    def snoozed(self) -> int:
        """Times that the attempt was snoozed so far."""

    def make(self, text: bytes) -> None:
        """Take a row's text as the newest one; returns at once, whatever the store does."""


class _NoAttempt:
    """Stands for the checkpoints of an executor that no node runs, as in its own tests."""

    @property
    def found(self) -> bytes | None:
        return None

    @property
    def snoozed(self) -> int:
        return 0

    def make(self, text: bytes) -> None:
        del text


NO_ATTEMPT: AttemptCheckpoints = _NoAttempt()


def checkpoint_text(value: object) -> bytes:
    """Return the text of a row; raises InvalidCheckpoint where the value cannot be one."""
    text = row_text(value, "checkpoint", InvalidCheckpoint)
    if value_bytes(text) > VALUE_BYTES_MAX:
        raise InvalidCheckpoint(
            f"the checkpoint has {value_bytes(text)} bytes as JSON, at most {VALUE_BYTES_MAX} are"
            " allowed: keep what is large in a store of your own, and here where it is"
        )
    return text


def checkpoint_value(text: bytes | None) -> object:
    """Return the value of a row's text, None without one; PayloadSealed where it is sealed."""
    return None if text is None else value_of(text, "checkpoint")


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
