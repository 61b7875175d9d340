"""A TaskPersistence over a store whose requests the test may hold."""

from hourhand.actors.kernel.ref import Ref
from hourhand.actors.messages import (
    FindStatuses,
    LoadStatuses,
    LoadTasks,
    MeasureProgress,
    OutcomesRecorded,
    PersistTasks,
    ProgressMeasured,
    RecordOutcomes,
    ScheduleTasks,
    StatusesFound,
    TasksLoaded,
    TasksPersisted,
    TaskWithdrawn,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import NO_STATUS, KeyStatus
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.ownership import Assignment, Straggler, Watermark
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.settings import TreeSettings, WatermarkSettings, WindowSettings
from hourhand.actors.task_persistence import TaskPersistence
from tests.builders import NOW_MS, a_stored_task
from tests.unit.probes import EPOCH, PARTITION, Harness

INTERVAL_MS = 5_000

LAG_MS = 60_000

DAY_MS = 86_400_000

SETTINGS = TreeSettings(
    window=WindowSettings(look_ahead_ms=300_000),
    watermark=WatermarkSettings(
        interval_ms=INTERVAL_MS,
        lag_ms=LAG_MS,
        stragglers_max=2,
        completion_retention_ms=DAY_MS,
    ),
)


class Bench:
    """A TaskPersistence over a store whose requests the test may hold."""

    def __init__(
        self,
        *,
        watermark: Watermark | None = None,
        catch_up_offset: int = 0,
        next_offset: int = 0,
        held: tuple[str, ...] = (),
        settings: TreeSettings = SETTINGS,
        flow_rules: FlowRules = FlowRules.NONE,
    ) -> None:
        """``held`` are the kinds of requests that are held from the beginning."""
        self.harness = Harness(settings, flow_rules=flow_rules)
        self.requests = self.harness.requests
        self.scheduler = self.harness.scheduler
        self.tracker = self.harness.tracker
        self.stores = self.harness.effects.stores
        for _ in range(EPOCH):
            self.stores.ownership.claim(PARTITION, NOW_MS - LAG_MS).result(timeout=0)
        mark = watermark or self.saved()
        for kind in held:
            self.requests.hold(kind)
        assignment = Assignment(self.harness.ownership, mark, catch_up_offset, next_offset)
        self.ref: Ref = self.harness.spawn(TaskPersistence(self.harness.effects, assignment))
        self.requests.made.clear()

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def serve(self, kind: str) -> None:
        """Serve the oldest held request."""
        self.requests.take(kind)()
        self.harness.run()

    def saved(self) -> Watermark:
        """Return the durable watermark."""
        claim = self.stores.ownership.read_watermark(PARTITION).result(timeout=0)
        assert claim is not None
        return claim.watermark

    def persist(self, *entries: StoredTask | Command, batch: int = 1, next_offset: int = 1) -> None:
        """Send a share of a batch."""
        self.tell(PersistTasks(batch, entries, next_offset))

    def persisted(self) -> list[int]:
        """Take the batches that were answered."""
        return [m.batch for m in self.harness.supervisor.take_all(TasksPersisted)]

    def scheduled(self) -> list[TaskKey]:
        """Take what was passed on to memory."""
        batches = self.scheduler.take_all(ScheduleTasks)
        return [task.key for batch in batches for task in batch.tasks]

    def load(
        self,
        ahead_ms: int = 300_000,
        *,
        limit: int = 100,
        statuses: dict[TaskKey, KeyStatus] | None = None,
    ) -> None:
        """Load up to a time, answering as the tracker."""
        self.tell(LoadTasks(NOW_MS + ahead_ms, limit))
        self.answer_statuses(statuses)

    def answer_statuses(self, statuses: dict[TaskKey, KeyStatus] | None = None) -> None:
        """Answer as the tracker where it was asked for a range."""
        if self.tracker.take_all(LoadStatuses):
            self.tell(StatusesFound(statuses or {}))

    def loaded(self) -> TasksLoaded:
        """Take the answer to a load."""
        return self.harness.controller.take(TasksLoaded)

    def store(self, *tasks: StoredTask) -> None:
        """Put rows in the store, as an earlier owner left them."""
        self.stores.schedule.insert_tasks(PARTITION, tasks, 1).result(timeout=0)

    def advance_watermark(
        self, earliest_ms: int | None = None, held: tuple[Straggler, ...] = ()
    ) -> None:
        """Let the watermark advance, answering as the executor."""
        self.harness.advance(INTERVAL_MS)
        self.scheduler.take(MeasureProgress)
        self.tell(ProgressMeasured(earliest_ms, held))

    def command(
        self,
        kind: CommandKind,
        result: WithdrawalResult,
        *,
        offset: int = 10,
        to_ms: int | None = None,
        status: KeyStatus = NO_STATUS,
        task: StoredTask | None = None,
    ) -> CommandOutcome:
        """Execute a command, answering as scheduler and tracker; return its outcome."""
        key = (task or TASK).key
        self.persist(Command(kind, key, offset, NOW_MS, to_ms), next_offset=offset + 1)
        if self.scheduler.has(WithdrawTask):
            self.scheduler.take(WithdrawTask)
            self.tell(TaskWithdrawn(key, result))
            self.tracker.take(FindStatuses)
            self.tell(StatusesFound({key: status}))
        if self.tracker.has(RecordOutcomes):
            recorded = self.tracker.messages[-1]
            assert isinstance(recorded, RecordOutcomes)
            self.tell(OutcomesRecorded(recorded.completions, ()))
        outcome = self.stores.ownership.find_outcome(PARTITION, offset).result(timeout=0)
        assert outcome is not None and self.persisted() == [1]
        return outcome.outcome


TASK = a_stored_task(due_in_ms=60_000, offset=3)

LATER_MS = NOW_MS + 90_000


def task_due_in(due_in_ms: int, offset: int = 1) -> StoredTask:
    """Return a row named after its due time."""
    return a_stored_task(due_in_ms=due_in_ms, uniqueness_key=str(due_in_ms), offset=offset)
