"""What fills a partition's window: pages, what other flows have behind them, an id's own rows.

Decides what of a page is passed on to memory, and of which ordering ids nothing is overdue, so that
what is on time does not wait for a backlog of others.  Operations of ``TaskPersistence``, which
wait for their answers.  Never decides when a page is loaded, and never writes a row.
"""

from collections.abc import Sequence

import msgspec

from actors.kernel.context import ActorContext
from actors.kernel.operations import Ask, Operation, Operations
from actors.messages import (
    BandsChanged,
    FindStatuses,
    LoadOrdering,
    LoadTasks,
    ScheduleTasks,
    Siblings,
    TasksLoaded,
    UpdateTask,
)
from actors.model.band import BandName
from actors.model.flow_quota import FlowQuota
from actors.model.key import TaskKey, first_key_at
from actors.model.read_ahead import Backlog, ReadAhead
from actors.model.task import StoredTask
from actors.ports.effects import Effects
from actors.ports.store import TaskPage
from actors.schedule_reader import ScheduleReader
from actors.watermark import WatermarkKeeper

BACKLOG_AT_START_MS = 60_000
"""A partition whose watermark is further behind than this most likely has one when it begins."""
BACKLOG_PAUSE_MS = 5_000
"""Between the end of one and the search for the next one: a search reads the keys of all."""
BACKLOG_PAGE_ROWS = 5_000
"""Rows whose ordering ids are read at once; new batches wait meanwhile."""
FLOW_PAGE_TASKS = 250
"""So many rows are read at once where a flow has left some: what others write waits for each."""
SEARCH_PAGES = 4
"""Pages of a load that one look at the store comes by, before it pauses for a tick."""
SEARCH_FEW = 4
"""Up to one row in so many is read by its key, where the others are of ids that leave theirs; where
more are wanted, the whole page is read."""
ORDERINGS_LOADED_MAX = 32
"""Ordering ids whose waiting tasks are read at once."""


class SearchDue(msgspec.Struct, frozen=True):
    """Told to ``TaskPersistence`` by itself: the search for a backlog's ids goes on."""

    backlog: Backlog


