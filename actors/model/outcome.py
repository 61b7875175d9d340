"""What user code may return from ``execute``: outcomes are values, exceptions are surprises."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Done:
    """The task is done; the same as returning nothing."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again; counts as an attempt.  ``after=None`` waits as the retry policy says."""

    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Never run this task again; it counts as done, with this reason."""

    reason: str = ""


Outcome = Done | Retry | Drop
