"""The effect of a command on a key, decided from the known state of the key; nothing is written
here.

One rule holds for all: a record never undoes an effect of a later record of the key, so reading a
command again changes nothing (P12).
"""

from collections.abc import Container, Iterator, Sequence
from enum import StrEnum
from typing import TypeGuard, assert_never

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import KeyStatus
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import BEFORE_EVERY_RECORD, AttemptState, StoredTask
from hourhand.actors.model.values.instant import format_instant


class WithdrawalResult(StrEnum):
    """The place where a withdrawn key was found."""

    ABSENT = "absent"
    """The key is not in memory: only the store knows it."""
    WITHDRAWN = "withdrawn"
    """It waited and is removed from memory."""
    RUNNING = "running"
    """An attempt runs; it may end, and no further one starts if the key is closed."""
    RAN = "ran"
    """Attempts already ran, and the command is only for tasks without one."""


class Withdrawal(StrEnum):
    """The reason why a key is withdrawn."""

    CLOSE = "close"
    MOVE = "move"
    RETRY = "retry"

    @classmethod
    def by(cls, kind: CommandKind) -> "Withdrawal":
        """Return the reason for a command of this kind to withdraw its key."""
        return _WITHDRAWALS[kind]


_WITHDRAWALS = {
    CommandKind.CANCEL: Withdrawal.CLOSE,
    CommandKind.DROP: Withdrawal.CLOSE,
    CommandKind.RESCHEDULE: Withdrawal.MOVE,
    CommandKind.RUN_NOW: Withdrawal.MOVE,
    CommandKind.RETRY: Withdrawal.RETRY,
    CommandKind.REPLACE: Withdrawal.CLOSE,
}


_APPLIED = (CommandOutcome.APPLIED, CommandOutcome.RUNNING)


class KnownTask(msgspec.Struct, frozen=True):
    """The known state of a key when a command for it is decided."""

    row: StoredTask | None
    completion: Completion | None
    attempts: AttemptState
    running: bool
    """True if an attempt runs on this node."""
    running_attempt: int = 0
    """Its number."""
    expires_ms: int | None = None
    """Wall time of its expiry; None where it has none."""

    @property
    def closing(self) -> Completion | None:
        """The completion that closes the key; None if it is open or unknown."""
        if self.completion is None:
            return None
        offset = self.row.offset if self.row else BEFORE_EVERY_RECORD
        return self.completion if self.completion.closes(offset) else None


def known_task(
    row: StoredTask | None,
    status: KeyStatus,
    withdrawal: WithdrawalResult,
    attempt: int = 0,
    expires_ms: int | None = None,
) -> KnownTask:
    """Return the state of a key from row, status and memory; ``attempt`` is the number of the
    running one, ``expires_ms`` the wall time of its expiry.
    """
    is_running = withdrawal is WithdrawalResult.RUNNING
    return KnownTask(row, status.completion, status.attempts, is_running, attempt, expires_ms)


class Decision(msgspec.Struct, frozen=True):
    """The changes to make durable, in this order: completion, row, outcome."""

    outcome: CommandOutcome
    completion: Completion | None = None
    row: StoredTask | None = None
    """A row to write."""
    resumed: StoredTask | None = None
    """A row that stays as stored and continues to wait in memory."""
    new_key: TaskKey | None = None
    is_new: bool = False
    """True for a replace that found nothing to replace."""

    def leaves_open(self, known: KnownTask) -> bool:
        """True if the key stays open and continues to wait in its place."""
        return self.completion is None and known.closing is None and known.row is not None


def decide(
    command: Command, known: KnownTask, new_key_completion: Completion | None, now_ms: int
) -> Decision:
    """Return the effect of ``command``; ``new_key_completion`` is that of the key it moves to."""
    closing = known.closing
    if command.new_key is not None and _is_replayed_move(command, known):
        return _finish_move(command, known)
    if command.kind is CommandKind.REPLACE:
        return _replace(command, known, now_ms)
    if closing is not None:
        return _decide_closed(command, known, closing, now_ms)
    if command.body is not None:
        return _bring_back(command, known, now_ms)
    if known.row is None:
        return Decision(CommandOutcome.UNKNOWN_KEY)
    match command.kind:
        case CommandKind.CANCEL:
            return _close(command, known, CompletionResult.CANCELLED, now_ms)
        case CommandKind.DROP:
            return _close(command, known, CompletionResult.DROPPED, now_ms)
        case CommandKind.RETRY:
            if known.running:
                return Decision(CommandOutcome.RUNNING)
            return _reopen(command, known, now_ms)
        case CommandKind.RESCHEDULE | CommandKind.RUN_NOW:
            return _move(command, known, known.row, new_key_completion, now_ms)
        case CommandKind.REPLACE:
            raise AssertionError("a replace is decided above")
        case _:
            assert_never(command.kind)


