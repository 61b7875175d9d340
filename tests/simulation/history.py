"""The history of a simulated run, entry by entry, as the invariants read it.

It keeps values only and judges nothing.  Times are true milliseconds of the virtual clock
unless a name says ``wall``; nodes are named with their incarnation, as in ``b.2``.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar, cast

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import RecordedOutcome
from tests.simulation.door_history import DoorEntry


class Progress(NamedTuple):
    """A checkpoint of simulated user code."""

    key: str
    epoch: int
    number: int
    """Number of the start of its attempt in this history."""
    made: int
    """Counts those of one attempt."""


@dataclass(frozen=True, slots=True)
class CheckpointSaid:
    """User code made a checkpoint."""

    at_ms: float
    progress: Progress


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """A checkpoint took effect in the store."""

    at_ms: float
    partition: int
    write_time: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Beside:
    """Another attempt that ran when one started: of the same key, or of the same ordering id where
    both have an order.
    """

    id: int
    excuse: str
    """Reason for which promise P3 allows it; empty without one."""
    is_in_process: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """User code was called."""

    at_ms: float
    id: int
    node: str
    partition: int
    epoch: int
    key: TaskKey
    number: int
    offset: int
    queued_ms: float
    wall_ms: int
    is_owner: bool
    """True if the group's coordinator names this node the partition's owner."""
    done_before: str
    """The done completion the owner could have known of; empty where there is none."""
    beside: tuple[Beside, ...]
    known_paused: bool
    """True if its node knew that an operator had paused it."""
    paused_ms: float
    """For how long an operator had paused it by then, whoever knew; 0 where nobody had."""
    kind: str | None
    priority: int | None
    """Its own, as the node has it."""
    alike: int
    """Attempts of this kind and ordering id that run now, and count on this node."""
    tenant: str
    """The tenant that its data names; empty without one."""
    behind: tuple[TaskKey, ...] = ()
    """The tasks of its ordering id that it follows in its batch, the next one first."""
    snoozed: int = 0
    """Number of earlier snoozes of the attempt."""
    expires_ms: int | None = None
    """The wall time at which its data says that it expires."""
    misread: str = ""
    """Data that user code got and nobody gave, or did not get, in words."""
    found: Progress | None = None
    """The checkpoint that it is given."""
    is_endless: bool = False
    """True if its node cannot end it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """User code ended, or died with its process (``killed``, and why), or was cancelled, or counts
    for nothing (``void``), as a task before it in its batch is not done.
    """

    at_ms: float
    id: int
    node: str
    ending: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A client asked for something; ``error`` is the refusal's class, empty where accepted."""

    at_ms: float
    kind: str
    key: TaskKey
    time_ms: int
    """Time that is compared with the grace window."""
    wall_ms: int
    grace_ms: int
    error: str
    partition: int
    offset: int
    by_pair: bool = False
    """True if both ids of the key were given without its time."""


@dataclass(frozen=True, slots=True)
class Written:
    """A row that the application wrote into its outbox."""

    key: TaskKey
    number: int | None
    """Tells the versions of a task apart; None is a cancellation."""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A transaction of the application was committed or rolled back."""

    at_ms: float
    committed: bool
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class RowStored:
    """A row of the schedule took effect in the store."""

    at_ms: float
    partition: int
    key: TaskKey
    offset: int
    write_time: int


@dataclass(frozen=True, slots=True)
class LeftToLoad:
    """The outside writer found that the owner has yet to load a row of its own."""

    at_ms: float
    key: TaskKey


@dataclass(frozen=True, slots=True)
class Completed:
    """A completion took effect in the store."""

    at_ms: float
    partition: int
    key: TaskKey
    result: str
    offset: int
    write_time: int
    has_letter: bool
    returns: bool = False
    """True if it is a success of a task whose attempts may return values."""
    value: str = ""
    """The result of such a one that a reader finds at that moment; empty for none."""
    """True if there was a dead letter of its key by then."""
    attempts: int = 0
    finished_ms: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """The topic of outcomes has a record."""

    at_ms: float
    partition: int
    key: TaskKey
    result: str
    finished: str
    """When the task ended, as text."""
    attempts: int


@dataclass(frozen=True, slots=True)
class OutcomeStored:
    """A command's outcome took effect in the store."""

    at_ms: float
    partition: int
    offset: int
    write_time: int
    outcome: RecordedOutcome
    own_effect: bool
    """True if the key was closed by this very command when the outcome was stored."""
    found: str | None = None
    """Result of the key's completion when the outcome was stored."""
    failed_ago_ms: float = float("inf")
    """Time since the key failed for good, by the true clock; endless if it did not."""
    revived: bool = False
    """True if it brought the data of a dead letter, and the key had ended well before it."""
    pair: "PairState | None" = None
    """The pair's state, for a command by pair."""


@dataclass(frozen=True, slots=True)
class PairState:
    """The tasks of a pair whose records stand before a command, when its outcome was stored."""

    open: tuple[TaskKey, ...]
    changed: tuple[TaskKey, ...]
    """Closed or opened by this very command."""
    closed_since: tuple[TaskKey, ...]
    """Closed otherwise, after the command was appended."""
    closed_before: tuple[TaskKey, ...]
    failed: tuple[TaskKey, ...]
    """Closed as failed or dropped, whenever that was."""