class Loading:
    """The loads of one partition: operations, which wait for their answers."""

    def __init__(
        self,
        effects: Effects,
        context: ActorContext,
        siblings: Siblings,
        reader: ScheduleReader,
        watermark: WatermarkKeeper,
        reach: ReadAhead,
        operations: Operations,
        partition: int,
    ) -> None:
        self._schedule = effects.stores.schedule
        self._window = effects.settings.window
        self._partition = partition
        self._context = context
        self._siblings = siblings
        self._reader = reader
        self._watermark = watermark
        self._reach = reach
        self._operations = operations
        self._search_after_ms = 0.0
        """Monotonic time before which no backlog is looked for."""
        self._waiting_load: LoadTasks | None = None
        """It waits for the search for ids that have a backlog."""
        self._asked_orderings: list[LoadOrdering] = []

    def pass_on(self, tasks: Sequence[StoredTask]) -> None:
        """Hand tasks to memory where it reaches; the others are loaded when it does."""
        if not tasks:
            return
        scheduler, reach = self._siblings.partition_scheduler, self._reach
        latest_ms = reach.note_rows(tasks)
        if reach.backlog is None and latest_ms < reach.checkpoint.key.scheduled_ms:
            # Nearly always, and to compare each key would take as long as all else here.
            scheduler.tell(ScheduleTasks(tuple(tasks)))
            return
        if reach.add_written(tasks):
            self._count_backlog()
        on_time, inside, outside = reach.split(tasks)
        if on_time:
            scheduler.tell(ScheduleTasks(tuple(on_time), BandName.ON_TIME))
        if inside:
            scheduler.tell(ScheduleTasks(tuple(inside)))
        now_ms = self._context.clock.now_ms()
        for task in outside:
            if task.key.scheduled_ms <= now_ms:
                # Handed on before memory was lowered, an older record may wait to run (P6).
                scheduler.tell(UpdateTask(task))

    def learn_statuses(self, tasks: Sequence[StoredTask]) -> Operation:
        """Read what became of keys that no load came by, and that are passed on all the same.

        Such a key may be done, its row deleted, and is then looked for in memory only (P5).
        """
        if keys := self._reach.overdue_keys(tasks):
            yield Ask(self._siblings.completion_tracker, FindStatuses(keys))

    def lower(self, key: TaskKey, band: BandName) -> None:
        """Tasks of a band after a key left memory."""
        if self._reach.lower(key, self._context.clock.now_ms(), band):
            self._end_backlog()

    def load(self, message: LoadTasks, *, has_waited: bool = False) -> Operation:
        """Load a page, of what is on time or of all, or what lies behind what flows have left."""
        reach, backlog = self._reach, self._reach.backlog
        on_time = message.band is BandName.ON_TIME
        if backlog is not None and not backlog.is_known:
            if reach.has_left:
                # Others' tasks do not wait until all ids are found.
                yield from self._load_behind()
                return
            # Until the ids are known, which is all that what is on time waits for.
            assert self._waiting_load is None, "one load at a time is asked for"
            self._waiting_load = message
            return
        if (has_waited and backlog is not None) or (on_time and backlog is None):
            # Asked again: what is on time is loaded first, and only while others have a backlog.
            self._answer_load(complete=False)
            return
        if backlog is not None and on_time:
            after = backlog.on_time.begin_load()
        elif (quota := self._flow_quota()) is not None and reach.is_held_up(quota):
            yield from self._load_behind()
            return
        else:
            after = reach.begin_load()
        if message.before_ms <= after.scheduled_ms:
            self._answer_load(complete=not on_time)
            return
        yield from self._watermark.raise_loaded_until(message.before_ms)
        limit = min(message.limit, FLOW_PAGE_TASKS) if reach.has_left else message.limit
        before_ms = self._reader.end_ms(after, message.before_ms)
        page, tasks = yield from self._reader.page(after, before_ms, limit)
        reached = page.reached(first_key_at(before_ms))
        if on_time:
            self._take_on_time(backlog, reached, tasks)
        else:
            self._take_page(page, reached, tasks)
        is_whole = page.complete and before_ms == message.before_ms and not on_time
        self._answer_load(complete=is_whole and reach.checkpoint.key == reached)

    def _load_behind(self) -> Operation:
        """Load tasks of other flows behind the rows that some have left to the store."""
        reach = self._reach
        if reach.backlog is None:
            self.look_for_backlog()
        quota = self._flow_quota()
        assert quota is not None, "a kind has a rule"
        again_after = reach.look_again_after(quota)
        if again_after is not None:
            yield from self._load_left(again_after)
            return
        before_ms = reach.end_ms(self._context.clock.now_ms())
        after = reach.cursor.begin_load()
        before_ms = self._reader.end_ms(after, before_ms)
        if not reach.may_go_on(before_ms, self._siblings.budget.share_bytes):
            self._answer_load(complete=False, held_up=True)
            return
        limit = SEARCH_PAGES * self._window.page_tasks
        yield from self._watermark.raise_loaded_until(before_ms)
        found = yield self._schedule.find_keys(self._partition, after, before_ms, limit)
        keys = reach.wanted(found.keys)
        quota = self._flow_quota()
        assert quota is not None, "a kind has a rule"
        if SEARCH_FEW * len({key.ordering_id for key in keys}) > len(found.keys):
            page, tasks = yield from self._reader.page(after, before_ms, limit)
            reached = page.reached(first_key_at(before_ms))
        else:
            reached = found.reached(first_key_at(before_ms))
            reading = self._reader.rows_behind(keys, quota.is_over_quota, after, reached)
            tasks, reached = yield from reading
        taken = reach.take_behind(tasks, reached, quota)
        self._count_ids()
        self.pass_on(taken)
        # Where little is found the next look waits for a tick: it takes time from what runs.  What
        # is still to come is passed first, or others would wait for it when it falls due.
        is_late = reached.scheduled_ms <= self._context.clock.now_ms()
        few = 2 * len(taken) < len(found.keys)
        # The same look would come to the same if it moved nothing.
        is_stuck = reach.cursor.key <= after
        self._answer_load(complete=False, held_up=is_stuck or (is_late and few))

    def _load_left(self, after: TaskKey) -> Operation:
        """Load rows before the cursor that flows have left which are below their quota by now."""
        reach = self._reach
        end, limit = reach.cursor.key, SEARCH_PAGES * self._window.page_tasks
        before_ms = self._reader.end_ms(after, end.scheduled_ms + 1)
        found = yield self._schedule.find_keys(self._partition, after, before_ms, limit)
        reached = min(end, found.reached(first_key_at(before_ms)))
        keys = reach.left_of(found.keys, after)
        quota = self._flow_quota()
        assert quota is not None, "a kind has a rule"
        tasks, reached = yield from self._reader.rows_behind(
            keys, quota.is_over_quota, after, reached
        )
        taken = reach.take_left(tasks, after, reached, quota)
        self._count_ids()
        self.pass_on(taken)
        self._answer_load(complete=False)

    def _flow_quota(self) -> FlowQuota | None:
        """Return what flows may have in memory; None where no kind has a rule."""
        tasks_max = self._window.tasks_max
        return self._reach.flow_quota(self._siblings.budget, tasks_max)

    def _take_page(self, page: TaskPage, reached: TaskKey, tasks: Sequence[StoredTask]) -> None:
        """Pass the open tasks of a page on, but for what is in memory or what a flow leaves."""
        is_open = 2 * len(tasks) >= len(page.tasks)
        tasks = self._reach.take_page(tasks, reached, self._flow_quota())
        self._reach.note_rows(page.tasks)
        if self._reach.is_backlog_over:
            self._end_backlog()
        self._count_ids()
        # Beyond what left memory meanwhile nothing may be in it, or it would overtake (P4).
        self.pass_on(tasks)
        if is_open and self._reach.backlog is None:
            self.look_for_backlog()

    def _take_on_time(
        self, backlog: Backlog | None, reached: TaskKey, tasks: Sequence[StoredTask]
    ) -> None:
        if backlog is None or backlog is not self._reach.backlog:
            # It was worked off meanwhile: the ordinary load brings these.
            return
        backlog.on_time.end_load(reached)
        self.pass_on([task for task in tasks if self._reach.is_on_time(task.key.ordering_id)])
        reached_ms = backlog.on_time.key.scheduled_ms
        self._siblings.throughput_controller.tell(BandsChanged(reached_ms))

    # Ordering ids without a backlog need not wait for those that have one.

    def look_for_backlog(self) -> None:
        """Look for the ids that have a backlog, where memory is far behind the clock."""
        clock = self._context.clock
        if clock.monotonic_ms() < self._search_after_ms:
            return
        backlog = self._reach.look_for_backlog(self._watermark.mark, clock.now_ms())
        if backlog is not None:
            self._operations.begin(self.search(backlog))

    def search(self, backlog: Backlog) -> Operation:
        """Read a page of ordering ids, and go on behind what was begun meanwhile."""
        if backlog is not self._reach.backlog:
            return
        yield from self._watermark.raise_loaded_until(backlog.end_ms)
        # There are pauses while the flow that left rows has enough in memory: its next ones are
        # loaded when the ids are known.
        quota = self._flow_quota()
        takes_turns = quota is not None and self._reach.is_held_up(quota)
        window = self._window
        rows = (
            min(window.page_tasks, FLOW_PAGE_TASKS) if self._reach.has_left else BACKLOG_PAGE_ROWS
        )
        page = yield self._schedule.find_keys(
            self._partition, backlog.searched, backlog.end_ms, rows
        )
        if backlog is not self._reach.backlog:
            return
        next_after = None if page.complete else page.keys[-1]
        is_searched = self._reach.add_found([key.ordering_id for key in page.keys], next_after)
        if not self._count_backlog():
            return
        if not is_searched and takes_turns:
            self._context.after(window.tick_ms, SearchDue(backlog))
        elif not is_searched:
            self._operations.begin(self.search(backlog))
        elif not len(self._reach):
            self._end_backlog()
        else:
            backlog.is_known = True
            changed = BandsChanged(backlog.on_time.key.scheduled_ms)
            self._siblings.partition_scheduler.tell(changed)
            self._siblings.throughput_controller.tell(changed)
            self._load_what_waited()

    def _count_backlog(self) -> bool:
        """Count what its ids hold; False where that is too much, and nobody is on time."""
        self._count_ids()
        if not self._reach.fits(self._siblings.budget.share_bytes):
            self._end_backlog()
            return False
        return True

    def _count_ids(self) -> None:
        self._siblings.budget.keep_ids(self._reach.size_bytes)

    def _end_backlog(self) -> None:
        backlog = self._reach.backlog
        assert backlog is not None, "a backlog ends once"
        self._reach.end_backlog()
        self._count_ids()
        self._search_after_ms = self._context.clock.monotonic_ms() + BACKLOG_PAUSE_MS
        if backlog.is_known:
            self._siblings.partition_scheduler.tell(BandsChanged(None))
            self._siblings.throughput_controller.tell(BandsChanged(None))
        self._load_what_waited()

    def _load_what_waited(self) -> None:
        """Do the load that waited until ids were known, or nobody is on time."""
        message, self._waiting_load = self._waiting_load, None
        if message is not None:
            self._operations.begin(self.load(message, has_waited=True))

    def _answer_load(self, *, complete: bool, held_up: bool = False) -> None:
        answer = TasksLoaded(self._reach.checkpoint.key.scheduled_ms, complete, held_up)
        self._siblings.throughput_controller.tell(answer)

    def ask(self, message: LoadOrdering) -> None:
        """Load waiting tasks of an ordering id, with those that others ask for by then."""
        self._asked_orderings.append(message)
        if len(self._asked_orderings) == 1:
            self._operations.begin(self._load_orderings())

    def _load_orderings(self) -> Operation:
        """Read for all that have asked by now: one by one they would keep new batches waiting."""
        requests = self._asked_orderings[:ORDERINGS_LOADED_MAX]
        assert requests, "nobody asks for anything"
        yield from self._reader.orderings(requests)
        del self._asked_orderings[: len(requests)]
        if self._asked_orderings:
            # Behind what was begun meanwhile.
            self._operations.begin(self._load_orderings())
