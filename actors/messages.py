"""The whole conversation of the tree, in the order of a task's life.

Requests are verb and noun (``PersistTasks``), answers noun and participle
(``TasksPersisted``).  All are frozen; lists travel as tuples, because nothing goes through
the tree one message a task where a list would do.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from actors.kernel.ref import Recipient
from actors.model.attempts import Attempt, KeyStatus
from actors.model.codec import Command, LogRecord
from actors.model.commands import Holding, Withdrawal
from actors.model.key import TaskKey
from actors.model.ownership import Assignment, Straggler
from actors.model.status import AttemptRecord, Completion, CompletionResult
from actors.model.task import StoredTask


@dataclass(frozen=True, slots=True)
class AssignPartitions:
    """Node to TopicSupervisor: grow a subtree for each."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Siblings:
    """The refs the five actors of a partition know of each other."""

    supervisor: Recipient
    task_persistence: Recipient
    throughput_controller: Recipient
    partition_scheduler: Recipient
    partition_executor: Recipient
    completion_tracker: Recipient


@dataclass(frozen=True, slots=True)
class MeetSiblings:
    """PartitionSupervisor to its children: all five exist, begin."""

    siblings: Siblings


@dataclass(frozen=True, slots=True)
class PersistRecords:
    """Node to TopicSupervisor: make a polled batch durable; sent for empty polls too."""

    batch: int
    records: tuple[LogRecord, ...]
    reached: Mapping[int, int]
    """Partition to next offset after this batch."""


@dataclass(frozen=True, slots=True)
class PersistTasks:
    """TopicSupervisor to TaskPersistence: one partition's share, in log order."""

    batch: int
    entries: tuple[StoredTask | Command, ...]
    next_offset: int
    pending_offset: int | None = None
    """The first record that another partition or the dead-letter topic has not acknowledged
    yet: the watermark may not say that reading got further (P9)."""


@dataclass(frozen=True, slots=True)
class TasksPersisted:
    """TaskPersistence to TopicSupervisor: every entry had its durable effect."""

    batch: int
    partition: int


@dataclass(frozen=True, slots=True)
class RecordsPersisted:
    """TopicSupervisor to node: the whole batch is durable, but for partitions let go of."""

    batch: int
    unpersisted: frozenset[int] = frozenset()
    """Partitions whose subtree ended first: their share counts as never delivered (P9)."""


@dataclass(frozen=True, slots=True)
class LogCaughtUp:
    """TaskPersistence to PartitionSupervisor: the log is read to the end found then."""

    partition: int


@dataclass(frozen=True, slots=True)
class StartTasks:
    """PartitionSupervisor to PartitionScheduler: due tasks may be executed from now on."""


@dataclass(frozen=True, slots=True)
class MeasureLoad:
    """ThroughputController to PartitionScheduler: how much is in memory?"""


@dataclass(frozen=True, slots=True)
class LoadMeasured:
    """PartitionScheduler to ThroughputController; unasked where the limit is exceeded."""

    waiting: int
    executing: int


@dataclass(frozen=True, slots=True)
class ShrinkWindow:
    """ThroughputController to PartitionScheduler: keep this many waiting tasks."""

    tasks_max: int


@dataclass(frozen=True, slots=True)
class LowerCheckpoint:
    """PartitionScheduler to TaskPersistence: tasks after this key left memory."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class LoadTasks:
    """ThroughputController to TaskPersistence: load what is due before a time."""

    before_ms: int
    limit: int


@dataclass(frozen=True, slots=True)
class LoadStatuses:
    """TaskPersistence to CompletionTracker: statuses of ``after`` < key <= ``up_to``."""

    after: TaskKey
    up_to: TaskKey


@dataclass(frozen=True, slots=True)
class StatusesLoaded:
    """CompletionTracker to TaskPersistence; keys without any status are absent."""

    statuses: Mapping[TaskKey, KeyStatus]


@dataclass(frozen=True, slots=True)
class FindStatuses:
    """TaskPersistence to CompletionTracker: statuses of single keys."""

    keys: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class StatusesFound:
    """CompletionTracker to TaskPersistence; keys without any status are absent."""

    statuses: Mapping[TaskKey, KeyStatus]


@dataclass(frozen=True, slots=True)
class TasksLoaded:
    """TaskPersistence to ThroughputController: how far the window reaches now."""

    reached_ms: int
    complete: bool


@dataclass(frozen=True, slots=True)
class HoldOrderings:
    """TaskPersistence to PartitionScheduler: ids with open tasks before the watermark."""

    stragglers: tuple[Straggler, ...]
    watermark_ms: int


@dataclass(frozen=True, slots=True)
class ScheduleTasks:
    """TaskPersistence to PartitionScheduler: open tasks inside the loaded window."""

    tasks: tuple[StoredTask, ...]


@dataclass(frozen=True, slots=True)
class ExecuteTasks:
    """PartitionScheduler to PartitionExecutor: these are due, in key order."""

    tasks: tuple[StoredTask, ...]


@dataclass(frozen=True, slots=True)
class ExecuteTask:
    """PartitionExecutor to OrderingExecutor."""

    task: StoredTask


@dataclass(frozen=True, slots=True)
class HoldOrdering:
    """PartitionExecutor to OrderingExecutor: read this range before anything else runs."""

    after: TaskKey
    up_to: TaskKey


@dataclass(frozen=True, slots=True)
class LoadOrdering:
    """OrderingExecutor to TaskPersistence: its own tasks that were left to the store."""

    ordering_id: str
    after: TaskKey
    up_to: TaskKey
    limit: int
    reply_to: Recipient


@dataclass(frozen=True, slots=True)
class OrderingLoaded:
    """TaskPersistence to OrderingExecutor: open tasks, in key order."""

    tasks: tuple[StoredTask, ...]
    next_after: TaskKey | None
    """Where to go on; None where the range is read to its end."""


@dataclass(frozen=True, slots=True)
class AttemptTask:
    """OrderingExecutor to TaskExecutor: try this task until it is closed."""

    task: StoredTask


@dataclass(frozen=True, slots=True)
class AdoptAttempt:
    """OrderingExecutor to TaskExecutor: take over an attempt of an earlier tree."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """OrderingExecutor to TaskExecutor: a later record of the task at hand (P6)."""

    task: StoredTask


@dataclass(frozen=True, slots=True)
class CheckTask:
    """TaskExecutor to CompletionTracker: is this task closed already?"""

    task: StoredTask
    reply_to: Recipient
    loaded: bool = True
    """False for an adopted task: its key may lie outside what this tree has loaded."""


@dataclass(frozen=True, slots=True)
class TaskChecked:
    """CompletionTracker to TaskExecutor."""

    key: TaskKey
    closed: bool
    offset: int
    """Of the record that was asked about; the answer says nothing about a later one."""


@dataclass(frozen=True, slots=True)
class RecordStart:
    """Worker to CompletionTracker: make the start durable, then resolve."""

    record: AttemptRecord
    recorded: "Future[None]"


@dataclass(frozen=True, slots=True)
class RecordAttempt:
    """TaskExecutor to CompletionTracker: an attempt ended and the task is still open."""

    record: AttemptRecord
    reply_to: Recipient


@dataclass(frozen=True, slots=True)
class AttemptRecorded:
    """CompletionTracker to TaskExecutor: the attempt is durable."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class RecordCompletion:
    """To CompletionTracker: the key is closed (or reopened); its last attempt, if kept."""

    completion: Completion
    record: AttemptRecord | None
    reply_to: Recipient


