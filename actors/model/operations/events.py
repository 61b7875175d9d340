"""All events for operators, as typed past-tense values.

One class, one log name, one metric. Times are milliseconds; ``partition`` is -1 if an event
concerns the node.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult, CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import StoredTask


class PartitionAssigned(msgspec.Struct, frozen=True, gc=False):
    """This node owns the partition; reading starts at ``next_offset``."""

    partition: int
    epoch: int
    next_offset: int
    end_offset: int


class PartitionRevoked(msgspec.Struct, frozen=True, gc=False):
    """The partition was given up; ``drained`` is False if the deadline passed first."""

    partition: int
    drained: bool


class PartitionLost(msgspec.Struct, frozen=True, gc=False):
    """The partition went to another node without a revocation."""

    partition: int
    reason: str


class CatchUpEnded(msgspec.Struct, frozen=True, gc=False):
    """The partition may start tasks; ``complete`` is False if the deadline ended it."""

    partition: int
    waited_ms: int
    complete: bool


class TreeRebuilt(msgspec.Struct, frozen=True, gc=False):
    """The tree failed and is rebuilt from the store after a pause."""

    cause: str
    failures: int
    pause_ms: int


class BatchPersisted(msgspec.Struct, frozen=True, gc=False):
    """Tasks of one partition became durable in the store."""

    partition: int
    tasks: int
    commands: int
    duration_ms: float


class TasksStored(msgspec.Struct, frozen=True, gc=False):
    """Rows were written, each replacing its key's previous row; ``scheduled_ms`` has each one's
    time.
    """

    partition: int
    scheduled_ms: tuple[int, ...]
    last_offset: int


def stored_event(partition: int, tasks: Sequence[StoredTask]) -> TasksStored:
    """Return the event of written rows."""
    times = tuple([task.key.scheduled_ms for task in tasks])
    return TasksStored(partition, times, max([task.offset for task in tasks]))


class RecordPoisoned(msgspec.Struct, frozen=True, gc=False):
    """A record cannot be decoded or stored; the dead-letter topic has it."""

    partition: int
    offset: int
    reason: str


class RecordMisplaced(msgspec.Struct, frozen=True, gc=False):
    """A record was in another partition than its own and was produced again."""

    partition: int
    offset: int
    own_partition: int


class WindowLoaded(msgspec.Struct, frozen=True, gc=False):
    """Tasks were loaded from the store; the window now ends at ``reached_ms``."""

    partition: int
    tasks: int
    reached_ms: int
    duration_ms: float


class WindowShrunk(msgspec.Struct, frozen=True, gc=False):
    """More tasks arrived than memory may hold; the latest were left to the store."""

    partition: int
    dropped: int


class PartitionLoadReported(msgspec.Struct, frozen=True, gc=False):
    """The numbers of a partition's tasks in memory."""

    partition: int
    waiting: int
    executing: int


class AttemptStarted(msgspec.Struct, frozen=True, gc=False):
    """User code was called, ``delay_ms`` after it was due."""

    partition: int
    key: TaskKey
    attempt: int
    delay_ms: int
    limited_ms: int = 0
    """Time for which its limit had too little; this part of its delay is not lateness."""
    is_unordered: bool = False
    """True if others of its ordering id may run beside it."""


class AttemptFinished(msgspec.Struct, frozen=True, gc=False):
    """User code ended."""

    partition: int
    key: TaskKey
    attempt: int
    result: AttemptResult
    duration_ms: int
    finished_ms: int
    error_class: str | None = None
    kind: str | None = None
    failed_ms: int = 0
    """Time of the first failure of an earlier attempt; 0 if there was none, or this one ended
    well."""


class AttemptFailed(msgspec.Struct, frozen=True):
    """User code raised, timed out or returned an invalid value.

    Emitted once for each such attempt where the error is known, so before ``AttemptFinished``; also
    if the outcome of the attempt is no longer wanted.
    """

    partition: int
    key: TaskKey
    attempt: int
    result: AttemptResult
    duration_ms: int
    error: BaseException
    is_showable: bool
    """True if its stack can be shown: message, notes and causes may be anybody's code."""
    stack: str | None = None
    """The whole stack as text; None if it was not formatted."""
    kind: str | None = None


class AttemptRefused(msgspec.Struct, frozen=True, gc=False):
    """An attempt did not start because the node had no lease or the clock was set back."""

    partition: int
    key: TaskKey


class AttemptStuck(msgspec.Struct, frozen=True, gc=False):
    """An attempt passed its timeout, or made no checkpoint for so long, and still runs.

    Emitted for a blocking attempt that passes its ``timeout``: it continues, and its slot stays
    taken.  After ``stuck_after`` it is emitted for every attempt: in a coroutine or a process it is
    ended then.
    """

    partition: int
    key: TaskKey
    limit: str
    """``timeout`` or ``stuck_after``."""
    limit_ms: int


