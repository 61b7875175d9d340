"""The messages of the tree, in the order of a task's life.

The name of a request is a verb and a noun (``PersistTasks``), that of an answer a noun and a
participle (``TasksPersisted``).  All are frozen.  One message carries a tuple of tasks wherever
several can go together.
"""

from collections.abc import Mapping
from concurrent.futures import Future

import msgspec

from hourhand.actors.kernel.ref import NearRecipient, Recipient
from hourhand.actors.model.execution.attempts import Attempt, CheckpointMade, KeyStatus
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Assignment, Straggler
from hourhand.actors.model.task.codec import Command, LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.window.band import BandName
from hourhand.actors.model.window.budget import PartitionBudget


class AssignPartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: start a subtree for each partition."""

    assignments: tuple[Assignment, ...]


class Siblings(msgspec.Struct, frozen=True):
    """The five actors of a partition, and the memory that they share."""

    supervisor: Recipient
    task_persistence: Recipient
    throughput_controller: Recipient
    partition_scheduler: Recipient
    partition_executor: NearRecipient
    completion_tracker: Recipient
    known_completions: KnownCompletions
    """Written by the tracker, and read by the others."""
    budget: PartitionBudget


class MeetSiblings(msgspec.Struct, frozen=True):
    """PartitionSupervisor to its children: all five exist; begin."""

    siblings: Siblings


class PersistRecords(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: make a polled batch durable; sent for empty polls too.

    TopicSupervisor to PartitionSupervisor: one partition's share of it.
    """

    batch: int
    records: tuple[LogRecord, ...]
    reached: Mapping[int, int]
    """Partition to next offset after this batch."""


class PersistTasks(msgspec.Struct, frozen=True):
    """PartitionSupervisor to TaskPersistence: the tasks and commands of a share, in log order."""

    batch: int
    entries: tuple[StoredTask | Command, ...]
    next_offset: int
    pending_offset: int | None = None
    """The first record whose forward is not acknowledged: the saved offset stays there (P9)."""