@dataclass(frozen=True, slots=True)
class CompletionRecorded:
    """CompletionTracker: the completion is durable."""

    key: TaskKey
    result: CompletionResult


@dataclass(frozen=True, slots=True)
class TaskPostponed:
    """TaskExecutor to OrderingExecutor: the task runs long, or waits for a retry or an
    operator; what is behind it belongs in the store, not in memory.
    """

    key: TaskKey


@dataclass(frozen=True, slots=True)
class TaskExecuted:
    """TaskExecutor to OrderingExecutor: the task is closed, or no longer its business."""

    key: TaskKey
    offset: int
    """Of the last record that was taken into account; a later one has had no effect yet."""


@dataclass(frozen=True, slots=True)
class TasksReleased:
    """OrderingExecutor to PartitionExecutor: what its tasks occupy has changed."""

    ordering_id: str
    released: int
    """Slots given back; negative where tasks were loaded from the store."""
    received: int
    """Tasks received so far: whether the sender saw everything sent to it."""
    first_ms: int | None
    """Scheduled time of its first open task; None where it is idle."""
    held: bool
    """The first task waits for a retry or an operator, or runs long."""


@dataclass(frozen=True, slots=True)
class SlotsReleased:
    """PartitionExecutor to PartitionScheduler: this many more tasks may be executed."""

    slots: int


@dataclass(frozen=True, slots=True)
class SpillQueue:
    """PartitionExecutor down to TaskExecutor: is user code slow? Then say so."""


@dataclass(frozen=True, slots=True)
class WithdrawTask:
    """TaskPersistence down to whoever holds the key."""

    key: TaskKey
    withdrawal: Withdrawal
    reply_to: Recipient


@dataclass(frozen=True, slots=True)
class TaskWithdrawn:
    """Whoever held the key to TaskPersistence."""

    key: TaskKey
    holding: Holding


@dataclass(frozen=True, slots=True)
class MeasureProgress:
    """TaskPersistence through PartitionScheduler and PartitionExecutor, each adding what it
    holds, so that a task on its way between the two is counted by one of them.
    """

    earliest_ms: int | None
    held: tuple[Straggler, ...]
    watermark_ms: int
    """An ordering id with open tasks before this counts as held, whatever it does."""
    reply_to: Recipient


@dataclass(frozen=True, slots=True)
class ProgressMeasured:
    """PartitionExecutor to TaskPersistence."""

    earliest_ms: int | None
    """Scheduled time of the first open task in memory, held orderings left out."""
    held: tuple[Straggler, ...]
    """Held orderings, earliest first."""
    draining: bool = False
    """Tasks are being let go, open or not, so nothing follows from what is left."""


@dataclass(frozen=True, slots=True)
class RevokePartitions:
    """Node to TopicSupervisor: drain these, at most this long, then end their subtrees."""

    partitions: tuple[int, ...]
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class DrainTasks:
    """Down the subtree: start nothing more, let what runs end."""


@dataclass(frozen=True, slots=True)
class OrderingDrained:
    """OrderingExecutor to PartitionExecutor: nothing of it runs or is being recorded."""

    ordering_id: str


@dataclass(frozen=True, slots=True)
class TasksDrained:
    """PartitionExecutor to PartitionSupervisor."""


@dataclass(frozen=True, slots=True)
class PartitionDrained:
    """PartitionSupervisor to TopicSupervisor."""

    partition: int


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """TopicSupervisor to node: the subtrees are gone."""

    partitions: tuple[int, ...]
    drained: bool


@dataclass(frozen=True, slots=True)
class ForgetPartitions:
    """Node to TopicSupervisor: these are another node's already; drain and flush nothing."""

    partitions: tuple[int, ...]
