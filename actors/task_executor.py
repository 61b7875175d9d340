"""TaskExecutor: decides the result of one attempt: done, tried again, dropped, or given up.

The role is the record of one task at hand.  It checks whether the key is closed or the task has
expired, has the task run, has the outcome recorded, and then lets the ordering id continue.  Never
touches the store itself, and has no mailbox: PartitionExecutor calls it within a turn.

========== ============================================= =========================
phase      what it waits for                             a command may withdraw it
========== ============================================= =========================
following  the task before it, in whose batch it may be  before user code only
checking   whether the key is closed already             yes
waiting    the next attempt's time, or a lease           yes
running    an allowance, a worker, then user code        before user code only
recording  the outcome to be durable                     afterwards
letter     its dead letter to be written                 yes
blocked    an operator, or a node that can run the task  yes
========== ============================================= =========================
"""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import assert_never

import msgspec
from msgspec.structs import replace

from hourhand.actors.executors_of_kinds import ExecutorsOfKinds
from hourhand.actors.following import followers_of
from hourhand.actors.kernel.context import Timer
from hourhand.actors.messages import WithdrawTask
from hourhand.actors.model.execution.attempts import (
    Attempt,
    AttemptEnded,
    CheckpointMade,
    Ending,
    closing_completion,
    failed_record,
    finished_event,
    held_record,
    result_of,
    snoozed_record,
    state_after,
)
from hourhand.actors.model.execution.backoff import OnExhausted, RetryPolicy
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.executor_attributes import unmade_policy_of
from hourhand.actors.model.execution.task_state import Fate, Phase
from hourhand.actors.model.operations.events import (
    AttemptRefused,
    RetriesExhausted,
    TaskClosed,
    TaskHeld,
)
from hourhand.actors.model.task.links_text import may_have_links
from hourhand.actors.model.task.status import AttemptRecord, Completion, CompletionResult
from hourhand.actors.model.task.task import FRESH, AttemptState, StoredTask
from hourhand.actors.model.values.errors import CannotRunHere
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, format_instant
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.runner import Executable
from hourhand.actors.task_parent import TaskParent
from hourhand.actors.turn import AttemptDue, Turn

_USED_UP = "attempts used up"
"""The reason in the completion of a task that failed; other reasons name the error."""
_CHECKS_APART = 60
"""A waiting attempt looks at the wall clock this many times less often: thousands may wait."""


def _unanswered(_error: BaseException | None) -> None:
    """Do nothing: the attempt is over."""


@dataclass(frozen=True, slots=True)
class _Closing:
    """The end of a task that brings a follower."""

    completion: Completion
    record: AttemptRecord | None
    ended: AttemptEnded | None


@dataclass(slots=True)
class _Setback:
    """The further state of a task that is not done by its first attempt; few tasks have one."""

    timer: Timer | None = None
    waits_until: tuple[int, float] | None = None
    """Wall time of the next attempt, and the monotonic time until which it waits."""
    withdrawal: WithdrawTask | None = None
    """The command that is answered once the outcome is durable."""
    is_held: bool = False
    """No executor here runs the task; it waits for a node that has one."""
    exhausted: OnExhausted | None = None
    """The policy's decision once all attempts are used up; None before."""
    used_up_reason: str = _USED_UP
    letter: "Future[Position] | None" = None
    """A dead letter, or a follower, that the log is about to acknowledge."""
    closing: "_Closing | None" = None
    """The end to record once the log has the task's follower."""


