"""The history of the doors of a simulated run: messages, callbacks and requests.

It keeps values only, as ``history`` does, of which it is a part.  Requests are kept as the workload
meant them, so that no invariant reads them with the engine's own code.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hourhand.scheduler.services.timers.timer import TimerRule


@dataclass(frozen=True, slots=True)
class Put:
    """A record was appended to the in-topic."""

    at_ms: float
    partition: int
    offset: int
    action: str
    """schedule, cancel or reschedule; empty where its headers cannot be used."""
    id: str
    due_ms: int
    """Its deadline, by the wall clock."""
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes | None]]
    """Those that are passed on."""
    fits: bool | None = True
    """True if a row may hold it; None where that is too near to tell without its encoding."""


@dataclass(frozen=True, slots=True)
class SentLater:
    """A client's ``send_later`` was acknowledged."""

    at_ms: float
    due_ms: int
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Appeared:
    """A message appeared on the out-topic."""

    at_ms: float
    node: str
    attempt: int
    wall_ms: int
    """By the clock of the node, when it began to produce it."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class InCommitted:
    """A next offset of the in-topic was committed."""

    at_ms: float
    partition: int
    next_offset: int
    undurable: Sequence[int]
    """Offsets below it of which nothing was durable yet."""


@dataclass(frozen=True, slots=True)
class TimerAsked:
    """Somebody asked for a timer to be made, replaced or (without a rule) deleted."""

    at_ms: float
    number: int
    """The change's own: part of its record's uniqueness key."""
    timer_id: str
    rule: TimerRule | None
    made: bool
    """True if no timer of that id can have been there."""


@dataclass(frozen=True, slots=True)
class TimerAnswered:
    """The service answered."""

    at_ms: float
    number: int
    error: str
    """The failure's class; empty where the change was accepted."""


@dataclass(frozen=True, slots=True)
class Called:
    """A callback was made."""

    at_ms: float
    id: int
    node: str
    attempt: int
    wall_ms: int
    uri: str
    body: bytes
    number: int


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The node heard how a callback ended."""

    at_ms: float
    id: int
    well: bool


@dataclass(frozen=True, slots=True)
class RecurringAsked:
    """A change of a recurring schedule was sent to the log."""

    at_ms: float
    number: int
    name: str
    change: str


DoorEntry = (
    Put
    | SentLater
    | Appeared
    | InCommitted
    | TimerAsked
    | TimerAnswered
    | Called
    | CallAnswered
    | RecurringAsked
)
"""All that doors add to a history."""