def _decide_closed(
    command: Command, known: KnownTask, closing: Completion, now_ms: int
) -> Decision:
    if closing.offset == command.offset:
        # Closed by this very command, before a crash kept its outcome from being written.
        if closing.result is CompletionResult.EXPIRED:
            return Decision(CommandOutcome.TOO_LATE)
        return Decision(CommandOutcome.RUNNING if known.running else CommandOutcome.APPLIED)
    if command.running and known.running:
        # Closed before by a command, while an attempt ran: that is asked to end now.
        if closing.result.is_done:
            return Decision(CommandOutcome.RUNNING)
        return _close(command, known, CompletionResult.CANCELLED, now_ms)
    if command.kind is CommandKind.RETRY:
        return _retry_closed(command, known, closing, now_ms)
    return Decision(CommandOutcome.ALREADY_CLOSED)


def _close(command: Command, known: KnownTask, result: CompletionResult, now_ms: int) -> Decision:
    outcome = CommandOutcome.RUNNING if known.running else CommandOutcome.APPLIED
    completion = Completion(
        command.key,
        result,
        command.offset,
        attempts=max(known.attempts.last, known.running_attempt),
        finished_ms=now_ms,
        reason="by command",
    )
    return Decision(outcome, completion)


def _retry_closed(command: Command, known: KnownTask, closing: Completion, now_ms: int) -> Decision:
    """Open a done key again; a request for a failed task opens none that ended well since."""
    if not closing.result.is_done:
        return Decision(CommandOutcome.ALREADY_CLOSED)
    has_data = known.row is not None or command.body is not None
    # A letter is of a failure; two operators may retry the same failed task at once.
    is_of_failure = command.body is not None or command.recorded_ms < closing.finished_ms
    if closing.result is CompletionResult.SUCCESS and (is_of_failure or not has_data):
        return Decision(CommandOutcome.RAN_ALREADY)
    return _reopen(command, known, now_ms) if has_data else Decision(CommandOutcome.DATA_GONE)


def _bring_back(command: Command, known: KnownTask, now_ms: int) -> Decision:
    """Store the data of a dead letter, unless the key is open with data of its own."""
    if known.running:
        return Decision(CommandOutcome.RUNNING)
    completion = known.completion
    # Opened by this very command, before a crash kept its row or its outcome from being written.
    is_replayed = completion is not None and completion.offset == command.offset
    if known.row is not None and not is_replayed:
        return Decision(CommandOutcome.STILL_OPEN)
    return _reopen(command, known, now_ms)


def _reopen(command: Command, known: KnownTask, now_ms: int) -> Decision:
    """Let the key run again with all its attempts; their numbers continue, from its checkpoint."""
    last = known.attempts.last
    if known.completion is not None:
        last = max(last, known.completion.attempts)
    completion = Completion(
        command.key,
        CompletionResult.REOPENED,
        command.offset,
        attempts=last,
        finished_ms=now_ms,
        reason="by command",
    )
    attempts = AttemptState(last=last, checkpoint=known.attempts.checkpoint, reopened_ms=now_ms)
    if command.body is not None:
        row = StoredTask(command.key, command.body, command.offset, attempts)
        return Decision(CommandOutcome.APPLIED, completion, row=row)
    assert known.row is not None, "what has no data is not opened"
    assert known.row.key == command.key, "a command opens its own key"
    row = replace(known.row, attempts=attempts)
    if known.completion is None:
        return Decision(CommandOutcome.APPLIED, completion, resumed=row)
    # Written again: a failed tree may still be deleting its hour.
    return Decision(CommandOutcome.APPLIED, completion, row=row)


def _move(
    command: Command,
    known: KnownTask,
    row: StoredTask,
    new_key_completion: Completion | None,
    now_ms: int,
) -> Decision:
    new_key = command.new_key
    assert new_key is not None, "only a move has a new key"
    if known.running or known.attempts.last:
        return Decision(CommandOutcome.TOO_LATE)
    if known.expires_ms is not None and now_ms >= known.expires_ms:
        # Another time would not make it wanted again.
        reason = f"expired at {format_instant(known.expires_ms)}"
        completion = Completion(
            *(command.key, CompletionResult.EXPIRED, command.offset),
            finished_ms=now_ms,
            reason=reason,
        )
        return Decision(CommandOutcome.TOO_LATE, completion)
    if new_key == command.key:
        return Decision(CommandOutcome.APPLIED, resumed=row, new_key=new_key)
    if new_key_completion is not None and new_key_completion.closes(command.offset):
        # A move to that key would make the task vanish, because the key never runs again.
        return Decision(CommandOutcome.ALREADY_CLOSED, resumed=row, new_key=new_key)
    completion = Completion(
        command.key,
        CompletionResult.MOVED,
        command.offset,
        finished_ms=now_ms,
        moved_to_ms=new_key.scheduled_ms,
        for_good=command.kind is CommandKind.RUN_NOW,
    )
    moved = StoredTask(new_key, row.body, command.offset)
    return Decision(CommandOutcome.APPLIED, completion, row=moved, new_key=new_key)


