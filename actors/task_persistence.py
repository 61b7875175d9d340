"""TaskPersistence: the only reader and writer of a partition's schedule.

Decides what is durable, how far the schedule is read (the checkpoint), and how far it is
done (the watermark).  Works on one operation at a time, each written as a generator that
yields what it waits for: a write, a load and an advance of the watermark never overlap, so
none of them can miss what another is about to do.  Never runs anything.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.kernel.actor import Actor
from actors.kernel.context import Look
from actors.kernel.operations import Ask, Operation, Operations, Resolved
from actors.messages import (
    CompletionRecorded,
    DrainTasks,
    FindStatuses,
    HoldOrderings,
    JoinQueues,
    LoadOrdering,
    LoadTasks,
    LogCaughtUp,
    LowerCheckpoint,
    MeasureProgress,
    MeetSiblings,
    PersistTasks,
    ProgressMeasured,
    PunctualLoaded,
    RecordCompletion,
    ScheduleTasks,
    SeparateQueues,
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
from actors.model.attempts import NO_STATUS
from actors.model.backlog import (
    BACKLOG_AT_START_MS,
    BACKLOG_PAGE_ROWS,
    BACKLOG_PAUSE_MS,
    Backlog,
    backlog_behind,
)
from actors.model.backlog_search import FLOW_PAGE_TASKS, SEARCH_FEW, SEARCH_PAGES, FlowRoom
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
    stored_event,
)
from actors.model.key import TaskKey, first_key_at
from actors.model.memory_reach import MemoryReach
from actors.model.ownership import Assignment, Watermark, first_advance_ms
from actors.model.status import CommandOutcome, RecordedOutcome
from actors.model.task import StoredTask
from actors.ports.effects import Effects
from actors.ports.store import TaskPage
from actors.schedule_reader import ScheduleReader
from actors.sweep import Sweep

ORDERINGS_LOADED_MAX = 32
"""Ordering ids whose waiting tasks are read at once."""


class _AdvanceDue(Look, msgspec.Struct, frozen=True):
    pass


class _SearchDue(msgspec.Struct, frozen=True):
    backlog: Backlog


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
    | _SearchDue
    | DrainTasks
    | MeetSiblings
)
"""All that this role is told."""


class TaskPersistence(Actor):
    """States: idle, or waiting for what the current operation yielded."""

    def __init__(self, effects: Effects, assignment: Assignment) -> None:
        self._effects = effects
        self._assignment = assignment
        self._stores = effects.stores
        self._emit = effects.telemetry.emit
        self._settings = effects.settings.watermark
        self._ownership = assignment.ownership
        self._partition = assignment.ownership.partition
        self._watermark = assignment.watermark
        """As last requested; what is stored is never ahead of it."""
        self._saves_first = assignment.resumed or assignment.topic_changed
        self._saved = assignment.watermark
        self._next_offset = assignment.next_offset
        self._durable_offset = assignment.next_offset
        """Every record below it had its effect, here or wherever it belongs."""
        self._catch_up_offset: int | None = assignment.catch_up_offset
        first = first_key_at(assignment.watermark.watermark_ms)
        self._reach = MemoryReach(first, effects.flow_rules, self._partition)
        self._search_after_ms = 0.0
        """Monotonic time before which no backlog is looked for."""
        self._waiting_load: LoadTasks | None = None
        """It waits for the search for ids that have a backlog."""
        self._gathering: list[PersistTasks] | None = None
        """Shares of batches that the next write takes, while none has begun it."""
        self._asked_orderings: list[LoadOrdering] = []
        self._operations: Operations
        self._siblings: Siblings
        self._reader: ScheduleReader
        self._sweep: Sweep

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
            case LowerCheckpoint(key=key, punctual=punctual):
                if self._reach.lower(key, self._context.clock.now_ms(), punctual=punctual):
                    self._end_backlog()
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
            case _SearchDue(backlog=backlog):
                self._operations.begin(self._search(backlog))
            case DrainTasks():
                self._operations.begin(self._advance_watermark(drained=True))
            case MeetSiblings(siblings=siblings):
                self._meet(siblings)
            case _:
                assert_never(message)

    def _meet(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._reader = ScheduleReader(self._effects, self._assignment, self._context, siblings)
        self._sweep = Sweep(
            self._stores, self._reader, self._ownership, self._context.clock, self._settings
        )
        self._operations = Operations(self._context)
        if self._saves_first:
            # A save that the failed tree left in flight may still arrive, and may be ahead of
            # what was read.  After this one it changes nothing any more.  And nothing that a new
            # topic's record makes is stored before the topic: a third would count as the second.
            self._operations.begin(self._save(self._watermark))
        stragglers, watermark_ms = self._watermark.stragglers, self._watermark.watermark_ms
        if stragglers:
            siblings.partition_scheduler.tell(HoldOrderings(stragglers, watermark_ms))
        if watermark_ms < self._context.clock.now_ms() - BACKLOG_AT_START_MS:
            # Before anything is loaded: what is on time waits for nothing else then.
            self._look_for_backlog()
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
        yield from self._learn_statuses(tasks)
        self._pass_on(tasks)

    def _learn_statuses(self, tasks: Sequence[StoredTask]) -> Operation:
        """Read what became of keys that no load came by, and that are passed on all the same.

        Such a key may be done, its row deleted, and is then looked for in memory only (P5).
        """
        backlog, reached = self._reach.backlog, self._reach.checkpoint.key
        if backlog is not None and (keys := backlog.unread_keys(tasks, reached)):
            yield Ask(self._siblings.completion_tracker, FindStatuses(keys))

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
        scheduler, reach = self._siblings.partition_scheduler, self._reach
        latest_ms = reach.note_rows(tasks)
        if reach.backlog is None and latest_ms < reach.checkpoint.key.scheduled_ms:
            # Nearly always, and to compare each key would take as long as all else here.
            scheduler.tell(ScheduleTasks(tuple(tasks)))
            return
        if reach.backlog is not None and not reach.backlog.is_known:
            reach.backlog.add_written(tasks)
            self._count_backlog(reach.backlog)
        punctual, inside, outside = reach.split(tasks)
        if punctual:
            scheduler.tell(ScheduleTasks(tuple(punctual), punctual=True))
        if inside:
            scheduler.tell(ScheduleTasks(tuple(inside)))
        now_ms = self._context.clock.now_ms()
        for task in outside:
            if task.key.scheduled_ms <= now_ms:
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
        # An outcome of another key is that of a command of another topic, which stood there.
        if recorded is not None and command.is_for(recorded.key):
            return (yield from self._restore_move(command, recorded))
        yield from self._confirm_ownership()
        if command.by_pair:
            after = first_key_at(self._watermark.tasks_swept_until_ms)
            named = yield from self._reader.named(command, after)
            if isinstance(named, CommandOutcome):
                outcome = RecordedOutcome(named, command.key)
                return (yield from self._apply(command, Decision(named), outcome))
            command = replace(command, key=named)
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

    def _load(self, message: LoadTasks, *, has_waited: bool = False) -> Operation:
        reach, backlog = self._reach, self._reach.backlog
        if backlog is not None and not backlog.is_known:
            if reach.search:
                # Others' tasks do not wait until all ids are found.
                yield from self._load_behind()
                return
            # Until the ids are known, which is all that the tasks of punctual ones wait for.
            assert self._waiting_load is None, "one load at a time is asked for"
            self._waiting_load = message
            return
        if (has_waited and backlog is not None) or (message.punctual and backlog is None):
            # Asked again: what is on time is loaded first, and only while others have a backlog.
            self._answer_load(complete=False)
            return
        if backlog is not None and message.punctual:
            after = backlog.checkpoint.begin_load()
        elif (room := self._flow_room()) is not None and reach.search.is_held_up(room):
            yield from self._load_behind()
            return
        else:
            after = reach.begin_load()
        if message.before_ms <= after.scheduled_ms:
            self._answer_load(complete=not message.punctual)
            return
        yield from self._raise_loaded_until(message.before_ms)
        limit = min(message.limit, FLOW_PAGE_TASKS) if reach.search else message.limit
        before_ms = self._reader.end_ms(after, message.before_ms)
        page, tasks = yield from self._reader.page(after, before_ms, limit)
        reached = page.reached(first_key_at(before_ms))
        if message.punctual:
            self._take_punctual(backlog, reached, tasks)
        else:
            self._take_page(page, reached, tasks)
        is_whole = page.complete and before_ms == message.before_ms and not message.punctual
        self._answer_load(complete=is_whole and reach.checkpoint.key == reached)

    def _load_behind(self) -> Operation:
        """Load tasks of other flows behind the rows that some have left to the store."""
        reach = self._reach
        if reach.backlog is None:
            self._look_for_backlog()
        before_ms = reach.search_end_ms(self._context.clock.now_ms())
        after = reach.search.checkpoint.begin_load()
        before_ms = self._reader.end_ms(after, before_ms)
        if not reach.search.may_go_on(before_ms, self._siblings.budget.share_bytes):
            self._answer_load(complete=False, held_up=True)
            return
        limit = SEARCH_PAGES * self._effects.settings.window.page_tasks
        yield from self._raise_loaded_until(before_ms)
        found = yield self._stores.schedule.find_keys(self._partition, after, before_ms, limit)
        keys = reach.search.wanted(found.keys)
        room = self._flow_room()
        assert room is not None, "a kind has a rule"
        if SEARCH_FEW * len({key.ordering_id for key in keys}) > len(found.keys):
            page, tasks = yield from self._reader.page(after, before_ms, limit)
            reached = page.reached(first_key_at(before_ms))
        else:
            reached = found.reached(first_key_at(before_ms))
            reading = self._reader.rows_behind(keys, room.has_enough, after, reached)
            tasks, reached = yield from reading
        taken = reach.take_behind(tasks, reached, room)
        self._count_ids()
        self._pass_on(taken)
        # Where little is found the next look waits for a tick: it takes time from what runs.  What
        # is still to come is passed first, or others would wait for it when it falls due.
        is_late = reached.scheduled_ms <= self._context.clock.now_ms()
        few = 2 * len(taken) < len(found.keys)
        self._answer_load(complete=False, held_up=is_late and few)

    def _flow_room(self) -> FlowRoom | None:
        """Return what flows may have in memory; None where no kind has a rule."""
        tasks_max = self._effects.settings.window.tasks_max
        return self._reach.flow_room(self._siblings.budget, tasks_max)

    def _raise_loaded_until(self, before_ms: int) -> Operation:
        """Let outside writers know what to send through the log as well, before it is read."""
        if before_ms > self._watermark.loaded_until_ms:
            # Raised further than needed, so that most reads need no transaction.
            ahead_ms = before_ms + self._effects.settings.window.look_ahead_ms
            yield from self._save(replace(self._watermark, loaded_until_ms=ahead_ms))

    def _take_page(self, page: TaskPage, reached: TaskKey, tasks: Sequence[StoredTask]) -> None:
        """Pass the open tasks of a page on, but for what is in memory or what a flow leaves."""
        is_open = 2 * len(tasks) >= len(page.tasks)
        tasks = self._reach.take_page(tasks, reached, self._flow_room())
        self._reach.note_rows(page.tasks)
        if self._reach.is_backlog_over:
            self._end_backlog()
        self._count_ids()
        # Beyond what left memory meanwhile nothing may be in it, or it would overtake (P4).
        self._pass_on(tasks)
        if is_open and self._reach.backlog is None:
            self._look_for_backlog()

    def _take_punctual(
        self, backlog: Backlog | None, reached: TaskKey, tasks: Sequence[StoredTask]
    ) -> None:
        if backlog is None or backlog is not self._reach.backlog:
            # It was worked off meanwhile: the ordinary load brings these.
            return
        backlog.checkpoint.end_load(reached)
        self._pass_on([task for task in tasks if backlog.is_punctual(task.key.ordering_id)])
        self._tell_of_punctual(backlog)

    # Ordering ids without a backlog need not wait for those that have one.

    def _look_for_backlog(self) -> None:
        """Look for the ids that have a backlog, where memory is far behind the clock."""
        clock = self._context.clock
        assert self._reach.backlog is None, "there is one backlog at a time"
        if clock.monotonic_ms() < self._search_after_ms:
            return
        reached, searched = self._reach.checkpoint.key, self._reach.search.checkpoint.key
        backlog = backlog_behind(self._watermark, reached, clock.now_ms(), searched)
        if backlog is not None:
            self._reach.backlog = backlog
            self._operations.begin(self._search(backlog))

    def _search(self, backlog: Backlog) -> Operation:
        """Read a page of ordering ids, and go on behind what was begun meanwhile."""
        if backlog is not self._reach.backlog:
            return
        yield from self._raise_loaded_until(backlog.end_ms)
        # There are pauses while the flow that left rows has enough in memory: its next ones are
        # loaded when the ids are known.
        room = self._flow_room()
        takes_turns = room is not None and self._reach.search.is_held_up(room)
        window = self._effects.settings.window
        rows = min(window.page_tasks, FLOW_PAGE_TASKS) if self._reach.search else BACKLOG_PAGE_ROWS
        page = yield self._stores.schedule.find_keys(
            self._partition, backlog.searched, backlog.end_ms, rows
        )
        if backlog is not self._reach.backlog:
            return
        next_after = None if page.complete else page.keys[-1]
        is_searched = backlog.add_found([key.ordering_id for key in page.keys], next_after)
        if not self._count_backlog(backlog):
            return
        if not is_searched and takes_turns:
            self._context.after(window.tick_ms, _SearchDue(backlog))
        elif not is_searched:
            self._operations.begin(self._search(backlog))
        elif not len(backlog):
            self._end_backlog()
        else:
            backlog.is_known = True
            self._siblings.partition_scheduler.tell(SeparateQueues())
            self._tell_of_punctual(backlog)
            self._load_what_waited()

    def _count_backlog(self, backlog: Backlog) -> bool:
        """Count what its ids hold; False where that is too much, and nobody is punctual."""
        assert not backlog.is_known, "the ids of a known backlog do not change"
        if not backlog.fits(self._siblings.budget.share_bytes):
            self._end_backlog()
            return False
        self._count_ids()
        return True

    def _count_ids(self) -> None:
        self._siblings.budget.keep_ids(self._reach.ids_bytes)

    def _end_backlog(self) -> None:
        backlog, self._reach.backlog = self._reach.backlog, None
        assert backlog is not None, "a backlog ends once"
        self._count_ids()
        self._search_after_ms = self._context.clock.monotonic_ms() + BACKLOG_PAUSE_MS
        if backlog.is_known:
            self._siblings.partition_scheduler.tell(JoinQueues())
            self._siblings.throughput_controller.tell(PunctualLoaded(None))
        self._load_what_waited()

    def _load_what_waited(self) -> None:
        """Do the load that waited until ids were known, or nobody is punctual."""
        message, self._waiting_load = self._waiting_load, None
        if message is not None:
            self._operations.begin(self._load(message, has_waited=True))

    def _tell_of_punctual(self, backlog: Backlog) -> None:
        reached_ms = backlog.checkpoint.key.scheduled_ms
        self._siblings.throughput_controller.tell(PunctualLoaded(reached_ms))

    def _answer_load(self, *, complete: bool, held_up: bool = False) -> None:
        answer = TasksLoaded(self._reach.checkpoint.key.scheduled_ms, complete, held_up)
        self._siblings.throughput_controller.tell(answer)

    def _load_orderings(self) -> Operation:
        """Read for all that have asked by now: one by one they would keep new batches waiting."""
        requests = self._asked_orderings[:ORDERINGS_LOADED_MAX]
        assert requests, "nobody asks for anything"
        yield from self._reader.orderings(requests)
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
        is_idle = self._reach.latest_row_ms < self._saved.watermark_ms
        if advanced.is_worth_saving(self._saved, self._settings.step_ms(lag_ms, is_idle=is_idle)):
            yield from self._save(advanced)
            passed = len(advanced.stragglers)
            self._emit(WatermarkAdvanced(self._partition, advanced.watermark_ms, passed))
        if not drained:
            yield from self._sweep_hours()

    def _sweep_hours(self) -> Operation:
        self._watermark, has_more = yield from self._sweep.step(self._watermark)
        self._reader.thinned_ms = self._watermark.thinned_ms
        if has_more:
            # Behind what was begun meanwhile: a crowd of failed tasks keeps none waiting.
            self._operations.begin(self._sweep_hours())
        else:
            self._context.after(self._settings.interval_ms, _AdvanceDue())

    def _advanced(self, progress: ProgressMeasured, lag_ms: int) -> Watermark:
        """Return how far everything is closed, but for a bounded list of stragglers."""
        mark, now_ms = self._watermark, self._context.clock.now_ms()
        loaded_ms, open_ms = self._reach.checkpoint.key.scheduled_ms, progress.earliest_ms
        floor_ms = mark.floor_ms(now_ms, lag_ms, loaded_ms, open_ms)
        advanced = mark.advanced_to(floor_ms, progress.held, self._settings.stragglers_max)
        assert advanced.watermark_ms <= floor_ms, "something behind it is open (P8)"
        if advanced.watermark_ms < floor_ms:
            self._emit(WatermarkHeld(self._partition, advanced.watermark_ms, len(progress.held)))
        assert self._durable_offset <= self._next_offset, "what was not read is not durable (P9)"
        return replace(advanced, next_offset=self._durable_offset)
