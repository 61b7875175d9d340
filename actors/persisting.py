"""Makes a partition's records durable: tasks, and commands, which change other tasks.

Decides the order of the writes, so that no other operation comes between a durable row and memory,
and a replay finishes a command that a crash interrupted.  Its methods are operations of
``TaskPersistence``, which wait for their answers.  Never loads a window, and never raises the
watermark.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hourhand.actors.following import followers_of, send_follower
from hourhand.actors.kernel.operations import Ask, Operation, Steps
from hourhand.actors.kernel.ref import Recipient
from hourhand.actors.loading import Loading
from hourhand.actors.messages import (
    FindStatuses,
    LogCaughtUp,
    PersistTasks,
    RecordOutcomes,
    Siblings,
    TasksPersisted,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import NO_STATUS, KeyStatus
from hourhand.actors.model.execution.commands import (
    Decision,
    Withdrawal,
    WithdrawalResult,
    decide,
    known_task,
    recorded_outcome,
    replaces_in_vain,
    replacing_row,
    split_runs,
)
from hourhand.actors.model.operations.events import (
    BatchPersisted,
    CommandDecided,
    TaskClosed,
    stored_event,
)
from hourhand.actors.model.operations.ownership import Assignment
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import (
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.schedule_reader import ScheduleReader
from hourhand.actors.watermark import WatermarkKeeper


class Persisting:
    """The writes of one partition: operations, which wait for their answers."""

    def __init__(
        self,
        effects: Effects,
        assignment: Assignment,
        clock: Clock,
        siblings: Siblings,
        reader: ScheduleReader,
        watermark: WatermarkKeeper,
        loading: Loading,
        asker: Recipient,
    ) -> None:
        """``asker`` receives the answers of siblings."""
        self._effects = effects
        self._stores = effects.stores
        self._emit = effects.telemetry.emit
        self._expires_ms_of = effects.expires_ms_of
        self._ownership = assignment.ownership
        self._partition = assignment.ownership.partition
        self._catch_up_offset: int | None = assignment.catch_up_offset
        self._clock = clock
        self._siblings = siblings
        self._reader = reader
        self._watermark = watermark
        self._loading = loading
        self._asker = asker

    def persist(self, shares: Sequence[PersistTasks]) -> Operation:
        """Make shares of batches durable, and answer them."""
        assert shares, "nothing is persisted"
        started_ms = self._clock.monotonic_ms()
        tasks = commands = 0
        entries: Sequence[StoredTask | Command] = shares[0].entries
        if len(shares) > 1:
            entries = [entry for share in shares for entry in share.entries]
        for run in split_runs(entries):
            if isinstance(run, Command):
                commands += 1
                yield from self._execute_command(run)
            else:
                tasks += len(run)
                yield from self._insert(run)
        self._watermark.note_persisted(shares[-1].next_offset, shares[-1].pending_offset)
        for share in shares:
            self._siblings.supervisor.tell(TasksPersisted(share.batch, self._partition))
        self.report_catch_up()
        if tasks or commands:
            took_ms = self._clock.monotonic_ms() - started_ms
            self._emit(BatchPersisted(self._partition, tasks, commands, took_ms))

    def _insert(self, tasks: Sequence[StoredTask]) -> Operation:
        yield from self._write(tasks)
        yield from self._loading.learn_statuses(tasks)
        self._loading.pass_on(tasks)

    def _write(self, tasks: Sequence[StoredTask]) -> Operation:
        assert tasks, "nothing is written"
        # In this order, so that no other operation comes between a durable row and memory (P6).
        yield from self._watermark.lower(tasks)
        write_time = self._ownership.next_write_time()
        yield self._stores.schedule.insert_tasks(self._partition, tasks, write_time)
        self._emit(stored_event(self._partition, tasks))

    def report_catch_up(self) -> None:
        """Report once that the records are durable that the partition waits for."""
        if (
            self._catch_up_offset is not None
            and self._watermark.next_offset >= self._catch_up_offset
        ):
            self._catch_up_offset = None
            self._siblings.supervisor.tell(LogCaughtUp())

    # Commands.

    def _execute_command(self, command: Command) -> Operation:
        """Write completion, then row, then outcome: a replay continues after a crash in between."""
        recorded = yield self._stores.ownership.find_outcome(self._partition, command.offset)
        # An outcome of another key belongs to an earlier topic's command at the same offset.
        if recorded is not None and command.is_for(recorded.key):
            return (yield from self._restore_move(command, recorded))
        yield from self._watermark.confirm_ownership()
        if command.by_pair:
            after = first_key_at(self._watermark.mark.tasks_swept_until_ms)
            named = yield from self._reader.named(command, after)
            if isinstance(named, CommandOutcome):
                outcome = RecordedOutcome(named, command.key)
                return (yield from self._apply(command, Decision(named), outcome))
            command = replace(command, key=named)
        if command.kind is CommandKind.REPLACE:
            statuses = yield from self._statuses_of(command)
            done = statuses.get(command.keys[-1], NO_STATUS).completion
            if replaces_in_vain(command, done):
                in_vain = Decision(CommandOutcome.ALREADY_CLOSED, new_key=command.new_key)
                outcome = recorded_outcome(command, in_vain, ())
                return (yield from self._apply(command, in_vain, outcome))
        withdrawn = yield from self._withdrawn(command)
        rows = yield self._stores.schedule.find_tasks(self._partition, command.keys)
        statuses = yield from self._statuses_of(command)
        status = statuses.get(command.key, NO_STATUS)
        row = rows.get(command.key)
        known = known_task(row, status, *withdrawn, self._expiry(row, status))
        target = statuses.get(command.keys[-1], NO_STATUS) if command.new_key else NO_STATUS
        decision = decide(command, known, target.completion, self._clock.now_ms())
        if decision.leaves_open(known):
            # The withdrawal may have removed it from memory, and the command then left it open.
            assert known.row is not None, "only a stored task is open"
            decision = replace(decision, resumed=replace(known.row, attempts=known.attempts))
        if row is not None and decision.completion is not None:
            yield from self._send_follower(row, decision.completion)
            completion = replace(decision.completion, kind=row.kind)
            decision = replace(decision, completion=completion)
        yield from self._apply(command, decision, recorded_outcome(command, decision, rows))

    def _send_follower(self, row: StoredTask, completion: Completion) -> Operation:
        """Send the follower of a task that a command ends, before its end is durable (P29)."""
        records = followers_of(row, completion, None)
        if records:
            yield send_follower(self._effects, row, records, self._clock.now_ms())

    def _withdrawn(self, command: Command) -> Steps[tuple[WithdrawalResult, int]]:
        """Take the command's key out of memory; return where it was, and the running attempt."""
        if command.replaces_itself:
            # A later record of the key, which waits or runs on (P6).
            return WithdrawalResult.ABSENT, 0
        why, up_to = Withdrawal.by(command.kind), command.offset if command.running else None
        asked = WithdrawTask(command.key, why, self._asker, up_to)
        withdrawn = yield Ask(self._siblings.partition_scheduler, asked)
        assert withdrawn.key == command.key, "another key was withdrawn"
        return withdrawn.result, withdrawn.attempt

    def _statuses_of(self, command: Command) -> Steps[Mapping[TaskKey, KeyStatus]]:
        asked = FindStatuses(command.keys, with_checkpoints=True, durable=True)
        found = yield Ask(self._siblings.completion_tracker, asked)
        statuses: Mapping[TaskKey, KeyStatus] = found.statuses
        return statuses

    def _expiry(self, row: StoredTask | None, status: KeyStatus) -> int | None:
        return None if row is None else self._expires_ms_of(replace(row, attempts=status.attempts))

    def _restore_move(self, command: Command, recorded: RecordedOutcome) -> Operation:
        moved = replacing_row(command, recorded)
        if moved is None:
            return
        rows = yield self._stores.schedule.find_tasks(self._partition, (moved.key,))
        if (target := rows.get(moved.key)) and target.offset < moved.offset:
            yield from self._insert((moved,))

    def _apply(self, command: Command, decision: Decision, outcome: RecordedOutcome) -> Operation:
        if decision.completion is not None:
            request = RecordOutcomes((decision.completion,), (), self._asker)
            yield Ask(self._siblings.completion_tracker, request)
        waiting = decision.row or decision.resumed
        if decision.row is not None:
            yield from self._write((decision.row,))
        elif decision.resumed is not None:
            yield from self._watermark.lower((decision.resumed,))
        yield from self._watermark.confirm_ownership()
        store, write_time = self._stores.ownership, self._ownership.next_write_time()
        yield store.insert_outcome(self._partition, command.offset, outcome, write_time)
        # Last: a replay would open a task again that ran before the outcome was durable.
        self._loading.pass_on((waiting,) if waiting else ())
        closing = decision.completion
        if closing is not None and closing.result is CompletionResult.EXPIRED:
            self._emit(TaskClosed(self._partition, command.key, closing.result))
        decided = outcome.key, command.kind, decision.outcome
        self._emit(CommandDecided(self._partition, *decided, decision.is_new))