class AttemptAbandoned(msgspec.Struct, frozen=True, gc=False):
    """The partition of an attempt is given up while it runs; its outcome is discarded."""

    partition: int
    key: TaskKey
    attempt: int
    reason: str
    """The deadline that passed and its setting, or the new owner of the partition."""


class WorkersExhausted(msgspec.Struct, frozen=True, gc=False):
    """All workers of a pool are busy, and an attempt has waited for one for a second.

    Emitted once; ``WorkersFreed`` ends it.
    """

    pool: str
    """``threads`` for blocking code, ``async`` for coroutines."""
    workers_max: int
    setting: str
    """The name of the setting that ``workers_max`` comes from."""
    waiting: int
    waited_ms: int


class WorkersFreed(msgspec.Struct, frozen=True, gc=False):
    """Attempts wait less than a second for a worker again."""

    pool: str
    workers_max: int
    busy_ms: int


class LoopBlocked(msgspec.Struct, frozen=True, gc=False):
    """One coroutine has kept the event loop for a second, so all others wait.

    Emitted once; ``LoopFreed`` ends it.
    """

    partition: int | None
    key: TaskKey | None
    """The task whose attempt does so; None if it is a coroutine that the attempt began."""
    code: str
    """File, line and function that the loop's thread is in."""
    blocked_ms: int


class LoopFreed(msgspec.Struct, frozen=True, gc=False):
    """The event loop continues."""

    blocked_ms: int


class RetriesExhausted(msgspec.Struct, frozen=True, gc=False):
    """A task used up its attempts; ``on_exhausted`` says what follows."""

    partition: int
    key: TaskKey
    on_exhausted: str
    attempt: int = 0
    """Number of the last attempt; it and the next three are as stored, from any node."""
    failed_ms: int = 0
    """Time of the first failure."""
    error_class: str | None = None
    kind: str | None = None


class TaskHeld(msgspec.Struct, frozen=True, gc=False):
    """A task is held: this node has no executor of its kind, or no key for its data."""

    partition: int
    key: TaskKey
    kind: str | None
    message: str
    error_class: str
    failed_ms: int = 0
    """Time since when it is held, or of its first failed attempt; 0 if that is now."""


class TaskClosed(msgspec.Struct, frozen=True, gc=False):
    """A key is closed, durably."""

    partition: int
    key: TaskKey
    result: CompletionResult


class TasksSucceeded(msgspec.Struct, frozen=True, gc=False):
    """Attempts ended well and closed their tasks, durably: one event for many tasks."""

    partition: int
    finished: tuple[AttemptFinished, ...]

    def singles(self) -> "Iterator[AttemptFinished | TaskClosed]":
        """Yield an event for each task."""
        for finished in self.finished:
            yield finished
            yield TaskClosed(self.partition, finished.key, CompletionResult.SUCCESS)


class CommandDecided(msgspec.Struct, frozen=True, gc=False):
    """A command had its effect, durably."""

    partition: int
    key: TaskKey
    kind: CommandKind
    outcome: CommandOutcome
    is_new: bool = False
    """True for a replace that closed no task."""


class WatermarkAdvanced(msgspec.Struct, frozen=True, gc=False):
    """Everything before ``watermark_ms`` is closed, except ``stragglers`` ordering ids."""

    partition: int
    watermark_ms: int
    stragglers: int


class WatermarkHeld(msgspec.Struct, frozen=True, gc=False):
    """More ordering ids are blocked than the watermark may pass; it waits for them."""

    partition: int
    watermark_ms: int
    blocked: int


class RelayRecordRefused(msgspec.Struct, frozen=True, gc=False):
    """A message of the relay's in-topic cannot be relayed; it was put aside or dropped."""

    partition: int
    offset: int
    reason: str


class MessageRelayed(msgspec.Struct, frozen=True, gc=False):
    """A message was passed on, ``late_ms`` after it was due."""

    late_ms: int


class TimerPopped(msgspec.Struct, frozen=True, gc=False):
    """A timer called back; ``result`` is popped, failed (retried) or given_up."""

    result: str
    late_ms: int


class TimerTagChanged(msgspec.Struct, frozen=True, gc=False):
    """A timer that was made, changed or ended changes a tag's count by this number."""

    tag: str
    gained: int


class TaskEnqueued(msgspec.Struct, frozen=True, gc=False):
    """A client's record was acknowledged by the log."""

    partition: int
    duration_ms: float


class BulkEnqueued(msgspec.Struct, frozen=True, gc=False):
    """A number of records of one bulk call were acknowledged since the last such event."""

    tasks: int
    duration_ms: float


class AssignmentReceived(msgspec.Struct, frozen=True, gc=False):
    """The group gave this node the partition; its tasks start some time later."""

    partition: int