@dataclass(frozen=True, slots=True)
class RowsRemoved:
    """Whole hours of the schedule were deleted."""

    at_ms: float
    partition: int
    open: tuple[TaskKey, ...]
    """Keys of records that were durable and were not closed."""
    failed_ago_ms: float = float("inf")
    """Time since the last one among them failed for good, by the true clock; endless for none."""


@dataclass(frozen=True, slots=True)
class CompletionsRemoved:
    """Whole hours of completions were deleted."""

    at_ms: float
    partition: int
    keys: tuple[TaskKey, ...]
    guarding: tuple[TaskKey, ...]
    """Keys whose schedule row still stands there."""
    youngest_ms: float
    """For how long the last deleted schedule row among them had been gone; endless for none."""


@dataclass(frozen=True, slots=True)
class ReadAmiss:
    """A read of completions was answered other than rows alone would have been."""

    at_ms: float
    partition: int
    complaint: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A partition got a new owner epoch."""

    at_ms: float
    partition: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A next offset became durable, in the group or in the watermark row."""

    at_ms: float
    partition: int
    next_offset: int
    where: str
    undurable: tuple[int, ...]
    """Offsets below it whose record had no durable effect yet."""
    orphans: tuple[TaskKey, ...]
    """Open tasks made by records below it that a restart at this moment would not load."""


@dataclass(frozen=True, slots=True)
class WatermarkSaved:
    """The watermark of a partition became durable."""

    at_ms: float
    partition: int
    watermark_ms: int
    orphans: tuple[TaskKey, ...]
    """Open tasks below it, acknowledged, of no straggler."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A node said that it read a log to its end."""

    at_ms: float
    node: str
    partition: int
    undurable: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A graceful stop ended."""

    at_ms: float
    node: str
    asked_ms: float
    allowed_ms: float
    lost: tuple[TaskKey, ...]
    """Keys whose attempt ended well here, in time, without a durable completion."""
    cut_short: tuple[TaskKey, ...]
    """Keys whose attempt was still running when the stop ended."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A node answered that a partition is given up."""

    at_ms: float
    node: str
    partition: int
    drained: bool
    lost: tuple[TaskKey, ...]
    """As of ``Stopped``."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The memory of one partition on one node."""

    at_ms: float
    node: str
    partition: int
    waiting: int
    queued_max: int
    """Longest queue of one ordering id."""
    executing: int
    uncounted: int
    """Executing tasks that take no slot."""
    data_bytes: int
    """Bytes of the data of all these tasks."""


@dataclass(frozen=True, slots=True)
class Held:
    """A node has the right to start attempts of so many partitions, other than before."""

    at_ms: float
    node: str
    partitions: int


Step = Literal["waits", "goes", "leaves"]


@dataclass(frozen=True, slots=True)
class LineStep:
    """An attempt waits for the only limit of its kind, goes on from it, or leaves it otherwise."""

    at_ms: float
    node: str
    member: int
    """The process of the node."""
    line: str
    """The limit and the value of its key."""
    step: Step
    id: int
    """The attempt among those that came to a line, in order; -1 for one that did not wait."""
    priority: int
    value: str = ""
    """The value that takes turns with others by fair shares; empty without these."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    """A node limits by what operators changed from now on, and else by what is declared."""

    at_ms: float
    node: str
    changes: tuple[LimitChange, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """A node reported an event."""

    at_ms: float
    node: str
    event: Event


HELD = "held "
"""Begins what is said of a fault of one partition alone; its number follows."""
STARVED = "starved"
"""Is said of a process that gets few turns."""
HALTS = ("pause", STARVED)
"""Are said of processes that may hear late of what happens."""
LETTERS_FAIL = f"{HELD}dead letters"
"""Is said of a fault of all dead letters, which holds the partitions that need one."""


CLOCK_FAR, CLOCK_RIGHT = "clock far", "clock right"
"""A machine's clock was set by hours or days, and was set right."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault was injected, or a node came or went."""

    at_ms: float
    what: str
    node: str = ""
    until_ms: float = 0.0
    """Time at which its direct effect is over."""


@dataclass(frozen=True, slots=True)
class Misdelivered:
    """User code or middleware was given data that is not what was scheduled."""

    at_ms: float
    key: TaskKey
    complaint: str


@dataclass(frozen=True, slots=True)
class Miscalled:
    """User code was called as no stage may let it be."""

    at_ms: float
    key: TaskKey
    complaint: str


Entry = (
    Started
    | CheckpointSaid
    | CheckpointKept
    | Miscalled
    | Misdelivered
    | Ended
    | Asked
    | TransactionEnded
    | RowStored
    | LeftToLoad
    | Completed
    | Told
    | OutcomeStored
    | RowsRemoved
    | CompletionsRemoved
    | ReadAmiss
    | Claimed
    | Committed
    | WatermarkSaved
    | CaughtUp
    | Stopped
    | Revoked
    | Sampled
    | Held
    | LineStep
    | ConfigApplied
    | Noted
    | Happened
    | DoorEntry
)
Kind = TypeVar("Kind")


class History:
    """Every entry of a run, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._by_kind: dict[type[Entry], list[Entry]] = defaultdict(list)

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries.append(entry)
        self._by_kind[type(entry)].append(entry)

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the entries of one kind."""
        return iter(cast("list[Kind]", self._by_kind[cast("type[Entry]", kind)]))

    def digest(self) -> str:
        """Return a hash of everything that happened: equal runs have equal digests."""
        return hashlib.sha256("\n".join(map(repr, self.entries)).encode()).hexdigest()
