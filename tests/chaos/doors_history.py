"""The history of relay and timers of a chaos run: requests and arrivals.

Plain values that the load writes down and the auditor judges; nothing of the engine is
imported.  A moment is microseconds of CLOCK_BOOTTIME; only ``*_wall_ms`` is the wall clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.judge.history import Fault

_ANSWERED_WITHIN_US = 3_000_000
"""A request is answered so soon after its time was read, unless it has to be made again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the in-topic acknowledged."""

    number: int
    key: str
    due_wall_ms: int
    acknowledged_wall_ms: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message on the out-topic."""

    number: int
    key: str
    partition: int
    offset: int
    produced_wall_ms: int
    """As the relay's producer stamped it."""
    at_us: int
    """Time at which it was read."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that was asked for."""

    number: int
    interval_ms: int
    pops: int
    asked_wall_ms: int
    accepted: bool
    """True if it was answered with 200; else it may be there or not."""
    deleted_us: int | None = None
    """Time at which its deletion was answered."""
    node: int = 0
    """The node that answered; 0 if none did."""
    answered_us: int = 0
    """Time at which it was answered."""

    def clock_of(self, faults: Sequence[Fault]) -> Fault | None:
        """Return the wrong clock by which its times are counted, if there was one."""
        for fault in faults:
            is_meanwhile = fault.from_us <= self.answered_us <= fault.to_us + _ANSWERED_WITHIN_US
            if fault.ahead_us and fault.target == f"node {self.node}" and is_meanwhile:
                return fault
        return None


@dataclass(frozen=True, slots=True)
class Pop:
    """A callback."""

    number: int
    """Number of the timer."""
    sequence: int
    at_wall_ms: int
    at_us: int


@dataclass(frozen=True, slots=True)
class DoorsHistory:
    """Everything about the doors."""

    sent: Sequence[Sent]
    arrived: Sequence[Arrived]
    timers: Sequence[Timer]
    pops: Sequence[Pop]
