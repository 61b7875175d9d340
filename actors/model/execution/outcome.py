"""The values that user code may return from ``execute``: outcomes are values, exceptions are
surprises.
"""

from dataclasses import dataclass
from datetime import timedelta

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.public import public


@public("hourhand")
@dataclass(frozen=True, slots=True)
class Done:
    """The task is done. Its value, any JSON, can be read by ``client.wait_result``; without one it
    is the same as returning None.
    """

    value: object = None


@dataclass(frozen=True, slots=True)
class SealedDone(Done):
    """A ``Done`` whose value payload codecs have sealed; the node makes it, never user code."""

    text: bytes = b""
    """The row's text, in place of the value."""


@public("hourhand")
@dataclass(frozen=True, slots=True)
class Retry:
    """Try again; counts as an attempt. ``after=None`` waits as the retry policy says.

    Raises TypeError for a value that is not a timedelta and ValueError for a negative one.
    """

    after: timedelta | None = None

    def __post_init__(self) -> None:
        after: object = self.after
        if after is None:
            return
        if not isinstance(after, timedelta):
            got = shown(after)
            raise TypeError(f"Retry(after={got}): a timedelta is needed, as timedelta(seconds=5)")
        if after < timedelta(0):
            raise ValueError(f"Retry(after={after.total_seconds():g} s): it cannot be negative")


@public("hourhand")
@dataclass(frozen=True, slots=True)
class Snooze:
    """Look at the task again after this time: the attempt goes on then, and no attempt is used up.

    An attempt that was snoozed ``times_max`` times already fails instead, and the retry policy
    decides what follows. Raises TypeError for a value that is not a timedelta or not a
    number, and ValueError for a negative time and for less than one time.
    """

    after: timedelta
    times_max: int | None = None

    def __post_init__(self) -> None:
        after: object = self.after
        most: object = self.times_max
        if not isinstance(after, timedelta):
            got = shown(after)
            raise TypeError(f"Snooze(after={got}): a timedelta is needed, as timedelta(minutes=5)")
        if after < timedelta(0):
            raise ValueError(f"Snooze(after={after.total_seconds():g} s): it cannot be negative")
        if most is None:
            return
        if type(most) is not int:
            raise TypeError(f"Snooze(times_max={shown(most)}): a whole number or None is needed")
        if most < 1:
            raise ValueError(f"Snooze(times_max={most}): it is at least 1")


@public("hourhand")
@dataclass(frozen=True, slots=True)
class Drop:
    """Never run this task again; it counts as done, with this reason, which is text."""

    reason: str = ""

    def __post_init__(self) -> None:
        reason: object = self.reason
        if not isinstance(reason, str):
            raise TypeError(f"Drop({shown(reason)}): a reason is text")


Outcome = Done | Retry | Snooze | Drop
