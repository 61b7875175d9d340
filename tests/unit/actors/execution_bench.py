"""A PartitionExecutor with all its ordering ids, driven through the messages at its edge.

The store, the tracker and the runner are in the test's hand.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tenacity import wait_fixed

from hourhand.actors.messages import (
    CheckTasks,
    ExecuteTasks,
    LoadOrdering,
    LoadStragglers,
    MeasureProgress,
    OrderingLoaded,
    OutcomesRecorded,
    PauseTasks,
    ProgressMeasured,
    RecordOutcomes,
    SlotsReleased,
    TasksChecked,
    TasksDrained,
    TaskWithdrawn,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.execution.backoff import OnExhausted, RetryPolicy
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import FRESH, AttemptState, StoredTask, Task
from hourhand.actors.model.values.errors import UnknownKind
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings, WindowSettings
from hourhand.actors.partition_executor import PartitionExecutor
from tests.builders import NOW_MS, a_stored_task
from tests.unit.probes import NOTHING_KNOWN_BEFORE_MS, PARTITION, Harness, Probe

ID = "customer-7"
QUEUE_MAX = 3
WAIT_MS = 20_000
LONG_AGO_MS = NOW_MS - 1_000_000

TASK = a_stored_task(due_in_ms=0, offset=3)


class Job(TaskExecutor):
    """A user's executor; the fake runner never calls it."""

    def execute(self, task: Task) -> Outcome | None:
        """Never called here."""
        raise AssertionError(f"{task.key} was run")


def _job(retry: RetryPolicy) -> Job:
    job = Job()
    job.retry = retry
    return job


AWKWARD_NAMES = ("_context", "_task", "_phase", "_effects", "_parent")


class Awkward(Job):
    """A subclass with attributes named like the kernel's and the role's own, and no super()."""

    def __init__(self) -> None:
        for name in AWKWARD_NAMES:
            setattr(self, name, "mine")


def tree_of(slots: int, queue_max: int) -> TreeSettings:
    """Return settings with so many slots, and tasks of an id in memory."""
    window = WindowSettings(ordering_queue_tasks_max=queue_max, executing_tasks_max=slots)
    execution = ExecutionSettings(lease_retry_ms=200, timeout_ms=7_000)
    return TreeSettings(window=window, execution=execution)


