"""Everything worth telling an operator, as typed past-tense values.

One class, one log name, one metric.  Times are milliseconds; ``partition`` is -1 where an
event concerns the node.
"""

from dataclasses import dataclass

from actors.model.codec import CommandKind
from actors.model.key import TaskKey
from actors.model.status import AttemptResult, CommandOutcome, CompletionResult


@dataclass(frozen=True, slots=True)
class PartitionAssigned:
    """This node owns the partition; reading starts at ``next_offset``."""

    partition: int
    epoch: int
    next_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class PartitionRevoked:
    """The partition was given up; ``drained`` is False where the deadline passed first."""

    partition: int
    drained: bool


@dataclass(frozen=True, slots=True)
class PartitionLost:
    """The partition went to another node without a revocation."""

    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class CatchUpEnded:
    """The partition may start tasks; ``complete`` is False where the deadline ended it."""

    partition: int
    waited_ms: int
    complete: bool


@dataclass(frozen=True, slots=True)
class TreeRebuilt:
    """The tree failed and is rebuilt from the store after a pause."""

    cause: str
    failures: int
    pause_ms: int


@dataclass(frozen=True, slots=True)
class BatchPersisted:
    """Tasks of one partition became durable in the store."""

    partition: int
    tasks: int
    commands: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class RecordPoisoned:
    """A record cannot be decoded or stored; the dead-letter topic has it."""

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordMisplaced:
    """A record stood in another partition than its own and was produced again."""

    partition: int
    offset: int
    own_partition: int


@dataclass(frozen=True, slots=True)
class WindowLoaded:
    """Tasks were loaded from the store; the window now ends at ``reached_ms``."""

    partition: int
    tasks: int
    reached_ms: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class WindowShrunk:
    """More tasks arrived than memory may hold; the latest were left to the store."""

    partition: int
    dropped: int


@dataclass(frozen=True, slots=True)
class PartitionLoadReported:
    """How many tasks of a partition are in memory."""

    partition: int
    waiting: int
    executing: int


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """User code was called, ``delay_ms`` after it was due."""

    partition: int
    key: TaskKey
    attempt: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """User code ended."""

    partition: int
    key: TaskKey
    attempt: int
    result: AttemptResult
    duration_ms: int
    finished_ms: int
    error_class: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptRefused:
    """An attempt did not start because the node had no lease or the clock was set back."""

    partition: int
    key: TaskKey


@dataclass(frozen=True, slots=True)
class AttemptStuck:
    """A blocking attempt passed its timeout and goes on; its slot stays taken."""

    partition: int
    key: TaskKey
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AttemptAbandoned:
    """An attempt outlived its drain deadline; its outcome will be discarded."""

    partition: int
    key: TaskKey


@dataclass(frozen=True, slots=True)
class RetriesExhausted:
    """A task used up its attempts; ``on_exhausted`` says what follows."""

    partition: int
    key: TaskKey
    on_exhausted: str


@dataclass(frozen=True, slots=True)
class TaskClosed:
    """A key is closed, durably."""

    partition: int
    key: TaskKey
    result: CompletionResult


@dataclass(frozen=True, slots=True)
class CommandDecided:
    """A command had its effect, durably."""

    partition: int
    key: TaskKey
    kind: CommandKind
    outcome: CommandOutcome


@dataclass(frozen=True, slots=True)
class WatermarkAdvanced:
    """Everything before ``watermark_ms`` is closed, but for ``stragglers`` ordering ids."""

    partition: int
    watermark_ms: int
    stragglers: int


@dataclass(frozen=True, slots=True)
class WatermarkHeld:
    """More ordering ids are blocked than the watermark may pass; it waits for them."""

    partition: int
    watermark_ms: int
    blocked: int


@dataclass(frozen=True, slots=True)
class TaskEnqueued:
    """A client's record was acknowledged by the log."""

    partition: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class BulkEnqueued:
    """That many records of one bulk call were acknowledged since the last such event."""

    tasks: int
    duration_ms: float


Event = (
    PartitionAssigned
    | PartitionRevoked
    | PartitionLost
    | CatchUpEnded
    | TreeRebuilt
    | BatchPersisted
    | RecordPoisoned
    | RecordMisplaced
    | WindowLoaded
    | WindowShrunk
    | PartitionLoadReported
    | AttemptStarted
    | AttemptFinished
    | AttemptRefused
    | AttemptStuck
    | AttemptAbandoned
    | RetriesExhausted
    | TaskClosed
    | CommandDecided
    | WatermarkAdvanced
    | WatermarkHeld
    | TaskEnqueued
    | BulkEnqueued
)