class TasksPersisted(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: the effect of every entry is durable.

    PartitionSupervisor to TopicSupervisor: that of every record of its share is.  TopicSupervisor
    to node: a share is durable that was not when its batch was answered.
    """

    batch: int
    partition: int


class RecordsPersisted(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: a batch is durable, except in partitions revoked or held."""

    batch: int
    unpersisted: frozenset[int] = frozenset()
    """Partitions whose subtree ended first: their share counts as never delivered (P9).  Held
    partitions too: a later message says that their share is durable."""


class PartitionHoldUpdated(msgspec.Struct, frozen=True):
    """PartitionSupervisor to TopicSupervisor: its partition is held from now on, or released."""

    partition: int
    held: bool
    supervisor: object
    """The sender; its partition may have another supervisor by now."""


class PartitionsHeld(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: deliver nothing more of these partitions, and of no others."""

    partitions: frozenset[int]
    supervisor: object
    """The sender; another tree may have taken its place by now."""


class LogCaughtUp(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: the log is read to the end found then."""


class StartTasks(msgspec.Struct, frozen=True):
    """PartitionSupervisor down to PartitionExecutor: due tasks may be executed from now on."""


class MeasureLoad(msgspec.Struct, frozen=True):
    """ThroughputController to PartitionScheduler: how much is in memory?"""


class LoadMeasured(msgspec.Struct, frozen=True):
    """PartitionScheduler to ThroughputController: the answer, or a limit is exceeded."""

    waiting: int
    executing: int
    on_time: int = 0
    """Waiting tasks in the band for tasks on time, while there is one."""


class ShrinkWindow(msgspec.Struct, frozen=True):
    """ThroughputController to PartitionScheduler: keep this many waiting tasks."""

    tasks_max: int


class LowerCheckpoint(msgspec.Struct, frozen=True):
    """PartitionScheduler to TaskPersistence: tasks of a band after this key left memory."""

    key: TaskKey
    band: BandName = BandName.ORDINARY


class LoadTasks(msgspec.Struct, frozen=True):
    """ThroughputController to TaskPersistence: load what is due before a time."""

    before_ms: int
    limit: int
    band: BandName = BandName.ORDINARY


class LoadStatuses(msgspec.Struct, frozen=True):
    """TaskPersistence to CompletionTracker: statuses of ``after`` < key <= ``up_to``."""

    after: TaskKey
    up_to: TaskKey


class FindStatuses(msgspec.Struct, frozen=True):
    """TaskPersistence to CompletionTracker: statuses of single keys."""

    keys: tuple[TaskKey, ...]
    with_checkpoints: bool = False
    """True if checkpoints are read as well, because the tasks of the keys may run."""
    durable: bool = False
    """True if the answer waits until the completions that it tells of are durable: a client is told
    of them."""


class StatusesFound(msgspec.Struct, frozen=True):
    """CompletionTracker to TaskPersistence: statuses of a range or of single keys.  Keys without a
    status are absent.
    """

    statuses: Mapping[TaskKey, KeyStatus]


class TasksLoaded(msgspec.Struct, frozen=True):
    """TaskPersistence to ThroughputController: the time up to which the window is loaded."""

    reached_ms: int
    complete: bool
    held_up: bool = False
    """The next rows are of flows that have enough in memory, so the next load waits for a tick."""


class BandsChanged(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: keep tasks on time in a band of their own, or all
    tasks in one.  To ThroughputController as well, and again after each load of tasks on time.
    """

    on_time_ms: int | None
    """The time up to which tasks on time are loaded; None if no id has a backlog any more."""


class LoadStragglers(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: ids with open tasks before the watermark."""

    stragglers: tuple[Straggler, ...]
    watermark_ms: int


class ScheduleTasks(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: open tasks inside the loaded window."""

    tasks: tuple[StoredTask, ...]
    band: BandName = BandName.ORDINARY


class ExecuteTasks(msgspec.Struct, frozen=True):
    """PartitionScheduler to PartitionExecutor: execute these due tasks, in key order."""

    tasks: tuple[StoredTask, ...]


class LoadOrdering(msgspec.Struct, frozen=True):
    """PartitionExecutor to TaskPersistence: tasks of an ordering id that were left to the store."""

    ordering_id: str
    after: TaskKey
    up_to: TaskKey
    limit: int
    reply_to: Recipient
    kind: str | None = None
    """The kind that the asker wants; None for tasks with an order.  The answer has all tasks of the
    range."""


class OrderingLoaded(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionExecutor: open tasks of an ordering id, in key order."""

    request: LoadOrdering
    tasks: tuple[StoredTask, ...]
    next_after: TaskKey | None
    """The key after which reading continues; None if the range was read to its end."""


class UpdateTask(msgspec.Struct, frozen=True):
    """TaskPersistence down to PartitionExecutor: a later record of a key, if memory has it (P6)."""

    task: StoredTask


class CheckTasks(msgspec.Struct, frozen=True):
    """PartitionExecutor to CompletionTracker: which of these are closed already?"""

    tasks: tuple[StoredTask, ...]
    reply_to: Recipient


class TasksChecked(msgspec.Struct, frozen=True):
    """CompletionTracker to PartitionExecutor: the answer to ``CheckTasks``."""

    checks: tuple[tuple[StoredTask, bool], ...]
    """Each task, and True if its key is closed for this record; a later record may open it."""


class RecordStarts(msgspec.Struct, frozen=True):
    """Runner to CompletionTracker: make these starts durable, then resolve."""

    attempts: tuple[Attempt, ...]
    recorded: "Future[None]"


class RecordCheckpoints(msgspec.Struct, frozen=True):
    """PartitionExecutor to CompletionTracker: make checkpoints of running attempts durable."""

    made: tuple[CheckpointMade, ...]


class RecordOutcomes(msgspec.Struct, frozen=True):
    """To CompletionTracker: record that keys are closed and attempts have ended."""

    completions: tuple[Completion, ...]
    records: tuple[AttemptRecord, ...]
    reply_to: Recipient
    checkpoints: tuple[TaskCheckpoint, ...] = ()
    """The last checkpoints of ended attempts, durable before all else here."""
    results: tuple[StoredResult, ...] = ()
    """Values of completions, durable before these."""


class OutcomesRecorded(msgspec.Struct, frozen=True):
    """CompletionTracker to the asker: these outcomes are durable."""

    completions: tuple[Completion, ...]
    """Each as it was recorded: a task that was done before stays done (P5)."""
    records: tuple[AttemptRecord, ...]


class SlotsReleased(msgspec.Struct, frozen=True):
    """PartitionExecutor to PartitionScheduler: this many more tasks may be executed."""

    slots: int


class WithdrawTask(msgspec.Struct, frozen=True):
    """TaskPersistence down to the role that has the key in memory: withdraw it."""

    key: TaskKey
    withdrawal: Withdrawal
    reply_to: Recipient
    interrupts_up_to: int | None = None
    """Ask user code of the key to end, unless its last record is behind this offset; None lets it
    end by itself."""


class TaskWithdrawn(msgspec.Struct, frozen=True):
    """The role that had the key in memory, to TaskPersistence: the result of a withdrawal."""

    key: TaskKey
    result: WithdrawalResult
    attempt: int = 0
    """Number of the attempt that runs; 0 if none does."""


class MeasureProgress(msgspec.Struct, frozen=True):
    """TaskPersistence through PartitionScheduler and PartitionExecutor: each adds its tasks."""

    earliest_ms: int | None
    stragglers: tuple[Straggler, ...]
    watermark_ms: int
    """An ordering id with an open task before this time counts as a straggler in any case."""
    reply_to: Recipient


class ProgressMeasured(msgspec.Struct, frozen=True):
    """PartitionExecutor to TaskPersistence: the answer to ``MeasureProgress``."""

    earliest_ms: int | None
    """Scheduled time of the first open task in memory, without stragglers."""
    stragglers: tuple[Straggler, ...]
    """Earliest first."""


class PauseTasks(msgspec.Struct, frozen=True):
    """Node down to PartitionExecutor: these pauses are all that operators have set."""

    config: OperatorConfig


class RevokePartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: drain these, for at most this time, then end their subtrees."""

    partitions: tuple[int, ...]
    deadline_ms: int


class DrainTasks(msgspec.Struct, frozen=True):
    """Down the subtree: start no further attempt, and let running ones end."""


class WatermarkMeasured(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: the last watermark is known and being saved."""


class TasksDrained(msgspec.Struct, frozen=True):
    """PartitionExecutor to PartitionSupervisor: nothing runs or is being recorded.

    PartitionSupervisor to TopicSupervisor: and the save of the watermark has begun.
    """

    partition: int


class PartitionsRevoked(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: the subtrees are gone."""

    partitions: tuple[int, ...]
    drained: bool


class ForgetPartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: another node owns these now; end them without a drain."""

    partitions: tuple[int, ...]
