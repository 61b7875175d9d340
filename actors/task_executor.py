"""TaskExecutor: what follows from one attempt: done, tried again, dropped, or given up.

The role holds the user's ``TaskExecutor``, one for each kind of task of its ordering id, and
decides what becomes of a task.  It checks that the task is not closed already, has it run, makes
the outcome durable, and only then lets the ordering id go on.  Never touches the store itself.

========== ============================================= =========================
phase      what it waits for                             a command may withdraw it
========== ============================================= =========================
idle       a task
checking   whether the key is closed already             yes
waiting    the next attempt's time, or a lease           yes
running    an allowance, a worker, then user code        before user code only
recording  the outcome to be durable                     afterwards
letter     its dead letter to be written                 yes
blocked    an operator, or a node that can run the task  yes
========== ============================================= =========================
"""

from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum, auto
from functools import partial
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.following_tasks import Follower, FollowingTasks
from actors.held_executors import HeldExecutors
from actors.kernel.actor import Actor
from actors.kernel.context import RequestFailed, Timer
from actors.kernel.ref import Recipient
from actors.messages import (
    AdoptAttempt,
    AdoptFollower,
    AdoptLane,
    AttemptRecorded,
    AttemptTask,
    CheckTask,
    CompletionRecorded,
    DrainTasks,
    RecordAttempt,
    RecordCompletion,
    RecordStarts,
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
    held_record,
    state_after,
)
from actors.model.backoff import OnExhausted, RetryPolicy
from actors.model.codec import letter_of
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.errors import CannotRunHere
from actors.model.events import AttemptRefused, RetriesExhausted, TaskClosed, TaskHeld
from actors.model.executor_attributes import unmade_policy_of
from actors.model.instant import INSTANT_MAX_MS
from actors.model.ownership import Ownership
from actors.model.status import AttemptRecord, CompletionResult
from actors.model.task import FRESH, AttemptState, StoredTask
from actors.ports.effects import Effects
from actors.ports.log import Position
from actors.ports.runner import Executable

_USED_UP = "attempts used up"
"""Why a task that failed is closed; other reasons name the error."""
_CHECKS_APART = 60
"""How many checks of the wall clock a waiting attempt leaves out: there may be thousands."""


class _Phase(Enum):
    IDLE = auto()
    CHECKING = auto()
    WAITING = auto()
    RUNNING = auto()
    RECORDING = auto()
    LETTER = auto()
    BLOCKED = auto()


class _WaitOver(msgspec.Struct, frozen=True):
    pass


class _ClockCheckDue(msgspec.Struct, frozen=True):
    pass


class _DeadLetterAcknowledged(msgspec.Struct, frozen=True):
    letter: "Future[Position]"
    """Told from one that nobody waits for any more."""


Message = (
    AttemptTask
    | AdoptFollower
    | TaskChecked
    | AttemptEnded
    | CompletionRecorded
    | AttemptRecorded
    | _WaitOver
    | _ClockCheckDue
    | UpdateTask
    | WithdrawTask
    | AdoptAttempt
    | AdoptLane
    | _DeadLetterAcknowledged
    | DrainTasks
)
"""All that this role is told."""


