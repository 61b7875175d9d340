"""TaskPersistence: the only reader and writer of a partition's schedule.

Decides what is durable, how far the schedule is read (the checkpoint), and how far it is
done (the watermark).  Works on one operation at a time, each written as a generator that
yields what it waits for: a write, a load and an advance of the watermark never overlap, so
none of them can miss what another is about to do.  Never runs anything.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.kernel.actor import Actor
from actors.kernel.futures import gather
from actors.kernel.operations import Ask, Operation, Operations, Resolved
from actors.messages import (
    CompletionRecorded,
    DrainTasks,
    FindStatuses,
    HoldOrderings,
    LoadOrdering,
    LoadStatuses,
    LoadTasks,
    LogCaughtUp,
    LowerCheckpoint,
    MeasureProgress,
    MeetSiblings,
    OrderingLoaded,
    PersistTasks,
    ProgressMeasured,
    RecordCompletion,
    ScheduleTasks,
    Siblings,
    StatusesFound,
    StatusesLoaded,
    TasksLoaded,
    TasksPersisted,
    TaskWithdrawn,
    UpdateTask,
    WatermarkMeasured,
    WithdrawTask,
)
from actors.model.attempts import NO_STATUS, KeyStatus, open_tasks
from actors.model.checkpoint import SHORT_WINDOW_MS, Checkpoint
from actors.model.codec import Command
from actors.model.commands import (
    Decision,
    Withdrawal,
    all_tasks,
    decide,
    known_task,
    recorded_outcome,
    replacing_row,
    split_runs,
)
from actors.model.events import (
    BatchPersisted,
    CommandDecided,
    WatermarkAdvanced,
    WatermarkHeld,
    WindowLoaded,
    stored_event,
)
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Assignment, Watermark, first_advance_ms
from actors.model.status import RecordedOutcome
from actors.model.task import StoredTask
from actors.ports.effects import Effects

CLOCKS_APART_MS = 5_000
"""So far may the clock of an earlier owner have been ahead of this node's."""
ORDERINGS_LOADED_MAX = 32
"""Ordering ids whose waiting tasks are read at once."""


class _AdvanceDue(msgspec.Struct, frozen=True):
    pass


Message = (
    PersistTasks
    | LoadTasks
    | LoadOrdering
    | LowerCheckpoint
    | Resolved
    | StatusesLoaded
    | StatusesFound
    | ProgressMeasured
    | TaskWithdrawn
    | CompletionRecorded
    | _AdvanceDue
    | DrainTasks
    | MeetSiblings
)
"""All that this role is told."""


