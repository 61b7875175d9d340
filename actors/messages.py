"""The whole conversation of the tree, in the order of a task's life.

Requests are verb and noun (``PersistTasks``), answers noun and participle
(``TasksPersisted``).  All are frozen; lists travel as tuples, because nothing goes through
the tree one message a task where a list would do.
"""

from collections.abc import Mapping
from concurrent.futures import Future

import msgspec

from actors.kernel.ref import NearRecipient, Recipient
from actors.model.attempts import Attempt, CheckpointMade, KeyStatus
from actors.model.band import BandName
from actors.model.budget import PartitionBudget
from actors.model.codec import Command, LogRecord
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import TaskKey
from actors.model.known_completions import KnownCompletions
from actors.model.operator_config import OperatorConfig
from actors.model.ownership import Assignment, Straggler
from actors.model.status import AttemptRecord, Completion
from actors.model.task import StoredTask
from actors.model.task_checkpoint import TaskCheckpoint


class AssignPartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: grow a subtree for each."""

    assignments: tuple[Assignment, ...]


class Siblings(msgspec.Struct, frozen=True):
    """What the five actors of a partition know of each other."""

    supervisor: Recipient
    task_persistence: Recipient
    throughput_controller: Recipient
    partition_scheduler: Recipient
    partition_executor: NearRecipient
    completion_tracker: Recipient
    known_completions: KnownCompletions
    """The tracker writes it, the others read."""
    budget: PartitionBudget


class MeetSiblings(msgspec.Struct, frozen=True):
    """PartitionSupervisor to its children: all five exist, begin."""

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
    """PartitionSupervisor to TaskPersistence: what its share holds for it, in log order."""

    batch: int
    entries: tuple[StoredTask | Command, ...]
    next_offset: int
    pending_offset: int | None = None
    """The first record that is not acknowledged elsewhere yet: the watermark stays there (P9)."""


class TasksPersisted(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: every entry had its durable effect.

    PartitionSupervisor to TopicSupervisor: so did every record of its share.  TopicSupervisor to
    node: of a share that the batch was answered without.
    """

    batch: int
    partition: int