class TaskExecutorRole(Actor):
    """One phase, one task, one attempt at a time; anything else is a bug."""

    def __init__(
        self,
        effects: Effects,
        ownership: Ownership,
        parent: Recipient,
        *,
        siblings: Siblings,
        executors: HeldExecutors,
        following: FollowingTasks | None = None,
    ) -> None:
        """Without ``following`` its tasks need no order."""
        self._effects = effects
        self._ownership = ownership
        self._parent = parent
        self._tracker = siblings.completion_tracker
        self._known = siblings.known_completions
        self._executors = executors
        self._following = following
        """What may be in a batch with the task at hand, behind it."""
        self._phase = _Phase.IDLE
        self._task: StoredTask | None = None
        self._attempt: Attempt | None = None
        self._timer: Timer | None = None
        self._waits_until: tuple[int, float] | None = None
        """Until when the attempt after one of a number waits, by the clock that only measures."""
        self._withdrawal: WithdrawTask | None = None
        self._final = False
        self._draining = False
        self._doubted = False
        self._is_held = False
        """Nothing here runs the task at hand; it is held for a node that does."""
        self._exhausted: OnExhausted | None = None
        """What follows for the task at hand, all attempts of which are used up; None else."""
        self._used_up_reason = _USED_UP
        self._letter: Future[Position] | None = None

    def on_receive(self, message: Message) -> None:
        match message:
            case AttemptTask(task=task):
                self._begin(task)
            case AdoptFollower(follower=follower):
                self._follow(follower)
            case TaskChecked():
                self._take_check(message)
            case AttemptEnded():
                self._take_end(message)
            case CompletionRecorded(result=result):
                self._take_completion(result)
            case AttemptRecorded():
                self._take_attempt()
            case _WaitOver():
                self._proceed()
            case _ClockCheckDue():
                self._look_at_clock()
            case UpdateTask(task=task):
                self._update(task)
            case WithdrawTask():
                self._withdraw(message)
            case AdoptAttempt(attempt=attempt):
                self._adopt(attempt)
            case AdoptLane():
                self._adopt_lane(message)
            case _DeadLetterAcknowledged(letter=letter):
                if letter is self._letter:
                    self._letter = None
                    self._close(CompletionResult.FAILURE, self._used_up_reason, None)
            case DrainTasks():
                self._drain()
            case _:
                assert_never(message)

    @property
    def _open_task(self) -> StoredTask:
        task = self._task
        assert task is not None, "this phase has a task at hand"
        return task

    def _record_held(self, error_class: str, text: str, begun: Attempt | None = None) -> None:
        """Hold the task for a node that can run it; say why where operators look.

        None of its attempts is used up by a node that could not make one.  ``begun`` is the
        attempt that found it out, where its start is durable.
        """
        task = self._open_task
        record = held_record(task, error_class, text, self._context.clock.now_ms(), begun)
        attempts = state_after(task.attempts, record)
        self._task = replace(task, attempts=attempts)
        self._is_held = True
        partition = self._ownership.partition
        event = TaskHeld(partition, task.key, task.kind, text, error_class, attempts.failed_ms)
        self._effects.telemetry.emit(event)
        self._record(record)

    # One attempt, in the order of its steps.

    def _begin(self, task: StoredTask) -> None:
        assert self._phase is _Phase.IDLE, "one task at a time"
        self._task = task
        self._check()

    def _check(self) -> None:
        task = self._open_task
        closed = self._known.is_closed(task)
        if closed is None:
            self._phase = _Phase.CHECKING
            self._tracker.tell(CheckTask(task, self.actor_ref))
        else:
            self._follow_check(closed=closed)

    def _take_check(self, checked: TaskChecked) -> None:
        if self._phase is not _Phase.CHECKING:
            return
        task = self._open_task
        if (checked.key, checked.offset) != (task.key, task.offset):
            # About a task that was withdrawn meanwhile, or an older record of this one.
            return
        self._follow_check(closed=checked.closed)

    def _follow_check(self, *, closed: bool) -> None:
        if closed:
            self._finish()
        else:
            self._proceed()

    def _proceed(self) -> None:
        """Start the next attempt, or wait for its time, or give up."""
        if self._draining or self._doubted:
            self._finish()
            return
        task = self._open_task
        attempts = task.attempts
        if attempts is not FRESH:
            wait_ms = self._wait_left_ms(attempts)
            if wait_ms > 0:
                self._wait(wait_ms)
                self._parent.tell(TaskPostponed(task.key))
                return
        if self._exhausted is not None:
            self._give_up(self._exhausted, None)
            return
        try:
            executor = self._executors.of(task)
        except CannotRunHere as error:
            self._record_held(type(error).__name__, str(error))
            return
        if attempts.suspect:
            # Its constructor may be what ends the process, so its policy is not asked.
            policy = unmade_policy_of(executor)
            if attempts.used >= policy.attempts_max:
                self._give_up(policy.on_exhausted, None)
                return
        self._start(task, executor)

    def _wait(self, delay_ms: float) -> None:
        assert delay_ms > 0, "what may begin does not wait"
        self._phase = _Phase.WAITING
        window = self._effects.settings.window
        check_ms = window.clock_check_ms * _CHECKS_APART
        if delay_ms > check_ms:
            self._timer = self._context.after(check_ms, _ClockCheckDue())
        else:
            self._timer = self._context.after(delay_ms, _WaitOver())

    def _wait_left_ms(self, attempts: AttemptState) -> float:
        """Return how long the next attempt waits, by the clock that says so first: the wall clock
        may have been ahead when its time was chosen.
        """
        clock = self._context.clock
        left_ms: float = attempts.next_attempt_ms - clock.now_ms()
        if left_ms > 0 and attempts.wait_ms:
            now_ms, number = clock.monotonic_ms(), attempts.last
            if self._waits_until is None or self._waits_until[0] != number:
                self._waits_until = number, now_ms + attempts.wait_ms
            left_ms = min(left_ms, self._waits_until[1] - now_ms)
        return left_ms

    def _look_at_clock(self) -> None:
        """Go on waiting, unless the wall clock was set forward meanwhile."""
        wait_ms = self._wait_left_ms(self._open_task.attempts)
        if wait_ms > 0:
            self._wait(wait_ms)
        else:
            self._proceed()

    def _start(self, task: StoredTask, executable: Executable) -> None:
        assert self._attempt is None, "the attempt before is settled"
        start = self._started(task, executable)
        self._attempt = attempt = start[0]
        starts, following = [start], self._following
        if following is not None and len(following):
            # All at once, or the batch would begin without them.
            starts += following.begin(partial(self._followed, executable), attempt)
        self._phase = _Phase.RUNNING
        self._effects.runner.start(starts, self.actor_ref.tell)

    def _started(
        self, task: StoredTask, executable: Executable, follows: Attempt | None = None
    ) -> tuple[Attempt, Executable]:
        return self._executors.attempt(
            task,
            executable,
            self._ownership,
            self._record_starts,
            is_unordered=self._following is None,
            follows=follows,
        )

    def _followed(
        self, executable: Executable, task: StoredTask, before: Attempt
    ) -> tuple[Attempt, Executable]:
        return self._started(task, executable, before)

    def _follow(self, follower: Follower) -> None:
        """Go on with a task whose user code was called behind that of the one before."""
        assert self._phase is _Phase.IDLE, "one task at a time"
        assert follower.attempt is not None, "its user code was called"
        self._task, self._attempt = follower.task, follower.attempt
        self._final, self._doubted = follower.is_final, follower.is_doubted
        self._phase = _Phase.RUNNING
        if follower.ended is not None:
            self._take_end(follower.ended)

    def _record_starts(self, attempts: Sequence[Attempt]) -> "Future[None]":
        return record_starts(self._tracker, attempts)

    def _take_end(self, ended: AttemptEnded) -> None:
        if ended.attempt is not self._attempt:
            if self._following is not None:
                self._following.note_end(ended)
            return
        assert self._phase is _Phase.RUNNING, "an attempt ends while it runs"
        runner, telemetry = self._effects.runner, self._effects.telemetry
        if not ended.ending.is_of_user_code:
            runner.settle((ended.attempt,))
            self._attempt = None
            self._void_following()
            self._take_uncalled(ended)
            return
        telemetry.emit(finished_event(ended))
        if not self._ownership.continues(ended.attempt.epoch):
            # Another owner may have run the key meanwhile, so this outcome proves nothing.
            runner.settle((ended.attempt,))
            self._finish()
            return
        self._follow_up(ended)

    def _take_uncalled(self, ended: AttemptEnded) -> None:
        """Follow up an attempt that has not called ``execute``."""
        attempt = ended.attempt
        refused = ended.ending is Ending.NOT_STARTED
        if refused:
            self._effects.telemetry.emit(AttemptRefused(attempt.partition, attempt.task.key))
        foreign = not self._ownership.continues(attempt.epoch)
        if self._draining or self._final or foreign or (self._doubted and not refused):
            self._finish()
            return
        # What was given up before has its start made durable once that turns out to be wrong.
        is_durable = attempt.record_starts is not None and not attempt.was_given_up
        if refused:
            self._wait_for_permission()
        elif ended.ending is Ending.HELD:
            error_class, text = ended.error_class or "", ended.error_message or ""
            self._record_held(error_class, text, attempt if is_durable else None)
        else:
            self._use_up(ended, is_durable=is_durable)

    def _use_up(self, ended: AttemptEnded, *, is_durable: bool) -> None:
        """Give up a task that had no attempt left before this one."""
        task, used = self._open_task, self._open_task.attempts.used
        assert ended.ruling is not None, "a policy said so"
        self._exhausted = on_exhausted = ended.ruling.on_exhausted
        record = failed_record(ended, used, None) if is_durable else None
        if record is not None:
            state = state_after(task.attempts, record)
            self._task = replace(task, attempts=state, overdue_when_loaded=False)
        self._give_up(on_exhausted, record)

    def _wait_for_permission(self) -> None:
        """Wait for a lease, or for a clock that was set back; it may be set forward again."""
        settings = self._effects.settings
        due_in_ms = self._open_task.key.scheduled_ms - self._context.clock.now_ms()
        due_in_ms = min(due_in_ms, settings.window.clock_check_ms)
        self._wait(max(due_in_ms, settings.execution.lease_retry_ms))

    def _follow_up(self, ended: AttemptEnded) -> None:
        match ended.ending:
            case Ending.DONE:
                self._close(CompletionResult.SUCCESS, None, None, ended)
            case Ending.DROPPED:
                # An error that drops the task stays in its history as any other does.
                used = ended.attempt.task.attempts.used + 1
                record = failed_record(ended, used, None) if ended.error_class else None
                self._close(CompletionResult.DROPPED, ended.reason, record, ended)
            case _:
                self._fail(ended)

    def _fail(self, ended: AttemptEnded) -> None:
        """Count the attempt and make it durable before anything follows from it."""
        self._void_following()
        used = ended.attempt.task.attempts.used + 1
        rng, after_ms = self._context.rng, ended.retry_after_ms
        ruling = ended.ruling or RetryPolicy().ruling(used, after_ms=after_ms, rng=rng)
        self._used_up_reason = _USED_UP
        if ended.uses_up_all and used < ruling.attempts_max:
            # All are counted as used, so a later owner does not try it again either.
            used = ruling.attempts_max
            self._used_up_reason = f"{ended.error_class} is not retried"
        exhausted = used >= ruling.attempts_max
        self._exhausted = ruling.on_exhausted if exhausted else None
        again = not exhausted and not self._final
        # A key in doubt may be closed already: recorded first, then read again.
        closes = exhausted and not self._final and not self._doubted
        next_ms = None
        if again:
            next_ms = min(ended.finished_ms + ruling.wait_ms, INSTANT_MAX_MS)
        record = failed_record(ended, used, next_ms)
        task = self._open_task
        attempts = state_after(task.attempts, record)
        self._task = replace(task, attempts=attempts, overdue_when_loaded=False)
        if closes:
            self._give_up(ruling.on_exhausted, record)
        else:
            self._record(record)

    def _record(self, record: AttemptRecord) -> None:
        self._phase = _Phase.RECORDING
        self._tracker.tell(RecordAttempt(record, self.actor_ref))

    def _give_up(self, on_exhausted: OnExhausted, record: AttemptRecord | None) -> None:
        """Do what follows as all attempts are used up; ``record`` is the last one's, if any."""
        if record is not None and on_exhausted != "skip":
            # What follows may wait for long, and begins once that is durable.
            self._record(record)
            return
        task, partition = self._open_task, self._ownership.partition
        known = task.attempts
        event = RetriesExhausted(
            partition,
            task.key,
            on_exhausted,
            known.last,
            known.failed_ms,
            known.error_class,
            task.kind,
        )
        self._effects.telemetry.emit(event)
        match on_exhausted:
            case "skip":
                self._close(CompletionResult.FAILURE, self._used_up_reason, record)
            case "dead_letter":
                self._write_letter(task)
            case "block":
                self._phase = _Phase.BLOCKED
                self._parent.tell(TaskPostponed(task.key))
            case _:
                assert_never(on_exhausted)

    def _write_letter(self, task: StoredTask) -> None:
        self._phase = _Phase.LETTER
        record = letter_of(task, self._ownership.partition, self._context.clock.now_ms())
        letter = self._effects.writer.dead_letter(record, self._used_up_reason)
        self._letter = letter
        acknowledged = _DeadLetterAcknowledged(letter)

        def failed(error: BaseException) -> object:
            return acknowledged if letter.cancelled() else RequestFailed(error)

        self._context.pipe(letter, lambda _position: acknowledged, failed)
        # The dead-letter topic may take nothing for long.
        self._parent.tell(TaskPostponed(task.key))

    def _end_letter(self) -> None:
        """Wait for it no longer, and try it no more."""
        letter, self._letter = self._letter, None
        if letter is not None:
            letter.cancel()

    def _close(
        self,
        result: CompletionResult,
        reason: str | None,
        record: AttemptRecord | None,
        ended: AttemptEnded | None = None,
    ) -> None:
        completion = closing_completion(self._open_task, result, reason, ended)
        if not completion.finished_ms:
            completion = replace(completion, finished_ms=self._context.clock.now_ms())
        self._phase = _Phase.RECORDING
        self._tracker.tell(RecordCompletion(completion, record, self.actor_ref))

    def _take_completion(self, result: CompletionResult) -> None:
        key = self._open_task.key
        assert self._phase is _Phase.RECORDING, f"{key} was not being closed"
        self._effects.telemetry.emit(TaskClosed(self._ownership.partition, key, result))
        self._settle()
        self._doubted = False
        self._finish()

    def _take_attempt(self) -> None:
        assert self._phase is _Phase.RECORDING, "no attempt was being recorded"
        self._settle()
        if self._final:
            self._finish()
            return
        self._phase = _Phase.WAITING
        if self._withdrawal is not None:
            withdrawal, self._withdrawal = self._withdrawal, None
            self._withdraw(withdrawal)
        if self._phase is not _Phase.WAITING:
            return
        if self._is_held and not self._draining:
            self._phase = _Phase.BLOCKED
            self._parent.tell(TaskPostponed(self._open_task.key))
        else:
            self._proceed()

    def _void_following(self) -> None:
        """What was in the batch behind a task that is not done has its turn after it (P4)."""
        if self._following is not None:
            self._following.void()

    def _settle(self) -> None:
        if self._attempt is not None:
            self._effects.runner.settle((self._attempt,))
            self._attempt = None

    def _finish(self) -> None:
        """Let the ordering id go on."""
        if self._timer is not None:
            self._timer.cancel()
        task, doubted = self._open_task, self._doubted
        self._phase = _Phase.IDLE
        self._task = self._attempt = self._timer = None
        self._final = self._doubted = self._is_held = False
        self._exhausted = self._waits_until = None
        self._used_up_reason = _USED_UP
        self._end_letter()
        if self._withdrawal is not None:
            self._answer(self._withdrawal, WithdrawalResult.ABSENT)
            self._withdrawal = None
        self._parent.tell(TaskExecuted(task.key, task.offset, doubted))

    # What may interrupt the steps.

    def _adopt(self, attempt: Attempt) -> None:
        if attempt.follows is not None and self._task is not None:
            # It has its turn behind the task at hand.
            self._effects.runner.adopt(attempt, self.actor_ref.tell)
            return
        assert self._phase is _Phase.IDLE, "an old attempt is adopted before any task"
        assert attempt.partition == self._ownership.partition, "another partition's attempt"
        self._task = attempt.task
        self._attempt = attempt
        # An earlier tree may have been told of a later record, or of a command (P6).
        self._doubted = True
        self._phase = _Phase.RUNNING
        self._effects.runner.adopt(attempt, self.actor_ref.tell)

    def _adopt_lane(self, message: AdoptLane) -> None:
        """Go on where the lane of this id stopped: nothing that came for it was missed."""
        assert self._phase is _Phase.IDLE, "a lane is taken over before any task"
        attempt = message.attempt
        assert attempt is not None, "a lane between two tasks has nothing for this role"
        self._task = attempt.task
        self._attempt = attempt
        if message.is_recording:
            self._phase = _Phase.RECORDING
        else:
            self._phase = _Phase.RUNNING
            self._effects.runner.adopt(attempt, self.actor_ref.tell)

    def _update(self, task: StoredTask) -> None:
        """Use a later record's data for the next attempt, if there is one (P6)."""
        known = self._task
        if known is None:
            # It ended just now; the parent sees that this record came too late for it.
            return
        assert task.key == known.key, "a record of another key"
        self._task = known.merged_with(task)
        if task.kind != known.kind:
            # Another policy says whether it may have attempts more.
            self._exhausted = None
        if task.offset > known.offset:
            # Opened again, unless what closed the key was a drop: that stays (P5).
            self._doubted = self._doubted or self._final
            self._final = False
            # Its kind may be another one, which this node knows.
            is_held, self._is_held = self._is_held, False
            if self._phase is _Phase.CHECKING:
                self._check()
            elif self._phase is _Phase.RUNNING and self._left_limit():
                # It may wait for long, and of its new data by another limit or value.
                self._attempt = None
                self._proceed()
            elif self._phase is _Phase.BLOCKED and is_held:
                self._proceed()
            elif self._phase is _Phase.LETTER:
                # The letter has the data of the record before.
                self._end_letter()
                self._proceed()

    def _withdraw(self, message: WithdrawTask) -> None:
        match self._phase:
            case _Phase.RUNNING if not self._left_worker(message):
                self._final = self._final or message.withdrawal is Withdrawal.CLOSE
                self._answer(message, WithdrawalResult.RUNNING)
            case _Phase.RECORDING:
                self._withdrawal = message
            case _Phase.IDLE:
                self._answer(message, WithdrawalResult.ABSENT)
            case _Phase.RUNNING | _Phase.CHECKING | _Phase.WAITING | _Phase.LETTER | _Phase.BLOCKED:
                if self._may_not_move(message):
                    self._answer(message, WithdrawalResult.RAN)
                else:
                    self._answer(message, WithdrawalResult.WITHDRAWN)
                    self._finish()
            case _:
                assert_never(self._phase)

    def _may_not_move(self, message: WithdrawTask) -> bool:
        return message.withdrawal is Withdrawal.MOVE and self._open_task.attempts.last > 0

    def _left_worker(self, message: WithdrawTask) -> bool:
        """Whether user code was not called yet, and now never will be (P5)."""
        attempt, runner = self._attempt, self._effects.runner
        return attempt is not None and not self._may_not_move(message) and runner.withdraw(attempt)

    def _left_limit(self) -> bool:
        """Whether the attempt waited for an allowance, and does so no more."""
        attempt, runner = self._attempt, self._effects.runner
        return attempt is not None and runner.withdraw(attempt, limited=True)

    def _answer(self, message: WithdrawTask, result: WithdrawalResult) -> None:
        message.reply_to.tell(TaskWithdrawn(message.key, result))

    def _drain(self) -> None:
        self._draining = True
        if self._phase in (_Phase.CHECKING, _Phase.WAITING, _Phase.LETTER, _Phase.BLOCKED):
            self._finish()


def record_starts(tracker: Recipient, attempts: Sequence[Attempt]) -> "Future[None]":
    """Have starts of attempts made durable; the future is cancelled where the tree ends."""
    recorded: Future[None] = Future()
    tracker.tell(RecordStarts(tuple(attempts), recorded))
    return recorded