def replaces_in_vain(command: Command, completion: Completion | None) -> bool:
    """True if the key of the new task, with this completion, never runs again: nothing is replaced
    then (P5).
    """
    # The command is decided again if a crash came behind its own effect.
    return (
        completion is not None
        and completion.offset != command.offset
        and completion.closes(command.offset)
    )


def _replace(command: Command, known: KnownTask, now_ms: int) -> Decision:
    """Close the open task of the pair as moved, whether or not it ran, and write the new one."""
    new_key = command.new_key
    assert new_key is not None, "a replace has a new task"
    assert command.body is not None, "a replace has a new task"
    if command.replaces_itself:
        # The pair's open task has this key, or it has none: this is the last record of the key.
        row = StoredTask(new_key, command.body, command.offset, known.attempts)
        return Decision(CommandOutcome.APPLIED, row=row, new_key=new_key, is_new=True)
    row = StoredTask(new_key, command.body, command.offset)
    if known.row is None or known.closing is not None:
        # It ended since the search.
        return Decision(CommandOutcome.APPLIED, row=row, new_key=new_key, is_new=True)
    completion = Completion(
        command.key,
        CompletionResult.MOVED,
        command.offset,
        attempts=max(known.attempts.last, known.running_attempt),
        finished_ms=now_ms,
        moved_to_ms=new_key.scheduled_ms,
        reason="replaced",
    )
    outcome = CommandOutcome.RUNNING if known.running else CommandOutcome.APPLIED
    return Decision(outcome, completion, row=row, new_key=new_key)


def _is_replayed_move(command: Command, known: KnownTask) -> bool:
    completion = known.completion
    return (
        completion is not None
        and completion.result is CompletionResult.MOVED
        and completion.offset == command.offset
    )


def _finish_move(command: Command, known: KnownTask) -> Decision:
    """Write the new row unless it exists: the old key was closed before a crash.

    A row that a later record made is another task: by then the new row had been written.
    """
    new_key, row = command.new_key, known.row
    assert new_key is not None, "only a move is finished"
    moved = None
    if command.body is not None:
        moved = StoredTask(new_key, command.body, command.offset)
    elif row is not None and row.offset < command.offset:
        moved = StoredTask(new_key, row.body, command.offset)
    return Decision(CommandOutcome.APPLIED, row=moved, new_key=new_key)


def recorded_outcome(
    command: Command, decision: Decision, rows: Container[TaskKey]
) -> RecordedOutcome:
    """Return the outcome to store for a decision made while ``rows`` were stored."""
    moved = decision.row if command.new_key is not None else None
    assert moved is None or moved.key == decision.new_key, "a command writes where it moves to"
    is_kept = moved is not None and command.body is None and moved.key in rows
    data = moved.body if moved is not None and is_kept else None
    key = command.keys[-1] if decision.is_new else command.key
    return RecordedOutcome(decision.outcome, key, decision.new_key, data)


def replacing_row(command: Command, recorded: RecordedOutcome) -> StoredTask | None:
    """Return the row that a command wrote instead of another; None for most commands.

    The record of the replaced row may be read again, and is then written once more.
    """
    if command.body is not None:
        is_applied = recorded.outcome in _APPLIED
        return StoredTask(command.key, command.body, command.offset) if is_applied else None
    if recorded.moved_data is None:
        return None
    assert recorded.new_key is not None, "only a move has moved data"
    return StoredTask(recorded.new_key, recorded.moved_data, command.offset)


def all_tasks(entries: Sequence[StoredTask | Command]) -> TypeGuard[Sequence[StoredTask]]:
    """True if none of the entries is a command, which is nearly always so."""
    return Command not in map(type, entries)


def split_runs(
    entries: Sequence[StoredTask | Command],
) -> Iterator[tuple[StoredTask, ...] | Command]:
    """Split entries, in log order, into runs of tasks and single commands.

    If a run has several records of one key only the last is written: it wins anyway (P6).
    """
    if all_tasks(entries):
        if entries:
            yield tuple({entry.key: entry for entry in entries}.values())
        return
    run: dict[TaskKey, StoredTask] = {}
    for entry in entries:
        if isinstance(entry, Command):
            if run:
                yield tuple(run.values())
                run = {}
            yield entry
        else:
            run[entry.key] = entry
    if run:
        yield tuple(run.values())