class TaskExecutorRole(msgspec.Struct, eq=False):
    """One task at hand: it has one phase and at most one attempt at a time.

    It is a struct because one is made for each task, and a struct is much cheaper to construct.
    """

    parent: "TaskParent[TaskExecutorRole]"
    turn: Turn
    task: StoredTask
    executors: ExecutorsOfKinds
    """The objects that may run the task."""
    is_unordered: bool = False
    attempt: Attempt | None = None
    ended: AttemptEnded | None = None
    """The end of an attempt that came before the task's turn, or that closes the task."""
    phase: Phase = Phase.FOLLOWING
    fate: Fate = Fate.OPEN
    is_slow: bool = False
    """The task takes long, or waits for its next attempt or an operator."""
    is_withdrawn: bool = False
    """A command that may leave the task open has withdrawn it."""
    setback: _Setback | None = None

    @property
    def is_own(self) -> bool:
        """True if records and commands for its key concern it."""
        return self.fate is not Fate.FOREIGN

    @property
    def is_doubted(self) -> bool:
        """True if its key is read again once it has ended."""
        return self.fate is Fate.DOUBTED or self.fate is Fate.FOREIGN

    def awaits_log_since(self, ended_ms: int) -> bool:
        """True if the task ended by then, and waits until the log has its follower."""
        closing = None if self.setback is None else self.setback.closing
        return closing is not None and closing.completion.finished_ms <= ended_ms

    @property
    def _known_setback(self) -> _Setback:
        if self.setback is None:
            self.setback = _Setback()
        return self.setback

    # One attempt, in the order of its steps.

    def begin(self) -> None:
        """Check whether the key is closed; if it is open, start the first attempt."""
        closed = self.turn.known.is_closed(self.task)
        if closed is None:
            self.phase = Phase.CHECKING
            self.turn.checks.append(self.task)
        elif closed:
            self._end(is_closed=True)
        elif self.task.attempts is FRESH:
            self._attempt()
        else:
            self.proceed()

    def take_check(self, offset: int, *, closed: bool) -> None:
        """Continue with the answer about the key, unless it concerns an older record of it."""
        if self.phase is not Phase.CHECKING or offset != self.task.offset:
            return
        if closed:
            self._end(is_closed=True)
        else:
            self.proceed()

    def take_time(self) -> None:
        """Begin the next attempt, if its time has come by the wall clock; or close a task whose
        expiry has passed while it waited.
        """
        if self.phase is Phase.WAITING:
            self.proceed()
        elif self.phase is Phase.RUNNING or self.phase is Phase.BLOCKED:
            self._watch_expiry()

    def proceed(self) -> None:
        """Start the next attempt, wait for its time, or give up."""
        if self.fate is not Fate.OPEN or self.parent.is_paused:
            self._end()
            return
        task, setback = self.task, self.setback
        attempts = task.attempts
        if attempts is not FRESH:
            if self._expires(self.turn.effects.expires_ms_of(task)):
                return
            wait_ms = self._wait_left_ms(attempts)
            if wait_ms > 0:
                self._wait(wait_ms)
                self.parent.mark_slow(self)
                return
        if setback is not None and setback.exhausted is not None:
            self._give_up(setback.exhausted, None)
            return
        self._attempt()

    def _attempt(self) -> None:
        task, effects, expires_ms = self.task, self.turn.effects, None
        kind, expiry = task.kind_and_expiry
        if expiry is not None or effects.expires_after_ms:
            expires_ms = effects.expires_ms_of(task)
            if self._expires(expires_ms):
                return
        try:
            executor = self.executors.of(kind, task.key.ordering_id, effects)
        except CannotRunHere as error:
            self._record_held(type(error).__name__, str(error))
            return
        if task.attempts.suspect:
            # The constructor may be the code that ends the process, so no instance is made here.
            policy = unmade_policy_of(executor)
            if task.attempts.used >= policy.attempts_max:
                self._give_up(policy.on_exhausted, None)
                return
        assert self.attempt is None, "the attempt before is settled"
        self.start(executor, expires_ms=expires_ms)
        self.phase = Phase.RUNNING
        if expires_ms is not None:
            # It may wait for long before its code is called.
            self._watch_expiry()
        if task.attempts.suspect:
            # It waits for the other suspects of the node, however long they run.
            self.parent.mark_slow(self)
        if self.turn.has_kinds_apart and not self.is_unordered:
            self.parent.begin_run(self, executor)

    def start(
        self,
        executable: Executable,
        follows: Attempt | None = None,
        expires_ms: int | None = None,
    ) -> Attempt:
        """Make the next attempt.  One whose start becomes durable before user code runs carries the
        function that records starts.  One that follows another finds its expiry itself.
        """
        task, turn = self.task, self.turn
        if follows is not None:
            expires_ms = turn.effects.expires_ms_of(task)
        attempts = task.attempts
        suspect = attempts.suspect
        self.attempt = attempt = Attempt(
            task,
            turn.ownership.partition,
            turn.ownership.epoch,
            # One that was snoozed is not over.
            attempts.last if attempts.snoozed and not suspect else attempts.last + 1,
            suspect,
            turn.effects.settings.execution.timeout_ms,
            turn.record_starts if suspect or self._has_durable_start() else None,
            self.is_unordered,
            follows,
            expires_ms,
        )
        turn.starts.append((attempt, executable))
        return attempt

    def _has_durable_start(self) -> bool:
        """True if the next owner must know that the attempt may have begun: an earlier owner may
        have begun it too, or its policy allows no other.
        """
        task, effects = self.task, self.turn.effects
        if task.overdue_when_loaded:
            return True
        return bool(effects.one_attempt_kinds) and effects.allows_one_attempt(task)

    def take_turn(self) -> None:
        """Continue with a task whose user code was called behind that of the task before it."""
        assert self.attempt is not None, "its user code was called"
        self.phase = Phase.RUNNING
        ended, self.ended = self.ended, None
        if ended is not None:
            self.take_end(ended)

    def adopt(self, attempt: Attempt, *, phase: Phase) -> None:
        """Take over an attempt of an earlier tree."""
        turn = self.turn
        assert attempt.partition == turn.ownership.partition, "another partition's attempt"
        self.attempt, self.phase = attempt, phase
        # The earlier tree may have received a later record or a command for the key (P6).
        is_own = turn.ownership.continues(attempt.epoch)
        self.fate = Fate.DOUBTED if is_own else Fate.FOREIGN
        turn.adopt(attempt)

    def _wait(self, delay_ms: float) -> None:
        assert delay_ms > 0, "what may begin does not wait"
        self.phase = Phase.WAITING
        check_ms = self.turn.effects.settings.window.clock_check_ms * _CHECKS_APART
        expires_ms = self.turn.effects.expires_ms_of(self.task)
        if expires_ms is not None:
            delay_ms = min(delay_ms, max(1, expires_ms - self.turn.clock.now_ms()))
        self._look_in(min(delay_ms, check_ms))

    def _look_in(self, delay_ms: float) -> None:
        """Have ``take_time`` called after a time, and not before."""
        setback = self._known_setback
        if setback.timer is not None:
            setback.timer.cancel()
        setback.timer = self.turn.after(delay_ms, AttemptDue(self.task.key))

    def _wait_left_ms(self, attempts: AttemptState) -> float:
        """Return how long the next attempt still waits: the shorter wait of both clocks, because
        the wall clock may have been ahead when the time was chosen.
        """
        clock = self.turn.clock
        left_ms: float = attempts.next_attempt_ms - clock.now_ms()
        if left_ms > 0 and attempts.wait_ms:
            setback, now_ms, at_ms = (
                self._known_setback,
                clock.monotonic_ms(),
                attempts.next_attempt_ms,
            )
            if setback.waits_until is None or setback.waits_until[0] != at_ms:
                setback.waits_until = at_ms, now_ms + attempts.wait_ms
            left_ms = min(left_ms, setback.waits_until[1] - now_ms)
        return left_ms

    # Its expiry passes.

    def _is_past(self, expires_ms: int | None) -> bool:
        return expires_ms is not None and self.turn.clock.now_ms() >= expires_ms

    def _expires(self, expires_ms: int | None) -> bool:
        """Close the task where its expiry has passed; return whether it has."""
        if expires_ms is None or self.turn.clock.now_ms() < expires_ms:
            return False
        self._close(CompletionResult.EXPIRED, f"expired at {format_instant(expires_ms)}", None)
        return True

    def _watch_expiry(self) -> None:
        """Close the task at its expiry, unless its code has been called by then."""
        expires_ms = self.turn.effects.expires_ms_of(self.task)
        if expires_ms is None or self.fate is not Fate.OPEN or self.parent.is_paused:
            return
        left_ms = expires_ms - self.turn.clock.now_ms()
        if left_ms > 0:
            # The wall clock may be stepped.
            check_ms = self.turn.effects.settings.window.clock_check_ms * _CHECKS_APART
            self._look_in(min(left_ms, check_ms))
            return
        if self.attempt is not None:
            if not self.turn.withdraw(self.attempt):
                return
            self.attempt = None
            self.parent.void_run(self)
        self._expires(expires_ms)

    # The attempt ends.

    def take_end(self, ended: AttemptEnded) -> None:
        """Handle the end of the attempt, or keep it until the task's turn."""
        assert ended.attempt is self.attempt, "another attempt ended"
        if self.phase is Phase.FOLLOWING:
            self.ended = ended
            return
        assert self.phase is Phase.RUNNING, "an attempt ends while it runs"
        turn, ending = self.turn, ended.ending
        if ending is Ending.DONE and turn.ownership.continues(ended.attempt.epoch):
            # Operators are told once it is durable.
            self.ended = ended
            self.phase = Phase.RECORDING
            result, kind = CompletionResult.SUCCESS, self._told_kind()
            completion = closing_completion(self.task, result, None, ended, kind)
            if may_have_links(self.task.body) and self._brings(completion, None, ended):
                return
            turn.completions.append(completion)
            if ended.returned is not None or ended.checkpoint is not None:
                self._append_made(ended)
            return
        self._take_checkpoint(ended)
        if not ending.is_of_user_code:
            turn.settled.append(ended.attempt)
            self.attempt = None
            self.parent.void_run(self)
            self._take_uncalled(ended)
        elif not turn.ownership.continues(ended.attempt.epoch):
            # Another owner may have run the key meanwhile, so this outcome does not count.
            turn.emit(finished_event(ended))
            self._settle()
            self._end()
        else:
            turn.emit(finished_event(ended))
            self._follow_up(ended)

    def _append_made(self, ended: AttemptEnded) -> None:
        """Record the value and the last checkpoint of an attempt that ended well."""
        turn = self.turn
        if ended.returned is not None:
            retention_ms = turn.effects.settings.watermark.result_retention_ms
            turn.results.append(result_of(ended, retention_ms))
        if ended.checkpoint is not None:
            # This checkpoint is only shown: no attempt follows, so the outcome does not wait.
            turn.made.append(CheckpointMade(ended.attempt, ended.checkpoint, _unanswered))

    def _take_checkpoint(self, ended: AttemptEnded) -> None:
        """Make the last checkpoint durable before the outcome: the next attempt begins there."""
        last, turn = ended.checkpoint, self.turn
        if last is None or not turn.ownership.continues(ended.attempt.epoch):
            return
        turn.last_checkpoints.append(last)
        self.task = replace(self.task, attempts=self.task.attempts.with_checkpoint(last))

    def _take_uncalled(self, ended: AttemptEnded) -> None:
        """Handle the end of an attempt that has not called ``execute``."""
        attempt, ownership = ended.attempt, self.turn.ownership
        refused = ended.ending is Ending.NOT_STARTED
        if refused and not self._is_past(attempt.expires_ms):
            self.turn.emit(AttemptRefused(attempt.partition, attempt.task.key))
        is_over = self.parent.is_paused or self.fate is Fate.FINAL
        foreign = not ownership.continues(attempt.epoch)
        if is_over or foreign or (self.is_doubted and not refused):
            self._end()
            return
        # The start of a task that was given up before is recorded only if it runs after all.
        is_durable = attempt.record_starts is not None and not attempt.was_given_up
        if refused:
            if self.fate is not Fate.OPEN or not self._expires(attempt.expires_ms):
                self._wait_for_permission()
        elif ended.ending is Ending.HELD:
            error_class, text = ended.error_class or "", ended.error_message or ""
            self._record_held(error_class, text, attempt if is_durable else None)
        else:
            self._use_up(ended, is_durable=is_durable)

    def _use_up(self, ended: AttemptEnded, *, is_durable: bool) -> None:
        """Give up a task that had no attempt left before this one began."""
        task, used = self.task, self.task.attempts.used
        assert ended.ruling is not None, "a policy said so"
        self._known_setback.exhausted = on_exhausted = ended.ruling.on_exhausted
        record = failed_record(ended, used, None) if is_durable else None
        if record is not None:
            state = state_after(task.attempts, record)
            self.task = replace(task, attempts=state, overdue_when_loaded=False)
        self._give_up(on_exhausted, record)

    def _wait_for_permission(self) -> None:
        """Wait for a lease, or for a wall clock that was set back and may be set forward again."""
        settings = self.turn.effects.settings
        due_in_ms = self.task.key.scheduled_ms - self.turn.clock.now_ms()
        due_in_ms = min(due_in_ms, settings.window.clock_check_ms)
        self._wait(max(due_in_ms, settings.execution.lease_retry_ms))

    def _follow_up(self, ended: AttemptEnded) -> None:
        if ended.ending is Ending.CANCELLED:
            self._take_cancelled(ended)
        elif ended.ending is Ending.SNOOZED:
            self._take_snooze(ended)
        elif ended.ending is Ending.DROPPED:
            # An error that drops the task stays in its history like any other error.
            used = ended.attempt.task.attempts.used + 1
            record = failed_record(ended, used, None) if ended.error_class else None
            self._close(CompletionResult.DROPPED, ended.reason, record, ended)
        else:
            self._fail(ended)

    def _take_snooze(self, ended: AttemptEnded) -> None:
        """Let the same attempt go on later; what is behind it waits as behind a retry."""
        assert ended.retry_after_ms is not None, "a snooze says for how long"
        self.parent.void_run(self)
        next_ms = None
        if self.fate is not Fate.FINAL:
            next_ms = min(ended.finished_ms + ended.retry_after_ms, INSTANT_MAX_MS)
        record = snoozed_record(ended, next_ms)
        attempts = state_after(self.task.attempts, record)
        self.task = replace(self.task, attempts=attempts, overdue_when_loaded=False)
        self._record(record)

    def _take_cancelled(self, ended: AttemptEnded) -> None:
        """Record an attempt that a command ended without counting it.  The command has closed the
        key; the ordering id continues once the end of the attempt is durable.
        """
        self.parent.void_run(self)
        task = self.task
        record = failed_record(ended, ended.attempt.task.attempts.used, ended.finished_ms)
        attempts = state_after(task.attempts, record)
        self.task = replace(task, attempts=attempts, overdue_when_loaded=False)
        self._record(record)

    def _fail(self, ended: AttemptEnded) -> None:
        """Count the attempt, and make it durable before the next step."""
        self.parent.void_run(self)
        setback, is_open = self._known_setback, self.fate is not Fate.FINAL
        used = ended.attempt.task.attempts.used + 1
        rng, after_ms = self.turn.rng, ended.retry_after_ms
        ruling = ended.ruling or RetryPolicy().ruling(used, after_ms=after_ms, rng=rng)
        setback.used_up_reason = _USED_UP
        if ended.uses_up_all and used < ruling.attempts_max:
            # All attempts count as used, so that a later owner does not try the task again either.
            used = ruling.attempts_max
            setback.used_up_reason = f"{ended.error_class} is not retried"
        exhausted = used >= ruling.attempts_max
        setback.exhausted = ruling.on_exhausted if exhausted else None
        next_ms = None
        if not exhausted and is_open:
            next_ms = min(ended.finished_ms + ruling.wait_ms, INSTANT_MAX_MS)
        record = failed_record(ended, used, next_ms)
        attempts = state_after(self.task.attempts, record)
        self.task = replace(self.task, attempts=attempts, overdue_when_loaded=False)
        # A doubted key may be closed already: record the attempt first, then read the key again.
        if exhausted and self.fate is Fate.OPEN:
            self._give_up(ruling.on_exhausted, record)
        else:
            self._record(record)

    def _record_held(self, error_class: str, text: str, begun: Attempt | None = None) -> None:
        """Let the task wait for a node that can run it, and show operators why.

        A node that cannot run a task uses up none of its attempts.  ``begun`` is the attempt that
        failed for this reason, if its start is durable.
        """
        task, turn = self.task, self.turn
        record = held_record(task, error_class, text, turn.clock.now_ms(), begun)
        attempts = state_after(task.attempts, record)
        self.task = replace(task, attempts=attempts)
        self._known_setback.is_held = True
        failed_ms, partition = attempts.failed_ms, turn.ownership.partition
        turn.emit(TaskHeld(partition, task.key, task.kind, text, error_class, failed_ms))
        self._record(record)

    def _record(self, record: AttemptRecord) -> None:
        self.phase = Phase.RECORDING
        self.turn.records.append(record)

    def _give_up(self, on_exhausted: OnExhausted, record: AttemptRecord | None) -> None:
        """Apply the policy for used-up attempts; ``record`` is that of the last one, if any."""
        if record is not None and on_exhausted != "skip":
            # The next step may take long, so it begins once the record is durable.
            self._record(record)
            return
        task = self.task
        known = task.attempts
        event = RetriesExhausted(
            self.turn.ownership.partition,
            task.key,
            on_exhausted,
            known.last,
            known.failed_ms,
            known.error_class,
            task.kind,
        )
        self.turn.emit(event)
        match on_exhausted:
            case "skip":
                reason = self._known_setback.used_up_reason
                self._close(CompletionResult.FAILURE, reason, record)
            case "dead_letter":
                self._write_letter()
            case "block":
                self._block()
            case _:
                assert_never(on_exhausted)

    def _block(self) -> None:
        """Wait for an operator, or a node that can run it; at most until its expiry."""
        self.phase = Phase.BLOCKED
        self.parent.mark_slow(self)
        self._watch_expiry()

    def _write_letter(self) -> None:
        setback = self._known_setback
        self.phase = Phase.LETTER
        setback.letter = self.turn.write_letter(self.task, setback.used_up_reason)
        # The dead-letter topic may be unavailable for long.
        self.parent.mark_slow(self)

    def take_letter(self, letter: "Future[Position]") -> None:
        """Close the task whose dead letter or follower the log has."""
        setback = self.setback
        if setback is not None and letter is setback.letter:
            setback.letter = None
            if setback.closing is not None:
                self._take_follower(setback.closing)
            else:
                self._close(CompletionResult.FAILURE, setback.used_up_reason, None)

    def _end_letter(self) -> None:
        """Stop waiting for the letter, and stop writing it."""
        setback = self.setback
        if setback is not None and setback.letter is not None:
            letter, setback.letter = setback.letter, None
            letter.cancel()

    def _close(
        self,
        result: CompletionResult,
        reason: str | None,
        record: AttemptRecord | None,
        ended: AttemptEnded | None = None,
    ) -> None:
        turn = self.turn
        completion = closing_completion(self.task, result, reason, ended, self._told_kind())
        if not completion.finished_ms:
            completion = replace(completion, finished_ms=turn.clock.now_ms())
        self.phase = Phase.RECORDING
        if may_have_links(self.task.body) and self._brings(completion, record, None):
            return
        turn.completions.append(completion)
        if record is not None:
            turn.records.append(record)

    def _told_kind(self) -> str | None:
        """Return the kind for the stream of outcomes; reading it takes a while."""
        return self.task.kind if self.turn.effects.tells_outcomes else None

    # The follower is in the log before the end of the task is durable (P29).

    def _brings(
        self, completion: Completion, record: AttemptRecord | None, ended: AttemptEnded | None
    ) -> bool:
        """Send the follower of a task that ends; False if it brings none."""
        returned = None if ended is None else ended.returned
        records = followers_of(self.task, completion, returned)
        if not records:
            return False
        setback = self._known_setback
        setback.closing = _Closing(completion, record, ended)
        setback.letter = self.turn.send_follower(self.task, records)
        return True

    def _take_follower(self, closing: _Closing) -> None:
        """Record the end of the task, whose follower the log has."""
        turn, self._known_setback.closing = self.turn, None
        turn.completions.append(closing.completion)
        if closing.record is not None:
            turn.records.append(closing.record)
        if closing.ended is not None:
            self._append_made(closing.ended)

    # The outcome is durable.

    def take_completion(self, result: CompletionResult) -> None:
        """Remove the task, which is durably closed."""
        turn, ended = self.turn, self.ended
        assert self.phase is Phase.RECORDING, "nothing of it was being recorded"
        if ended is not None:
            turn.succeeded.append(ended)
        else:
            turn.emit(TaskClosed(turn.ownership.partition, self.task.key, result))
        if self.attempt is not None:
            turn.settled.append(self.attempt)
        if self.setback is None:
            self.parent.end(self, is_closed=True)
        else:
            self._end(is_closed=True)

    def take_record(self) -> None:
        """Continue with the task, whose last attempt is durable."""
        assert self.phase is Phase.RECORDING, "no attempt was being recorded"
        self._settle()
        if self.fate is Fate.FINAL:
            self._end()
            return
        self.phase = Phase.WAITING
        setback = self._known_setback
        if setback.withdrawal is not None:
            withdrawal, setback.withdrawal = setback.withdrawal, None
            if self._withdraw_idle(withdrawal):
                return
        if setback.is_held and not self.parent.is_paused:
            self._block()
        else:
            self.proceed()

    def _settle(self) -> None:
        if self.attempt is not None:
            self.turn.settled.append(self.attempt)
            self.attempt = None

    def _end(self, *, is_closed: bool = False) -> None:
        """Remove the task, and let the ordering id continue."""
        setback = self.setback
        if setback is not None:
            if setback.timer is not None:
                setback.timer.cancel()
            self._end_letter()
            if setback.withdrawal is not None:
                self.turn.answer(setback.withdrawal, WithdrawalResult.ABSENT)
        self.parent.end(self, is_closed=is_closed)

    # Interruptions of the steps: later records, commands, and pauses.

    def merge(self, task: StoredTask) -> bool:
        """Use a later record for the next attempt (P6); return True if it is newer."""
        known = self.task
        assert task.key == known.key, "a record of another key"
        self.task = known.merged_with(task)
        if self.setback is not None and task.kind != known.kind:
            # The policy of the new kind may allow more attempts.
            self.setback.exhausted = None
        is_newer = task.offset > known.offset
        if is_newer and self.fate is Fate.FINAL:
            # The record opens the key again, unless a drop closed it: a drop stays (P5).
            self.fate = Fate.DOUBTED
        return is_newer

    def update(self, task: StoredTask) -> None:
        """Use a later record's data for the next attempt, if one follows (P6)."""
        if not self.merge(task):
            return
        # The record may name another kind, which this node knows.
        is_held = self.setback is not None and self.setback.is_held
        if is_held:
            self._known_setback.is_held = False
        if self.phase is Phase.CHECKING:
            self.begin()
        elif self.phase is Phase.RUNNING and self.left_limit():
            # It may wait for long, and its new data may fall under another limit or value.
            self.parent.void_run(self)
            self.proceed()
        elif self.phase is Phase.BLOCKED and is_held:
            self.proceed()
        elif self.phase is Phase.LETTER:
            # The letter has the data of the earlier record.
            self._end_letter()
            self.proceed()

    def withdraw(self, message: WithdrawTask) -> None:
        """Withdraw the task for a command, unless its attempt runs."""
        if self.phase is Phase.RUNNING and not self._left_worker(message):
            if message.withdrawal is Withdrawal.CLOSE:
                self.close_by_command()
            self.turn.answer(message, WithdrawalResult.RUNNING, self.attempt)
        elif self.phase is Phase.RECORDING:
            assert self._known_setback.withdrawal is None, "one command is worked at a time"
            self._known_setback.withdrawal = message
        else:
            self._withdraw_idle(message)

    def withdraw_foreign(self, message: WithdrawTask) -> bool:
        """Ask code to end that began under another owner's epoch, if the command asks for that;
        return True if it runs on.  Its outcome does not count, so nothing else waits for it.
        """
        if not self._interrupts(message) or self.phase is not Phase.RUNNING:
            return False
        if self._left_worker(message):
            self._end()
            return False
        return True

    def close_by_command(self) -> None:
        """Let the attempt end, and allow no further one; a doubted key is read again anyway."""
        if self.fate is Fate.OPEN:
            self.fate = Fate.FINAL

    def may_not_move(self, withdrawal: Withdrawal) -> bool:
        """True if a command may move only tasks that never ran, and this one did."""
        return withdrawal is Withdrawal.MOVE and self.task.attempts.last > 0

    def _withdraw_idle(self, message: WithdrawTask) -> bool:
        """Answer a command for a task that does not run; return True if the task is removed."""
        if self.may_not_move(message.withdrawal):
            self.turn.answer(message, WithdrawalResult.RAN)
            return False
        self.turn.answer(message, WithdrawalResult.WITHDRAWN)
        self._end()
        return True

    def _left_worker(self, message: WithdrawTask) -> bool:
        """Return True if user code was not called yet, and now never will be (P5).  Code that runs
        is asked to end, if the command says so.
        """
        attempt = self.attempt
        if attempt is None or self.may_not_move(message.withdrawal):
            return False
        return self.turn.withdraw(attempt, interrupts=self._interrupts(message))

    def _interrupts(self, message: WithdrawTask) -> bool:
        """True if a command asks code to end, and no later record has opened the key again."""
        up_to = message.interrupts_up_to
        return up_to is not None and self.task.offset <= up_to

    def left_limit(self) -> bool:
        """Take back an attempt that waits for a limit; return True if there was one."""
        if self.attempt is None or not self.turn.withdraw(self.attempt, limited=True):
            return False
        self.attempt = None
        return True

    def pause(self) -> None:
        """Begin no further attempt, because the ordering id is paused."""
        if self.phase in (Phase.CHECKING, Phase.WAITING, Phase.LETTER, Phase.BLOCKED):
            self._end()

    # Behind the task at hand of its ordering id.

    @property
    def may_count(self) -> bool:
        """True if it has an attempt whose user code was called, or may still be called."""
        is_refused = self.ended is not None and self.ended.ending is Ending.NOT_STARTED
        return self.attempt is not None and not is_refused

    @property
    def is_begun(self) -> bool:
        """True if user code was called; if it was not, this attempt never calls it."""
        attempt = self.attempt
        if attempt is None or not self.may_count:
            return False
        return not self.turn.withdraw(attempt)

    def void(self) -> None:
        """Drop the attempt: the task runs again later, and the attempt does not count."""
        attempt, ended, turn = self.attempt, self.ended, self.turn
        self.attempt = self.ended = None
        if ended is not None:
            self._take_checkpoint(ended)
            if ended.ending.is_of_user_code:
                turn.emit(finished_event(ended))
        if attempt is not None and not turn.withdraw(attempt):
            turn.settled.append(attempt)
