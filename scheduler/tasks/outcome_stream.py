"""An outcome as a user's program reads it: times as aware datetimes, the value as it was returned.

Decides the fields; the stream's record has them as text.
"""

from datetime import datetime
from typing import Any

import msgspec

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.instant import from_millis, parse_instant
from hourhand.actors.ports.store import KeptOutcome
from hourhand.scheduler.ports.outcomes import read_outcome


class OutcomeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task, from the stream of outcomes."""

    position: int
    """Place in the stream: give it to ``outcomes(after=…)`` to go on behind this one."""
    key: TaskKey
    result: str
    """``success``, ``failure``, ``dropped``, ``expired``, ``cancelled`` or ``moved``."""
    kind: str | None
    attempts: int
    """Number of the last attempt; 0 if none began."""
    started: datetime | None
    finished: datetime
    moved_to: datetime | None
    """The time of the key that a moved task has from then on."""
    reason: str | None
    returned: bytes
    """The value that the task ended with as JSON, ``{"value": …}``, or as it is sealed; empty
    without one."""
    left_out: str | None
    """The cause for which value or reason are missing: ``too_large`` or ``expired``."""

    @property
    def value(self) -> Any:
        """The value that the task ended with; None without one, or if it is sealed:
        ``wait_result`` opens it.
        """
        return msgspec.json.decode(self.returned).get("value") if self.returned else None


def outcome_info(kept: KeptOutcome) -> OutcomeInfo:
    """Return an outcome that the store keeps."""
    told = read_outcome(kept.value)
    return OutcomeInfo(
        position=kept.position,
        key=TaskKey.parse(told.key),
        result=told.result.value,
        kind=told.kind,
        attempts=told.attempts,
        started=_instant(told.started_time),
        finished=from_millis(parse_instant(told.finished_time)),
        moved_to=_instant(told.moved_to),
        reason=told.reason,
        returned=b"" if told.returned is msgspec.UNSET else bytes(told.returned),
        left_out=told.left_out,
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else from_millis(parse_instant(text))