class RecordsPersisted(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: a batch is durable, except in partitions let go of or held."""

    batch: int
    unpersisted: frozenset[int] = frozenset()
    """Partitions whose subtree ended first: their share counts as never delivered (P9).  Those
    that are held as well: theirs is told when it is durable."""


class PartitionHoldUpdated(msgspec.Struct, frozen=True):
    """PartitionSupervisor to TopicSupervisor: its partition is held from now on, or released."""

    partition: int
    held: bool
    supervisor: object
    """The sender: its partition may have another supervisor by now."""


class PartitionsHeld(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: nothing more is to be delivered of these, and of these only."""

    partitions: frozenset[int]
    supervisor: object
    """The sender: another tree may have taken its place by now."""


class LogCaughtUp(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: the log is read to the end found then."""


class StartTasks(msgspec.Struct, frozen=True):
    """PartitionSupervisor down to PartitionExecutor: due tasks may be executed from now on."""


class MeasureLoad(msgspec.Struct, frozen=True):
    """ThroughputController to PartitionScheduler: how much is in memory?"""


class LoadMeasured(msgspec.Struct, frozen=True):
    """PartitionScheduler to ThroughputController; unasked where a limit is exceeded."""

    waiting: int
    executing: int
    on_time: int = 0
    """How many of those that wait are in the band of what is on time, while there is one."""


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
    """Whether a task of them may be passed on with what its attempts left behind."""


class StatusesFound(msgspec.Struct, frozen=True):
    """CompletionTracker to TaskPersistence, of a range or of single keys; those without any status
    are absent.
    """

    statuses: Mapping[TaskKey, KeyStatus]


class TasksLoaded(msgspec.Struct, frozen=True):
    """TaskPersistence to ThroughputController: how far the window reaches now."""

    reached_ms: int
    complete: bool
    held_up: bool = False
    """What comes next is of flows that have enough in memory: there is time until the next look."""


class BandsChanged(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: keep what is on time in a band of its own, or all in
    one; and to ThroughputController, also when more of what is on time was loaded.
    """

    on_time_ms: int | None
    """How far tasks of ids on time are loaded; None where no id has a backlog any more."""


class LoadStragglers(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: ids with open tasks before the watermark."""

    stragglers: tuple[Straggler, ...]
    watermark_ms: int


class ScheduleTasks(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionScheduler: open tasks inside the loaded window."""

    tasks: tuple[StoredTask, ...]
    band: BandName = BandName.ORDINARY


class ExecuteTasks(msgspec.Struct, frozen=True):
    """PartitionScheduler to PartitionExecutor: these are due, in key order."""

    tasks: tuple[StoredTask, ...]


class LoadOrdering(msgspec.Struct, frozen=True):
    """PartitionExecutor to TaskPersistence: tasks of an ordering id that were left to the store."""

    ordering_id: str
    after: TaskKey
    up_to: TaskKey
    limit: int
    reply_to: Recipient
    kind: str | None = None
    """Of tasks without order, what the reader asks for; None where it asks for those that have
    one.  It is answered with all of the range."""


class OrderingLoaded(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionExecutor: open tasks of an ordering id, in key order."""

    request: LoadOrdering
    tasks: tuple[StoredTask, ...]
    next_after: TaskKey | None
    """Where to go on; None where the range is read to its end."""


class UpdateTask(msgspec.Struct, frozen=True):
    """TaskPersistence down to PartitionExecutor: a later record, for who has the key (P6)."""

    task: StoredTask


class CheckTasks(msgspec.Struct, frozen=True):
    """PartitionExecutor to CompletionTracker: which of these are closed already?"""

    tasks: tuple[StoredTask, ...]
    reply_to: Recipient


class TaskCheck(msgspec.Struct, frozen=True):
    """Whether a task is closed, as its record asks; that says nothing about a later one."""

    task: StoredTask
    closed: bool


class TasksChecked(msgspec.Struct, frozen=True):
    """CompletionTracker to PartitionExecutor."""

    checks: tuple[TaskCheck, ...]


class RecordStarts(msgspec.Struct, frozen=True):
    """Runner to CompletionTracker: make these starts durable, then resolve."""

    attempts: tuple[Attempt, ...]
    recorded: "Future[None]"


class RecordCheckpoints(msgspec.Struct, frozen=True):
    """PartitionExecutor to CompletionTracker: make checkpoints of running attempts durable."""

    made: tuple[CheckpointMade, ...]


class RecordOutcomes(msgspec.Struct, frozen=True):
    """To CompletionTracker: these keys are closed (or reopened), these attempts have ended."""

    completions: tuple[Completion, ...]
    records: tuple[AttemptRecord, ...]
    reply_to: Recipient
    checkpoints: tuple[TaskCheckpoint, ...] = ()
    """The last ones of attempts that ended, durable before anything else here."""


class OutcomesRecorded(msgspec.Struct, frozen=True):
    """CompletionTracker: these are durable, as it was asked."""

    completions: tuple[Completion, ...]
    """Each as it was recorded: what was done before stays done (P5)."""
    records: tuple[AttemptRecord, ...]


class SlotsReleased(msgspec.Struct, frozen=True):
    """PartitionExecutor to PartitionScheduler: this many more tasks may be executed."""

    slots: int


class WithdrawTask(msgspec.Struct, frozen=True):
    """TaskPersistence down to the role that has the key in memory."""

    key: TaskKey
    withdrawal: Withdrawal
    reply_to: Recipient
    interrupts_up_to: int | None = None
    """User code of the key is asked to end, unless its last record is behind this offset; None
    lets it end by itself."""


class TaskWithdrawn(msgspec.Struct, frozen=True):
    """The role that had the key in memory, to TaskPersistence."""

    key: TaskKey
    result: WithdrawalResult
    attempt: int = 0
    """Number of the attempt that runs; 0 where none does."""


class MeasureProgress(msgspec.Struct, frozen=True):
    """TaskPersistence through PartitionScheduler and PartitionExecutor; each adds what it holds."""

    earliest_ms: int | None
    stragglers: tuple[Straggler, ...]
    watermark_ms: int
    """An ordering id with open tasks before this counts as a straggler, whatever it does."""
    reply_to: Recipient


class ProgressMeasured(msgspec.Struct, frozen=True):
    """PartitionExecutor to TaskPersistence."""

    earliest_ms: int | None
    """Scheduled time of the first open task in memory, stragglers left out."""
    stragglers: tuple[Straggler, ...]
    """Earliest first."""


class PauseTasks(msgspec.Struct, frozen=True):
    """Node down to PartitionExecutor: this is all that operators have paused."""

    config: OperatorConfig


class RevokePartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: drain these, at most this long, then end their subtrees."""

    partitions: tuple[int, ...]
    deadline_ms: int


class DrainTasks(msgspec.Struct, frozen=True):
    """Down the subtree: start nothing more, let what runs end."""


class WatermarkMeasured(msgspec.Struct, frozen=True):
    """TaskPersistence to PartitionSupervisor: the last one is known and being saved."""


class TasksDrained(msgspec.Struct, frozen=True):
    """PartitionExecutor to PartitionSupervisor: nothing runs or is being recorded.

    PartitionSupervisor to TopicSupervisor: and the watermark is saved.
    """

    partition: int


class PartitionsRevoked(msgspec.Struct, frozen=True):
    """TopicSupervisor to node: the subtrees are gone."""

    partitions: tuple[int, ...]
    drained: bool


class ForgetPartitions(msgspec.Struct, frozen=True):
    """Node to TopicSupervisor: these are another node's now; drain and flush nothing."""

    partitions: tuple[int, ...]
