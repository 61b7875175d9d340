"""A turn: the effects of one message to a PartitionExecutor, of all its ordering ids together.

Decides in which order the effects leave: one message to each role and one call of the runner,
however many tasks they concern.  Counts the memory of the ids of a partition.  Never decides the
result of a task.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from hourhand.actors.following import send_follower
from hourhand.actors.kernel.context import ActorContext, RequestFailed, Timer
from hourhand.actors.kernel.ref import Recipient
from hourhand.actors.messages import (
    CheckTasks,
    LoadOrdering,
    RecordCheckpoints,
    RecordOutcomes,
    RecordStarts,
    Siblings,
    SlotsReleased,
    TaskWithdrawn,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import (
    Attempt,
    AttemptEnded,
    CheckpointMade,
    finished_event,
)
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.operations.events import Event, TasksSucceeded
from hourhand.actors.model.operations.ownership import Ownership
from hourhand.actors.model.task.codec import letter_of
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.runner import Executable


class AttemptDue(msgspec.Struct, frozen=True):
    """The next attempt of a task at hand may begin, or the wall clock is looked at again."""

    key: TaskKey


class LookAgain(msgspec.Struct, frozen=True):
    """Rows that an ordering id left to the store may be due."""

    ordering_id: str


class LetterAcknowledged(msgspec.Struct, frozen=True):
    """A dead letter or a follower is in the log, or was given up."""

    key: TaskKey
    letter: "Future[Position]"
    """Identifies the letter: an earlier one of the key may have been given up."""


class AttemptsEnded(msgspec.Struct, frozen=True):
    """Attempts have ended."""


class EndedAttempts:
    """A mailbox in which workers put ends of attempts: one message announces all that are in it.

    The runner keeps it while an attempt runs, so it refers to an address, not to an actor: a tree
    that is gone must not stay in memory.
    """

    __slots__ = ("_ended", "_is_told", "_reader")

    def __init__(self, reader: Recipient) -> None:
        self._reader = reader
        self._ended: deque[AttemptEnded] = deque()
        self._is_told = False

    def add(self, ended: AttemptEnded) -> None:
        """Add an end, from any thread."""
        self._ended.append(ended)
        if not self._is_told:
            self._is_told = True
            self._reader.tell(AttemptsEnded())

    def take(self) -> Sequence[AttemptEnded]:
        """Return all ends that are here; later ones are announced again."""
        # First: an end that is added after the last look must be told of.
        self._is_told = False
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]


class Turn:
    """The effects collected during a message and sent at its end, shared by a partition's ids."""

    def __init__(
        self, effects: Effects, ownership: Ownership, siblings: Siblings, context: ActorContext
    ) -> None:
        self.effects = effects
        self.ownership = ownership
        self.known = siblings.known_completions
        self.rng = context.rng
        self.clock: Clock = context.clock
        self.has_kinds_apart = bool(effects.concurrency_per_id or effects.run_tasks_max)
        """Some kinds have no order, or have batches with several tasks of one ordering id."""
        self._siblings = siblings
        self._budget = siblings.budget
        self._context = context
        self.ended = EndedAttempts(context)
        self.is_catching_up = False
        """Attempts of an earlier tree are here, and the partition may not start yet."""
        self._looks: dict[str, tuple[float, Timer]] = {}
        """By ordering id, the monotonic time of its next look at stored rows, and the timer."""
        self.touched: dict[str, None] = {}
        """The ordering ids that may continue once the message is handled."""
        self.starts: list[tuple[Attempt, Executable]] = []
        self.settled: list[Attempt] = []
        """Attempts whose outcome is durable or does not count any more."""
        self.succeeded: list[AttemptEnded] = []
        """Ends of attempts that closed their tasks, durably."""
        self.completions: list[Completion] = []
        self.records: list[AttemptRecord] = []
        self.last_checkpoints: list[TaskCheckpoint] = []
        """Last checkpoints of ended attempts: they become durable before the outcomes."""
        self.results: list[StoredResult] = []
        """Values that tasks ended with: they become durable before their completions."""
        self.made: list[CheckpointMade] = []
        """Checkpoints of attempts that run."""
        self.checks: list[StoredTask] = []
        """Tasks that may be closed, which only the tracker knows."""
        self._reads: list[LoadOrdering] = []
        self._answers: list[tuple[WithdrawTask, TaskWithdrawn]] = []
        self._released = self._less_slots = self._more_bytes = 0
        """Slots that are free again, and those and bytes of which the budget is told together."""
        self._queue_tasks_max: int | None = None

    # The end of the turn.

    def end(self) -> None:
        """Send all effects, one message for each kind of them."""
        self._hand_over()
        siblings, me = self._siblings, self._context
        if self.completions or self.records or self.last_checkpoints:
            last, results = tuple(self.last_checkpoints), tuple(self.results)
            done = tuple(self.completions), tuple(self.records)
            outcomes = RecordOutcomes(*done, me, last, results)
            self.completions, self.records, self.last_checkpoints = [], [], []
            self.results = []
            siblings.completion_tracker.tell(outcomes)
        if self.made:
            made, self.made = tuple(self.made), []
            siblings.completion_tracker.tell(RecordCheckpoints(made))
        if self.checks:
            checks, self.checks = tuple(self.checks), []
            siblings.completion_tracker.tell(CheckTasks(checks, me))
        if self._answers:
            answers, self._answers = self._answers, []
            for asked, answer in answers:
                asked.reply_to.tell(answer)
        if self._reads:
            reads, self._reads = self._reads, []
            for read in reads:
                siblings.task_persistence.tell(read)
        self._count_occupied()
        if self._released:
            released, self._released = self._released, 0
            # A task that comes later finds the free slots by itself.
            if self._budget.waiting_bytes:
                siblings.partition_scheduler.tell(SlotsReleased(released))

    def _hand_over(self) -> None:
        """Hand over the ends of attempts, then the new attempts, which start one by one (P7).

        The order matters: an attempt of an ordering id ends before its next one begins.  A worker
        reports a start at once, so operators are told of the ends before.
        """
        if self.succeeded:
            finished, self.succeeded = tuple(map(finished_event, self.succeeded)), []
            self.emit(TasksSucceeded(self.ownership.partition, finished))
        runner = self.effects.runner
        if self.settled:
            settled, self.settled = self.settled, []
            runner.settle(settled)
        if self.starts:
            starts, self.starts = self.starts, []
            runner.start(starts, self.ended.add)

    def emit(self, event: Event) -> None:
        """Send operators an event at once."""
        self.effects.telemetry.emit(event)

    def answer(
        self, asked: WithdrawTask, result: WithdrawalResult, running: Attempt | None = None
    ) -> None:
        """Answer a withdrawal; ``running`` is the attempt that may still end."""
        number = 0 if running is None else running.number
        self._answers.append((asked, TaskWithdrawn(asked.key, result, number)))

    def read(
        self, ordering_id: str, span: tuple[TaskKey, TaskKey], limit: int, kind: str | None = None
    ) -> LoadOrdering:
        """Ask the store for tasks of an ordering id; the answer carries this request."""
        request = LoadOrdering(ordering_id, *span, limit, self._context, kind)
        self._reads.append(request)
        return request

    def gathers(self, task: StoredTask) -> bool:
        """True if a task has no order, or other tasks of its id may be in its batch."""
        if not self.has_kinds_apart:
            return False
        effects = self.effects
        return task.kind in effects.concurrency_per_id or effects.run_tasks_of(task) > 1

    # The runner.  Some of its attempts may not be handed over yet.

    def withdraw(
        self, attempt: Attempt, *, limited: bool = False, interrupts: bool = False
    ) -> bool:
        """Return True if user code of an attempt was not called yet, and now never will be.

        With ``limited``, withdraw only an attempt that waits for a limit.  With ``interrupts``, ask
        code that was called to end.
        """
        if self.starts:
            self._hand_over()
        return self.effects.runner.withdraw(attempt, limited=limited, interrupts=interrupts)

    def adopt(self, attempt: Attempt) -> None:
        """Take over an attempt of an earlier tree: its end is reported to this one."""
        self.effects.runner.adopt(attempt, self.ended.add)

    def record_starts(self, attempts: Sequence[Attempt]) -> "Future[None]":
        """Make starts durable, from any thread; the future is cancelled if the tree ends.

        All attempts of a tree share this function: the runner groups them by it.
        """
        recorded: Future[None] = Future()
        self._siblings.completion_tracker.tell(RecordStarts(tuple(attempts), recorded))
        return recorded

    # Time.

    def after(self, delay_ms: float, message: object) -> Timer:
        """Send the partition a message later."""
        return self._context.after(delay_ms, message)

    def look_again(self, ordering_id: str, wait_ms: float) -> None:
        """Let an id continue when its first stored row is due.

        The wall clock may be stepped, so it is checked in between.
        """
        wait_ms = min(wait_ms, self.effects.settings.window.clock_check_ms)
        at_ms = self.clock.monotonic_ms() + wait_ms
        known = self._looks.get(ordering_id)
        if known is not None:
            if known[0] <= at_ms:
                return
            known[1].cancel()
        self._looks[ordering_id] = at_ms, self.after(wait_ms, LookAgain(ordering_id))

    def looked(self, ordering_id: str) -> None:
        """Note that the timer of an id has fired."""
        del self._looks[ordering_id]
        self.touched[ordering_id] = None

    def write_letter(self, task: StoredTask, reason: str) -> "Future[Position]":
        """Write the dead letter of a task; the partition is told once it is written."""
        record = letter_of(task, self.ownership.partition, self.clock.now_ms())
        return self._await(task.key, self.effects.writer.dead_letter(record, reason))

    def send_follower(self, task: StoredTask, records: Sequence[bytes]) -> "Future[Position]":
        """Send the follower of a task that ends; the partition is told once the log has it."""
        sent = send_follower(self.effects, task, records, self.clock.now_ms())
        return self._await(task.key, sent)

    def _await(self, key: TaskKey, letter: "Future[Position]") -> "Future[Position]":
        acknowledged = LetterAcknowledged(key, letter)

        def failed(error: BaseException) -> object:
            return acknowledged if letter.cancelled() else RequestFailed(error)

        self._context.pipe(letter, lambda _position: acknowledged, failed)
        return letter

    # The memory of the partition's ids.

    def queue_tasks_max(self) -> int:
        """Return the number of tasks that an id may keep in memory behind the one that runs."""
        if self._queue_tasks_max is None:
            self._count_occupied()
            window = self.effects.settings.window
            self._queue_tasks_max = self._budget.queue_tasks_max(window)
        return self._queue_tasks_max

    def reserve(self, slots: int) -> None:
        """Reserve slots for the tasks of a read, so that two reads do not count on the same slots;
        a negative number releases slots.
        """
        self._queue_tasks_max = None
        self._budget.reserve(slots)

    def occupy(self, ordering_id: str, tasks: int, size_bytes: int) -> None:
        """Count tasks that an id has received; negative numbers count tasks that have left it."""
        self._queue_tasks_max = None
        self._more_bytes += size_bytes
        if tasks:
            self._released -= tasks
            if self._budget.has_flows:
                self._budget.release_slots(ordering_id, -tasks)
            else:
                self._less_slots -= tasks

    def _count_occupied(self) -> None:
        """Tell the budget what has changed, once for all ids."""
        budget, self._queue_tasks_max = self._budget, None
        if self._more_bytes or self._less_slots:
            budget.resize(0, self._more_bytes)
            budget.release_slots("", self._less_slots)
            self._more_bytes = self._less_slots = 0
