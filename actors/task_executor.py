"""TaskExecutor: a role of the tree, and the class that users subclass.

As a role it decides what follows from one attempt: done, tried again, dropped, or given up.
It checks that the task is not closed already, has it run, makes the outcome durable, and
only then lets the ordering id go on.  As a base class it is what user code sees: ``execute``,
``attempt`` and ``fence``.  Never touches the store itself.

========== ============================================= =========================
phase      what it waits for                             a command may withdraw it
========== ============================================= =========================
idle       a task
checking   whether the key is closed already             yes
waiting    the next attempt's time, or a lease           yes
running    a worker, then user code                      before user code only
recording  the outcome to be durable                     afterwards
blocked    an operator                                   yes
========== ============================================= =========================
"""

from abc import abstractmethod
from collections.abc import Awaitable
from concurrent.futures import Future
from datetime import timedelta
from enum import Enum, auto
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.kernel.actor import Actor
from actors.kernel.context import ActorContext, Timer
from actors.kernel.ref import Recipient, Ref
from actors.messages import (
    AdoptAttempt,
    AttemptRecorded,
    AttemptTask,
    CheckTask,
    CompletionRecorded,
    DrainTasks,
    RecordAttempt,
    RecordCompletion,
    RecordStart,
    Siblings,
    TaskChecked,
    TaskExecuted,
    TaskPostponed,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import (
    Attempt,
    AttemptEnded,
    Ending,
    closing_completion,
    failed_record,
    finished_event,
    started_record,
)
from actors.model.backoff import RetryPolicy
from actors.model.codec import letter_of
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.events import AttemptRefused, RetriesExhausted, TaskClosed
from actors.model.executor_attributes import Unreadable, policy_of, timeout_ms_of
from actors.model.known_completions import KnownCompletions
from actors.model.outcome import Outcome
from actors.model.ownership import Ownership
from actors.model.status import AttemptRecord, CompletionResult
from actors.model.task import FRESH, AttemptState, StoredTask, Task
from actors.ports.effects import Effects
from actors.ports.runner import Executable


class _Phase(Enum):
    IDLE = auto()
    CHECKING = auto()
    WAITING = auto()
    RUNNING = auto()
    RECORDING = auto()
    BLOCKED = auto()


class _WaitOver(msgspec.Struct, frozen=True):
    pass


class _DeadLetterAcknowledged(msgspec.Struct, frozen=True):
    record: AttemptRecord | None


Message = (
    AttemptTask
    | TaskChecked
    | AttemptEnded
    | CompletionRecorded
    | AttemptRecorded
    | _WaitOver
    | UpdateTask
    | WithdrawTask
    | AdoptAttempt
    | _DeadLetterAcknowledged
    | DrainTasks
)
"""All that this role is told."""


class TaskExecutor(Actor):
    """Subclass this and write ``execute``; one instance serves one busy ordering id.

    Attempts of one ordering id never overlap, so ``self`` needs no lock.  The constructor
    takes no arguments, need not call this class's, and should be cheap: it runs on the
    node's dispatcher.
    """

    retry: RetryPolicy = RetryPolicy()
    """How often and how soon a failed task is tried again."""
    timeout: timedelta | None = None
    """Longest attempt; None takes the node's setting.  An async attempt is cancelled, a
    blocking one is reported and keeps its slot."""
    attempt: int = 0
    """Number of the attempt that runs, 1 for the first."""
    fence: int = 0
    """Grows with every owner of the partition; give it to a store that can refuse less."""

    # The role's own state is name-mangled, so that subclasses may use any attribute.
    __phase: _Phase = _Phase.IDLE
    __task: StoredTask | None = None
    __attempt: Attempt | None = None
    __timer: Timer | None = None
    __withdrawal: WithdrawTask | None = None
    __final: bool = False
    __draining: bool = False
    __doubted: bool = False
    __context: ActorContext
    __ref: Ref
    __effects: Effects
    __ownership: Ownership
    __parent: Recipient
    __tracker: Recipient
    __known: KnownCompletions

    @abstractmethod
    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once; may be ``async def``.

        Returning nothing means done; ``Retry`` and ``Drop`` say otherwise.  An exception
        means failed, and the retry policy says what follows.
        """

    def bind_role(
        self, effects: Effects, ownership: Ownership, parent: Recipient, siblings: Siblings
    ) -> None:
        """Tell the role what it works with; called once, before it is spawned."""
        self.__effects = effects
        self.__ownership = ownership
        self.__parent = parent
        self.__tracker = siblings.completion_tracker
        self.__known = siblings.known_completions

    def _bind_context(self, context: ActorContext) -> None:
        # Mangled too: a subclass may well call an attribute of its own ``_context``.
        self.__context = context
        self.__ref = context

    def on_receive(self, message: Message) -> None:
        """Play the role; subclasses leave this alone."""
        match message:
            case AttemptTask(task=task):
                self.__begin(task)
            case TaskChecked():
                self.__take_check(message)
            case AttemptEnded():
                self.__take_end(message)
            case CompletionRecorded(result=result):
                self.__take_completion(result)
            case AttemptRecorded():
                self.__take_attempt()
            case _WaitOver():
                self.__proceed()
            case UpdateTask(task=task):
                self.__update(task)
            case WithdrawTask():
                self.__withdraw(message)
            case AdoptAttempt(attempt=attempt):
                self.__adopt(attempt)
            case _DeadLetterAcknowledged(record=record):
                self.__close(CompletionResult.FAILURE, "attempts used up", record)
            case DrainTasks():
                self.__drain()
            case _:
                assert_never(message)

    @property
    def __open_task(self) -> StoredTask:
        task = self.__task
        assert task is not None, "this phase has a task at hand"
        return task

    # One attempt, in the order of its steps.

    def __begin(self, task: StoredTask) -> None:
        assert self.__phase is _Phase.IDLE, "one task at a time"
        self.__task = task
        self.__check()

    def __check(self) -> None:
        task = self.__open_task
        closed = self.__known.is_closed(task)
        if closed is None:
            self.__phase = _Phase.CHECKING
            self.__tracker.tell(CheckTask(task, self.__ref))
        else:
            self.__follow_check(closed=closed)

    def __take_check(self, checked: TaskChecked) -> None:
        if self.__phase is not _Phase.CHECKING:
            return
        task = self.__open_task
        if (checked.key, checked.offset) != (task.key, task.offset):
            # About a task that was withdrawn meanwhile, or an older record of this one.
            return
        self.__follow_check(closed=checked.closed)

    def __follow_check(self, *, closed: bool) -> None:
        if closed:
            self.__finish()
        else:
            self.__proceed()

    def __proceed(self) -> None:
        """Start the next attempt, or wait for its time, or give up."""
        if self.__draining or self.__doubted:
            self.__finish()
            return
        task = self.__open_task
        attempts = task.attempts
        if attempts is FRESH:
            self.__start(task)
            return
        wait_ms = attempts.next_attempt_ms - self.__context.clock.now_ms()
        if attempts.used >= policy_of(self).attempts_max:
            self.__give_up(None)
        elif wait_ms > 0:
            self.__wait(wait_ms)
            self.__parent.tell(TaskPostponed(task.key))
        else:
            self.__start(task)

    def __wait(self, delay_ms: float) -> None:
        assert delay_ms > 0, "what may begin does not wait"
        self.__phase = _Phase.WAITING
        self.__timer = self.__context.after(delay_ms, _WaitOver())

    def __start(self, task: StoredTask) -> None:
        executable: Executable = self
        timeout_ms = self.__effects.settings.execution.timeout_ms
        try:
            timeout_ms = timeout_ms_of(self, timeout_ms)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            executable = Unreadable(error)
        assert self.__attempt is None, "the attempt before is settled"
        suspect = task.attempts.suspect
        self.__attempt = attempt = Attempt(
            task=task,
            partition=self.__ownership.partition,
            epoch=self.__ownership.epoch,
            number=task.attempts.last + 1,
            suspect=suspect,
            timeout_ms=timeout_ms,
            record_start=self.__record_start if suspect or task.overdue_when_loaded else None,
        )
        self.__phase = _Phase.RUNNING
        self.__effects.runner.start(attempt, executable, self.__ref.tell)

    def __record_start(self, attempt: Attempt) -> "Future[None]":
        """Make the start durable; called on the worker, which waits for the future."""
        record = started_record(attempt, self.__context.clock.now_ms())
        recorded: Future[None] = Future()
        self.__tracker.tell(RecordStart(record, recorded))
        return recorded

    def __take_end(self, ended: AttemptEnded) -> None:
        if ended.attempt is not self.__attempt:
            return
        assert self.__phase is _Phase.RUNNING, "an attempt ends while it runs"
        partition, key = ended.attempt.partition, ended.attempt.task.key
        runner, telemetry = self.__effects.runner, self.__effects.telemetry
        if ended.ending is Ending.NOT_STARTED:
            runner.settle(ended.attempt)
            self.__attempt = None
            telemetry.emit(AttemptRefused(partition, key))
            foreign = not self.__ownership.continues(ended.attempt.epoch)
            if self.__draining or self.__final or foreign:
                self.__finish()
            else:
                self.__wait_for_permission()
            return
        telemetry.emit(finished_event(ended))
        if not self.__ownership.continues(ended.attempt.epoch):
            # Another owner may have run the key meanwhile, so this outcome proves nothing.
            runner.settle(ended.attempt)
            self.__finish()
            return
        self.__follow_up(ended)

    def __wait_for_permission(self) -> None:
        """Wait for a lease, or for a clock that was set back; it may be set forward again."""
        settings = self.__effects.settings
        due_in_ms = self.__open_task.key.scheduled_ms - self.__context.clock.now_ms()
        due_in_ms = min(due_in_ms, settings.window.clock_check_ms)
        self.__wait(max(due_in_ms, settings.execution.lease_retry_ms))

    def __follow_up(self, ended: AttemptEnded) -> None:
        match ended.ending:
            case Ending.DONE:
                self.__close(CompletionResult.SUCCESS, None, None, ended)
            case Ending.DROPPED:
                self.__close(CompletionResult.DROPPED, ended.reason, None, ended)
            case _:
                self.__fail(ended)

    def __fail(self, ended: AttemptEnded) -> None:
        """Count the attempt and make it durable before anything follows from it."""
        used, retry = ended.attempt.task.attempts.used + 1, policy_of(self)
        exhausted = used >= retry.attempts_max
        again = not exhausted and not self.__final
        # A key in doubt may be closed already: recorded first, then read again.
        closes = exhausted and not self.__final and not self.__doubted
        next_ms = None
        if again:
            next_ms = retry.next_attempt_ms(ended.finished_ms, used, ended.retry_after_ms)
        record = failed_record(ended, next_ms)
        self.__task = replace(
            self.__open_task,
            attempts=AttemptState(used, record.attempt, next_ms or 0),
            overdue_when_loaded=False,
        )
        if closes and retry.on_exhausted != "block":
            self.__give_up(record)
        else:
            self.__phase = _Phase.RECORDING
            self.__tracker.tell(RecordAttempt(record, self.__ref))

    def __give_up(self, record: AttemptRecord | None) -> None:
        """All attempts are used up."""
        task, partition = self.__open_task, self.__ownership.partition
        on_exhausted = policy_of(self).on_exhausted
        self.__effects.telemetry.emit(RetriesExhausted(partition, task.key, on_exhausted))
        match on_exhausted:
            case "skip":
                self.__close(CompletionResult.FAILURE, "attempts used up", record)
            case "dead_letter":
                self.__phase = _Phase.RECORDING
                letter = letter_of(task, partition, self.__context.clock.now_ms())
                future = self.__effects.writer.dead_letter(letter, "attempts used up")
                self.__context.pipe(future, lambda _position: _DeadLetterAcknowledged(record))
            case "block":
                self.__phase = _Phase.BLOCKED
                self.__parent.tell(TaskPostponed(task.key))
            case _:
                assert_never(on_exhausted)

    def __close(
        self,
        result: CompletionResult,
        reason: str | None,
        record: AttemptRecord | None,
        ended: AttemptEnded | None = None,
    ) -> None:
        completion = closing_completion(self.__open_task, result, reason, ended)
        if not completion.finished_ms:
            completion = replace(completion, finished_ms=self.__context.clock.now_ms())
        self.__phase = _Phase.RECORDING
        self.__tracker.tell(RecordCompletion(completion, record, self.__ref))

    def __take_completion(self, result: CompletionResult) -> None:
        key = self.__open_task.key
        assert self.__phase is _Phase.RECORDING, f"{key} was not being closed"
        self.__effects.telemetry.emit(TaskClosed(self.__ownership.partition, key, result))
        self.__settle()
        self.__doubted = False
        self.__finish()

    def __take_attempt(self) -> None:
        assert self.__phase is _Phase.RECORDING, "no attempt was being recorded"
        self.__settle()
        if self.__final:
            self.__finish()
            return
        self.__phase = _Phase.WAITING
        if self.__withdrawal is not None:
            withdrawal, self.__withdrawal = self.__withdrawal, None
            self.__withdraw(withdrawal)
        if self.__phase is _Phase.WAITING:
            self.__proceed()

    def __settle(self) -> None:
        if self.__attempt is not None:
            self.__effects.runner.settle(self.__attempt)
            self.__attempt = None

    def __finish(self) -> None:
        """Let the ordering id go on."""
        if self.__timer is not None:
            self.__timer.cancel()
        task, doubted = self.__open_task, self.__doubted
        self.__phase = _Phase.IDLE
        self.__task = self.__attempt = self.__timer = None
        self.__final = self.__doubted = False
        if self.__withdrawal is not None:
            self.__answer(self.__withdrawal, WithdrawalResult.ABSENT)
            self.__withdrawal = None
        self.__parent.tell(TaskExecuted(task.key, task.offset, doubted))

    # What may interrupt the steps.

    def __adopt(self, attempt: Attempt) -> None:
        assert self.__phase is _Phase.IDLE, "an old attempt is adopted before any task"
        assert attempt.partition == self.__ownership.partition, "another partition's attempt"
        self.__task = attempt.task
        self.__attempt = attempt
        # An earlier tree may have been told of a later record, or of a command (P6).
        self.__doubted = True
        self.__phase = _Phase.RUNNING
        self.__effects.runner.adopt(attempt, self.__ref.tell)

    def __update(self, task: StoredTask) -> None:
        """Use a later record's data for the next attempt, if there is one (P6)."""
        known = self.__task
        if known is None:
            # It ended just now; the parent sees that this record came too late for it.
            return
        assert task.key == known.key, "a record of another key"
        self.__task = known.merged_with(task)
        if task.offset > known.offset:
            # Opened again, unless what closed the key was a drop: that stays (P5).
            self.__doubted = self.__doubted or self.__final
            self.__final = False
            if self.__phase is _Phase.CHECKING:
                self.__check()

    def __withdraw(self, message: WithdrawTask) -> None:
        match self.__phase:
            case _Phase.RUNNING if not self.__left_worker(message):
                self.__final = self.__final or message.withdrawal is Withdrawal.CLOSE
                self.__answer(message, WithdrawalResult.RUNNING)
            case _Phase.RECORDING:
                self.__withdrawal = message
            case _Phase.IDLE:
                self.__answer(message, WithdrawalResult.ABSENT)
            case _Phase.RUNNING | _Phase.CHECKING | _Phase.WAITING | _Phase.BLOCKED:
                if self.__may_not_move(message):
                    self.__answer(message, WithdrawalResult.RAN)
                else:
                    self.__answer(message, WithdrawalResult.WITHDRAWN)
                    self.__finish()
            case _:
                assert_never(self.__phase)

    def __may_not_move(self, message: WithdrawTask) -> bool:
        return message.withdrawal is Withdrawal.MOVE and self.__open_task.attempts.last > 0

    def __left_worker(self, message: WithdrawTask) -> bool:
        """Whether user code was not called yet, and now never will be (P5)."""
        attempt, runner = self.__attempt, self.__effects.runner
        return attempt is not None and not self.__may_not_move(message) and runner.withdraw(attempt)

    def __answer(self, message: WithdrawTask, result: WithdrawalResult) -> None:
        message.reply_to.tell(TaskWithdrawn(message.key, result))

    def __drain(self) -> None:
        self.__draining = True
        if self.__phase in (_Phase.CHECKING, _Phase.WAITING, _Phase.BLOCKED):
            self.__finish()