class OrderingsMeasured(msgspec.Struct, frozen=True, gc=False):
    """The number of a partition's ordering ids with tasks in hand, and of those that wait.

    ``held`` wait for a retry, an operator or slow code. ``overdue_ms`` is the time since the oldest
    open task was due, 0 if none is overdue.
    """

    partition: int
    busy: int
    held: int
    overdue_ms: int


def orderings_measured(
    partition: int, busy: int, held: Sequence[Straggler], earliest_ms: int | None, now_ms: int
) -> OrderingsMeasured:
    """Return the event of a measurement; ``held`` is sorted, ``earliest_ms`` of all others."""
    first_ms = [now_ms if earliest_ms is None else earliest_ms]
    first_ms += [straggler.first_ms for straggler in held[:1]]
    return OrderingsMeasured(partition, busy, len(held), max(0, now_ms - min(first_ms)))


class StoreCalled(msgspec.Struct, frozen=True, gc=False):
    """A request to the store was answered; ``rows`` were to be written, 0 for a read.

    ``error`` is the code of the failure, None without one.
    """

    call: str
    rows: int
    duration_ms: float
    error: str | None = None


class LogCalled(msgspec.Struct, frozen=True, gc=False):
    """A request to the log was answered; ``error`` as for the store."""

    call: str
    duration_ms: float
    error: str | None = None


class SelfChecked(msgspec.Struct, frozen=True, gc=False):
    """The self-check compared a number of tasks with the store."""

    tasks: int


class PromiseDoubted(msgspec.Struct, frozen=True, gc=False):
    """The self-check suspects a broken promise for a task."""

    partition: int
    key: TaskKey
    promise: str
    reason: str


class OwnerBegan(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: no earlier owner of a partition can have an effect any more."""

    partition: int
    waited_ms: float
    """Time since the group assigned this partition to the node."""


class TransactionCommitted(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: one step of a partition's owner took effect."""

    records: int
    moved: int
    """Messages that went to a nearer bucket."""
    put_aside: int
    """Messages of the pending topic that went to the dead-letter topic."""


class BucketSplit(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: this node split a bucket that grew too full."""

    version: int
    """Version of the new layout."""


class LimitChanged(msgspec.Struct, frozen=True, gc=False):
    """An operator changed a limit, or reset it, and this node applies that from now on."""

    limit: str
    """The limit's name."""
    before: str
    after: str


class PartitionHeld(msgspec.Struct, frozen=True, gc=False):
    """Something of this partition fails and is retried: nothing more of it is read until then.

    Emitted at once, then at growing intervals; ``held_ms`` is its duration so far.
    """

    partition: int
    reason: str
    held_ms: int


class PartitionReleased(msgspec.Struct, frozen=True, gc=False):
    """A partition that was held is read again."""

    partition: int
    held_ms: int


class OutcomesTold(msgspec.Struct, frozen=True, gc=False):
    """The stream of outcomes has some more of a partition."""

    partition: int
    outcomes: int
    late_ms: int
    """Age of the oldest outcome that may still be missing there; 0 if none is."""


class OutcomesHeld(msgspec.Struct, frozen=True, gc=False):
    """The stream of outcomes did not take what a partition has to tell; it is tried again."""

    partition: int
    message: str
    late_ms: int


class OutcomeRefused(msgspec.Struct, frozen=True, gc=False):
    """A closed task is not told: its ids alone are too long for the stream."""

    partition: int
    key: TaskKey
    message: str


Event = (
    PartitionAssigned
    | PartitionRevoked
    | PartitionLost
    | CatchUpEnded
    | TreeRebuilt
    | BatchPersisted
    | TasksStored
    | RecordPoisoned
    | RecordMisplaced
    | PartitionHeld
    | PartitionReleased
    | WindowLoaded
    | WindowShrunk
    | PartitionLoadReported
    | AttemptStarted
    | AttemptFinished
    | AttemptFailed
    | AttemptRefused
    | AttemptStuck
    | AttemptAbandoned
    | WorkersExhausted
    | WorkersFreed
    | LoopBlocked
    | LoopFreed
    | RetriesExhausted
    | TaskHeld
    | TaskClosed
    | TasksSucceeded
    | CommandDecided
    | WatermarkAdvanced
    | WatermarkHeld
    | RelayRecordRefused
    | MessageRelayed
    | TimerPopped
    | TimerTagChanged
    | TaskEnqueued
    | BulkEnqueued
    | AssignmentReceived
    | OrderingsMeasured
    | StoreCalled
    | LogCalled
    | SelfChecked
    | PromiseDoubted
    | OwnerBegan
    | TransactionCommitted
    | BucketSplit
    | LimitChanged
    | OutcomesTold
    | OutcomesHeld
    | OutcomeRefused
)


def single_events(event: Event) -> Iterable[Event]:
    """Return the event, or one for each task if it is about many."""
    return event.singles() if isinstance(event, TasksSucceeded) else (event,)