class Bench:
    """The role, what it occupies, and everybody who talks to it."""

    def __init__(
        self,
        executor: TaskExecutor | None = None,
        *,
        attempts_max: int = 3,
        on_exhausted: OnExhausted = "skip",
        known_since_ms: int = NOTHING_KNOWN_BEFORE_MS,
        slots: int = 1,
        queue_max: int = QUEUE_MAX,
        concurrency_per_id: Mapping[str | None, int | None] | None = None,
        run_tasks_max: Mapping[str | None, int] | None = None,
        left: Sequence[Attempt] = (),
        expires_after_ms: Mapping[str | None, int] | None = None,
        one_attempt_kinds: Collection[str | None] = (),
    ) -> None:
        """An earlier tree has ``left`` attempts.

        Ids keep ``queue_max`` tasks in memory, as hardly a slot is free for more.
        """
        self.harness = Harness(
            tree_of(slots, queue_max),
            known_since_ms=known_since_ms,
            concurrency_per_id=concurrency_per_id,
            run_tasks_max=run_tasks_max,
            expires_after_ms=expires_after_ms,
            one_attempt_kinds=one_attempt_kinds,
        )
        self.tracker, self.runner = self.harness.tracker, self.harness.runner
        self.role = executor or _job(RetryPolicy(attempts_max, wait_fixed(20), on_exhausted))
        self.kinds: dict[str | None, TaskExecutor] = {None: self.role}
        """The executors of this node; it knows no other kind."""
        self.made: list[str | None] = []
        self.slots = 0
        """Slots occupied, as the scheduler counts them."""
        self.actor = PartitionExecutor(
            replace(self.harness.effects, make_executor=self._make), self.harness.ownership
        )
        self.budget = self.harness.siblings.budget
        self.budget.keep_waiting(1)  # so each slot that is released is told
        self.runner.left += left
        self.ref = self.harness.spawn(self.actor)
        self.run()

    def _make(self, _ordering_id: str, kind: str | None) -> TaskExecutor:
        if kind not in self.kinds:
            raise UnknownKind(f"kind {kind!r} is not known here")
        self.made.append(kind)
        return self.kinds[kind]

    def tell(self, message: object) -> None:
        """Let the role handle a message, and count what it releases."""
        self.ref.tell(message)
        self.run()

    def run(self) -> None:
        """Deliver everything that is under way."""
        self.harness.run()
        for released in self.harness.scheduler.take_all(SlotsReleased):
            self.slots -= released.slots

    def advance(self, delta_ms: float) -> None:
        """Let time pass."""
        self.harness.advance(delta_ms)
        self.run()

    # Tasks.

    def execute(self, *tasks: StoredTask) -> None:
        """Hand on due tasks together, whose bytes are counted by whoever does so."""
        self.slots += len(tasks)
        self.budget.run(tasks)
        self.tell(ExecuteTasks(tasks))

    def send(self, *names: str, offset: int = 0) -> None:
        """Hand on due tasks of one id, one after another."""
        for name in names:
            self.execute(task_named(name, offset))
            if self.tracker.has(CheckTasks):
                self.answer_check()

    def load_straggler(self, ordering_id: str, first_ms: int, watermark_ms: int) -> None:
        """Tell that an id has open tasks from a time on, which the watermark passed."""
        self.tell(LoadStragglers((Straggler(ordering_id, first_ms),), watermark_ms))

    def answer_check(self, *, closed: bool = False) -> None:
        """Answer the oldest question whether keys are closed."""
        asked = self.tracker.take(CheckTasks)
        self.tell(TasksChecked(tuple((task, closed) for task in asked.tasks)))

    def begin(self, task: StoredTask = TASK) -> Attempt:
        """Bring the role to running a task."""
        self.execute(task)
        self.answer_check()
        return self.runner.only

    def end(self, ending: Ending = Ending.DONE, *, retry_after_ms: int | None = None) -> None:
        """End the oldest attempt that runs."""
        now_ms = self.harness.clock.now_ms()
        self.runner.end(ending, retry_after_ms=retry_after_ms, at_ms=now_ms)
        self.run()

    def record(self) -> RecordOutcomes:
        """Make the oldest outcomes durable."""
        message = self.tracker.take(RecordOutcomes)
        self.tell(OutcomesRecorded(message.completions, message.records))
        return message

    def record_attempt(self) -> AttemptRecord:
        """Make the outcome of an attempt durable that closes nothing."""
        message = self.record()
        assert not message.completions, "a key is closed"
        (record,) = message.records
        return record

    def record_completion(self) -> Completion:
        """Make the completion of one key durable."""
        (completion,) = self.record().completions
        return completion

    def fail_once(self) -> AttemptRecord:
        """Let the attempt fail, durably."""
        self.end(Ending.FAILED)
        return self.record_attempt()

    def finish(self) -> None:
        """Let the oldest attempt end well, durably; what follows is known to be open."""
        self.end()
        self.record()
        while self.tracker.has(CheckTasks):
            self.answer_check()

    def loaded(self, *names: str, next_after: TaskKey | None = None) -> LoadOrdering:
        """Answer the oldest question to the store with open tasks."""
        return self.load(*map(task_named, names), next_after=next_after)

    def load(self, *tasks: StoredTask, next_after: TaskKey | None = None) -> LoadOrdering:
        """Answer the oldest question to the store."""
        request = self.harness.persistence.take(LoadOrdering)
        self.tell(OrderingLoaded(request, tasks, next_after))
        while self.tracker.has(CheckTasks):
            self.answer_check()
        return request

    @property
    def running(self) -> list[str]:
        """The tasks whose attempts were begun and have not ended, in order."""
        return [each.attempt.task.key.uniqueness_key for each in self.runner.started]

    @property
    def asks_store(self) -> bool:
        """True if it waits for tasks that were left to the store."""
        return self.harness.persistence.has(LoadOrdering)

    def withdraw(
        self,
        withdrawal: Withdrawal = Withdrawal.CLOSE,
        key: TaskKey = TASK.key,
        interrupts_up_to: int | None = None,
    ) -> Probe:
        """Ask for a key; the answer is in the probe."""
        asker = Probe()
        self.tell(WithdrawTask(key, withdrawal, asker, interrupts_up_to))
        return asker

    def interrupt(self, key: TaskKey = TASK.key, offset: int = 8) -> Probe:
        """Ask for a key, and for the end of its code, by a command at an offset."""
        return self.withdraw(key=key, interrupts_up_to=offset)

    def pause(self, *ordering_ids: str) -> None:
        """Have these ordering ids paused, and no others."""
        pauses = tuple(Pause(PauseScope.ORDERING, PARTITION, each) for each in ordering_ids)
        self.tell(PauseTasks(OperatorConfig(1, pauses)))

    def progress(self, watermark_ms: int = LONG_AGO_MS) -> ProgressMeasured:
        """Ask how far everything is."""
        asker = Probe()
        self.tell(MeasureProgress(None, (), watermark_ms, asker))
        return asker.take(ProgressMeasured)

    @property
    def is_slow(self) -> bool:
        """True if an id counts as one that the watermark passes."""
        return bool(self.progress().stragglers)

    @property
    def is_over(self) -> bool:
        """True if nothing is open here, and every slot and byte was given back."""
        progress = self.progress()
        is_idle = progress.earliest_ms is None and not progress.stragglers
        assert not is_idle or (self.slots, self.budget.due_bytes) == (0, 0)
        return is_idle

    @property
    def is_let_go(self) -> bool:
        """True if no task is at hand, and what may be open is read from the store."""
        return self.is_over or self.asks_store

    @property
    def is_drained(self) -> bool:
        """True if it said that nothing runs or is being recorded any more."""
        return self.harness.supervisor.has(TasksDrained)


def holding_of(asker: Probe) -> WithdrawalResult:
    """Return the one answer to a withdrawal."""
    assert len(asker.messages) == 1, "every withdrawal is answered once"
    return asker.take(TaskWithdrawn).result


def task_named(name: str, offset: int = 0, last: int = 0) -> StoredTask:
    """Return a task of one id whose due time follows from its one-letter name."""
    return a_stored_task(
        due_in_ms=(ord(name) - ord("a")) * 10 - 1_000,
        ordering_id=ID,
        uniqueness_key=name,
        offset=offset,
        attempts=AttemptState(last=last, used=last) if last else FRESH,
    )