class TaskPersistence(Actor):
    """States: idle, or waiting for what the current operation yielded."""

    def __init__(self, effects: Effects, assignment: Assignment) -> None:
        self._effects = effects
        self._stores = effects.stores
        self._emit = effects.telemetry.emit
        self._settings = effects.settings.watermark
        self._ownership = assignment.ownership
        self._partition = assignment.ownership.partition
        self._watermark = assignment.watermark
        """As last requested; what is stored is never ahead of it."""
        self._resumed = assignment.resumed
        self._saved = assignment.watermark
        self._next_offset = assignment.next_offset
        self._durable_offset = assignment.next_offset
        """Every record below it had its effect, here or wherever it belongs."""
        self._catch_up_offset: int | None = assignment.catch_up_offset
        self._own_offset = assignment.catch_up_offset
        """No tree before this one was handed a record from here on."""
        self._checkpoint = Checkpoint(first_key_at(assignment.watermark.watermark_ms))
        self._gathering: list[PersistTasks] | None = None
        """Shares of batches that the next write takes, while none has begun it."""
        self._asked_orderings: list[LoadOrdering] = []
        self._operations: Operations
        self._siblings: Siblings
        self._began_ms: int
        """Wall time at which this tree began."""

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistTasks():
                self._gather(message)
            case LoadTasks():
                self._operations.begin(self._load(message))
            case LoadOrdering():
                self._asked_orderings.append(message)
                if len(self._asked_orderings) == 1:
                    self._operations.begin(self._load_orderings())
            case LowerCheckpoint(key=key):
                self._checkpoint.lower(key)
            case Resolved(value=value):
                self._operations.resume(value)
            case (
                StatusesLoaded()
                | StatusesFound()
                | ProgressMeasured()
                | TaskWithdrawn()
                | CompletionRecorded()
            ):
                self._operations.resume(message)
            case _AdvanceDue():
                self._operations.begin(self._advance_watermark())
            case DrainTasks():
                self._operations.begin(self._advance_watermark(drained=True))
            case MeetSiblings(siblings=siblings):
                self._meet(siblings)
            case _:
                assert_never(message)

    def _meet(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._began_ms = self._context.clock.now_ms()
        self._operations = Operations(self._context)
        if self._resumed:
            # A save that the failed tree left in flight may still arrive, and may be ahead of
            # what was read.  After this one it changes nothing any more.
            self._operations.begin(self._save(self._watermark))
        stragglers, watermark_ms = self._watermark.stragglers, self._watermark.watermark_ms
        if stragglers:
            siblings.partition_scheduler.tell(HoldOrderings(stragglers, watermark_ms))
        self._report_catch_up()
        first_ms = first_advance_ms(self._partition, self._settings.interval_ms)
        self._context.after(first_ms, _AdvanceDue())

    # Batches become durable.

    def _gather(self, share: PersistTasks) -> None:
        """Let shares that wait for a slow write go with one: a slow store gets larger requests,
        not more.  Commands take several answers each, so a share with one keeps none waiting.
        """
        if not all_tasks(share.entries):
            self._gathering = None
            self._operations.begin(self._persist([share]))
        elif self._gathering is not None:
            self._gathering.append(share)
        else:
            self._gathering = [share]
            self._operations.begin(self._persist(self._gathering))

    def _persist(self, shares: list[PersistTasks]) -> Operation:
        assert shares, "nothing is persisted"
        if shares is self._gathering:
            self._gathering = None
        started_ms = self._context.clock.monotonic_ms()
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
        self._next_offset = max(self._next_offset, shares[-1].next_offset)
        pending = shares[-1].pending_offset
        assert pending is None or pending < self._next_offset, "it departs after it was read"
        self._durable_offset = self._next_offset if pending is None else pending
        for share in shares:
            self._siblings.supervisor.tell(TasksPersisted(share.batch, self._partition))
        self._report_catch_up()
        if tasks or commands:
            took_ms = self._context.clock.monotonic_ms() - started_ms
            self._emit(BatchPersisted(self._partition, tasks, commands, took_ms))

    def _insert(self, tasks: Sequence[StoredTask]) -> Operation:
        yield from self._write(tasks)
        self._pass_on(tasks)

    def _write(self, tasks: Sequence[StoredTask]) -> Operation:
        assert tasks, "nothing is written"
        # In this order, so that nothing comes between a durable row and memory (P6).
        yield from self._lower_watermark(tasks)
        write_time = self._ownership.next_write_time()
        yield self._stores.schedule.insert_tasks(self._partition, tasks, write_time)
        self._emit(stored_event(self._partition, tasks))

    def _lower_watermark(self, tasks: Sequence[StoredTask]) -> Operation:
        """Lower it durably before anybody is told of an older task: a restart must load it (P8)."""
        earliest_ms = min([task.key.scheduled_ms for task in tasks])
        if earliest_ms < self._watermark.watermark_ms:
            yield from self._save(self._watermark.lowered_to(earliest_ms))
        assert self._watermark.watermark_ms <= earliest_ms, "a restart would not load it (P8)"

    def _pass_on(self, tasks: Sequence[StoredTask]) -> None:
        """Hand tasks to memory where it reaches; the others are loaded when it does."""
        if not tasks:
            return
        scheduler, checkpoint = self._siblings.partition_scheduler, self._checkpoint.key
        if max([task.key.scheduled_ms for task in tasks]) < checkpoint.scheduled_ms:
            # Nearly always, and to compare each key would take as long as all else here.
            scheduler.tell(ScheduleTasks(tuple(tasks)))
            return
        if inside := tuple(task for task in tasks if task.key <= checkpoint):
            scheduler.tell(ScheduleTasks(inside))
        now_ms = self._context.clock.now_ms()
        for task in tasks:
            if task.key.scheduled_ms <= now_ms and task.key > checkpoint:
                # Handed on before memory was lowered, an older record may wait to run (P6).
                scheduler.tell(UpdateTask(task))

    def _save(self, watermark: Watermark) -> Operation:
        watermark = replace(watermark, write_time=self._ownership.next_write_time())
        assert watermark.write_time > self._watermark.write_time, "saves of an owner are ordered"
        assert watermark.loaded_until_ms >= self._watermark.loaded_until_ms, "only ever raised"
        self._watermark = self._saved = watermark
        yield self._stores.ownership.save_watermark(
            self._partition, self._ownership.epoch, watermark
        )

    def _report_catch_up(self) -> None:
        if self._catch_up_offset is not None and self._next_offset >= self._catch_up_offset:
            self._catch_up_offset = None
            self._siblings.supervisor.tell(LogCaughtUp())

    # A command has its effect.

    def _execute_command(self, command: Command) -> Operation:
        """Completion, then row, then outcome: a crash in between is finished by the replay."""
        recorded = yield self._stores.ownership.find_outcome(self._partition, command.offset)
        if recorded is not None:
            return (yield from self._restore_move(command, recorded))
        yield from self._confirm_ownership()
        withdrawal = WithdrawTask(command.key, Withdrawal.by(command.kind), self.actor_ref)
        withdrawn = yield Ask(self._siblings.partition_scheduler, withdrawal)
        rows = yield self._stores.schedule.find_tasks(self._partition, command.keys)
        found = yield Ask(self._siblings.completion_tracker, FindStatuses(command.keys))
        status = found.statuses.get(command.key, NO_STATUS)
        assert withdrawn.key == command.key, "another key was withdrawn"
        known = known_task(rows.get(command.key), status, withdrawn.result)
        target = found.statuses.get(command.new_key, NO_STATUS) if command.new_key else NO_STATUS
        decision = decide(command, known, target.completion, self._context.clock.now_ms())
        if decision.leaves_open(known):
            # It may have left memory for a command that then did nothing to it.
            assert known.row is not None, "only a stored task is open"
            decision = replace(decision, resumed=replace(known.row, attempts=known.attempts))
        yield from self._apply(command, decision, recorded_outcome(command, decision, rows))

    def _restore_move(self, command: Command, recorded: RecordedOutcome) -> Operation:
        moved = replacing_row(command, recorded)
        if moved is None:
            return
        rows = yield self._stores.schedule.find_tasks(self._partition, (moved.key,))
        if (target := rows.get(moved.key)) and target.offset < moved.offset:
            yield from self._insert((moved,))

    def _apply(self, command: Command, decision: Decision, outcome: RecordedOutcome) -> Operation:
        if decision.completion is not None:
            request = RecordCompletion(decision.completion, None, self.actor_ref)
            yield Ask(self._siblings.completion_tracker, request)
        waiting = decision.row or decision.resumed
        if decision.row is not None:
            yield from self._write((decision.row,))
        elif decision.resumed is not None:
            yield from self._lower_watermark((decision.resumed,))
        yield from self._confirm_ownership()
        store, write_time = self._stores.ownership, self._ownership.next_write_time()
        yield store.insert_outcome(self._partition, command.offset, outcome, write_time)
        # Last: a task that ran before the outcome was durable would be opened again by a replay.
        self._pass_on((waiting,) if waiting else ())
        self._emit(CommandDecided(self._partition, command.key, command.kind, decision.outcome))

    def _confirm_ownership(self) -> Operation:
        """Check that no newer owner has claimed the partition.

        An owner that claims it after this check loads what is durable by now.  One that claimed
        it before has older rows in memory, and would take an outcome of ours for decided (P6).
        """
        claim = yield self._stores.ownership.read_watermark(self._partition)
        self._ownership.confirm(claim)

    # The window is filled.

    def _load(self, message: LoadTasks) -> Operation:
        started_ms = self._context.clock.monotonic_ms()
        after, before_ms = self._checkpoint.begin_load(), message.before_ms
        if before_ms <= after.scheduled_ms:
            self._answer_load(complete=True)
            return
        if before_ms > self._watermark.loaded_until_ms:
            # Raised further than needed, so that most loads need no transaction: the mark
            # only tells outside writers what to send through the log as well.
            ahead_ms = before_ms + self._effects.settings.window.look_ahead_ms
            yield from self._save(replace(self._watermark, loaded_until_ms=ahead_ms))
        limits = message.limit, self._siblings.memory.page_bytes()
        reading = self._stores.schedule.load_tasks(self._partition, after, before_ms, *limits)
        # The whole range, rows or none: a done key whose row was deleted may be scheduled
        # again, and is then looked for in memory only (P5).
        up_to = end = first_key_at(before_ms)
        if before_ms - after.scheduled_ms > SHORT_WINDOW_MS:
            up_to = (yield reading).reached(end)
        statuses = yield Ask(self._siblings.completion_tracker, LoadStatuses(after, up_to))
        page = yield reading
        reached, rows = page.reached(end), page.tasks
        assert after <= reached <= end, "a page ends within what was asked for"
        assert not rows or after < rows[0].key <= rows[-1].key <= reached, "not what was asked for"
        tasks = self._open_tasks(rows, statuses.statuses)
        self._checkpoint.end_load(reached)
        # Beyond what left memory meanwhile nothing may be in it, or it would overtake (P4).
        self._pass_on(tasks)
        self._answer_load(complete=page.complete and self._checkpoint.key == reached)
        took_ms = self._context.clock.monotonic_ms() - started_ms
        reached_ms = self._checkpoint.key.scheduled_ms
        self._emit(WindowLoaded(self._partition, len(tasks), reached_ms, took_ms))

    def _open_tasks(
        self, rows: Sequence[StoredTask], statuses: Mapping[TaskKey, KeyStatus]
    ) -> tuple[StoredTask, ...]:
        """Return what is open; of it an earlier owner may have begun what was due before this tree.

        A task that fell due since can have been left to the store, but nobody else began it.
        """
        overdue_until_ms = min(self._context.clock.now_ms(), self._began_ms + CLOCKS_APART_MS)
        return open_tasks(rows, statuses, overdue_until_ms, self._own_offset)

    def _answer_load(self, *, complete: bool) -> None:
        answer = TasksLoaded(self._checkpoint.key.scheduled_ms, complete)
        self._siblings.throughput_controller.tell(answer)

    def _load_orderings(self) -> Operation:
        """Read for all that have asked by now: one by one they would keep new batches waiting."""
        requests = self._asked_orderings[:ORDERINGS_LOADED_MAX]
        assert requests, "nobody asks for anything"
        read = partial(self._stores.schedule.load_ordering, self._partition)
        size = self._siblings.memory.page_bytes(len(requests))
        pages = yield gather(
            [read(r.ordering_id, r.after, r.up_to, r.limit, size) for r in requests]
        )
        statuses: Mapping[TaskKey, KeyStatus] = {}
        if keys := tuple(task.key for page in pages for task in page.tasks):
            found = yield Ask(self._siblings.completion_tracker, FindStatuses(keys))
            statuses = found.statuses
        for request, page in zip(requests, pages, strict=True):
            if rows := page.tasks:
                assert request.after < rows[0].key <= rows[-1].key, "not what was asked for"
                assert rows[-1].key <= request.up_to, "not what was asked for"
            next_after = None if page.complete or not page.tasks else page.tasks[-1].key
            tasks = self._open_tasks(page.tasks, statuses)
            request.reply_to.tell(OrderingLoaded(tasks, next_after))
        del self._asked_orderings[: len(requests)]
        if self._asked_orderings:
            # Behind what was begun meanwhile.
            self._operations.begin(self._load_orderings())

    # The watermark advances in the background.

    def _advance_watermark(self, *, drained: bool = False) -> Operation:
        lag_ms = self._settings.drained_lag_ms if drained else self._settings.lag_ms
        question = MeasureProgress(None, (), self._watermark.watermark_ms, self.actor_ref)
        progress = yield Ask(self._siblings.partition_scheduler, question)
        advanced = self._advanced(progress, lag_ms)
        if drained:
            # It is heard once the save is under way, whose answer nobody waits for.
            self._siblings.supervisor.tell(WatermarkMeasured())
        if advanced.is_worth_saving(self._saved, lag_ms):
            yield from self._save(advanced)
            passed = len(advanced.stragglers)
            self._emit(WatermarkAdvanced(self._partition, advanced.watermark_ms, passed))
        if not drained:
            yield from self._sweep()
            self._context.after(self._settings.interval_ms, _AdvanceDue())

    def _advanced(self, progress: ProgressMeasured, lag_ms: int) -> Watermark:
        """Return how far everything is closed, but for a bounded list of stragglers."""
        mark, now_ms = self._watermark, self._context.clock.now_ms()
        loaded_ms, open_ms = self._checkpoint.key.scheduled_ms, progress.earliest_ms
        floor_ms = mark.floor_ms(now_ms, lag_ms, loaded_ms, open_ms)
        advanced = mark.advanced_to(floor_ms, progress.held, self._settings.stragglers_max)
        assert advanced.watermark_ms <= floor_ms, "something behind it is open (P8)"
        if advanced.watermark_ms < floor_ms:
            self._emit(WatermarkHeld(self._partition, advanced.watermark_ms, len(progress.held)))
        assert self._durable_offset <= self._next_offset, "what was not read is not durable (P9)"
        return replace(advanced, next_offset=self._durable_offset)

    def _sweep(self) -> Operation:
        """Delete whole hours that are done; completions only when their retention is over,
        and only after the schedule rows they guard are gone (P5).
        """
        mark = self._watermark
        tasks_end_ms = mark.tasks_sweep_end_ms()
        if tasks_end_ms > mark.tasks_swept_until_ms:
            hours = (mark.tasks_swept_until_ms, tasks_end_ms)
            write_time = self._ownership.next_write_time()
            done_ms = yield self._stores.schedule.delete_tasks(self._partition, *hours, write_time)
            assert hours[0] <= done_ms <= hours[1], "other hours were deleted"
            mark = self._watermark = replace(mark, tasks_swept_until_ms=done_ms)
        now_ms = self._context.clock.now_ms()
        retention_ms = self._settings.completion_retention_ms
        mark = self._watermark = mark.with_retention_begun(now_ms, retention_ms)
        statuses_end_ms = mark.statuses_sweep_end_ms(now_ms)
        if statuses_end_ms > mark.statuses_swept_until_ms:
            hours = (mark.statuses_swept_until_ms, statuses_end_ms)
            write_time = self._ownership.next_write_time()
            done_ms = yield self._stores.status.delete_statuses(self._partition, *hours, write_time)
            assert hours[0] <= done_ms <= hours[1], "other hours were deleted"
            self._watermark = replace(mark, statuses_swept_until_ms=done_ms)
