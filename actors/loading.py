"""Loads rows into a partition's window: pages, rows of other flows behind them, rows of one id.

Decides which rows of a page go to memory, and which ordering ids have no overdue rows, so that
their tasks do not wait for the backlog of others.  Its methods are operations of
``TaskPersistence``, which wait for their answers.  Never decides when a page is loaded, and never
writes a row.
"""

from collections.abc import Sequence

import msgspec

from hourhand.actors.kernel.context import ActorContext
from hourhand.actors.kernel.operations import Ask, Operation, Operations
from hourhand.actors.messages import (
    BandsChanged,
    FindStatuses,
    LoadOrdering,
    LoadTasks,
    ScheduleTasks,
    Siblings,
    TasksLoaded,
    UpdateTask,
)
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import BandName
from hourhand.actors.model.window.flow_quota import FlowQuota
from hourhand.actors.model.window.read_ahead import Backlog, ReadAhead
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import TaskPage
from hourhand.actors.schedule_reader import ScheduleReader
from hourhand.actors.watermark import WatermarkKeeper

BACKLOG_AT_START_MS = 60_000
"""A partition whose watermark is further behind than this probably begins with a backlog."""
BACKLOG_PAUSE_MS = 5_000
"""Time between a backlog and the search for the next one: a search reads the keys of all rows."""
BACKLOG_PAGE_ROWS = 5_000
"""Rows whose ordering ids are read at once; new batches wait meanwhile."""
FLOW_PAGE_TASKS = 250
"""Rows that are read at once while a flow has left some: new batches wait meanwhile."""
SEARCH_PAGES = 4
"""Pages of keys that one look behind left rows reads, before it pauses for a tick."""
SEARCH_FEW = 4
"""Rows are read by their keys if at most one row in this many is wanted, else as a whole page."""
ORDERINGS_LOADED_MAX = 32
"""Ordering ids whose waiting tasks are read at once."""


class SearchDue(msgspec.Struct, frozen=True):
    """TaskPersistence to itself: continue the search for the ids of a backlog."""

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
        """A load that waits until the ids of the backlog are known."""
        self._asked_orderings: list[LoadOrdering] = []

    def pass_on(self, tasks: Sequence[StoredTask]) -> None:
        """Hand memory the tasks of its loaded range; the others are loaded later."""
        if not tasks:
            return
        scheduler, reach = self._siblings.partition_scheduler, self._reach
        latest_ms = reach.note_rows(tasks)
        if reach.backlog is None and latest_ms < reach.checkpoint.key.scheduled_ms:
            # The usual case; comparing each key would take as long as all else here.
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
                # The window has shrunk meanwhile; an older record of the key may wait to run (P6).
                scheduler.tell(UpdateTask(task))

    def learn_statuses(self, tasks: Sequence[StoredTask]) -> Operation:
        """Read the statuses of keys that memory takes although no load has read their range.

        Such a key may be done and its row deleted; after this read memory knows that (P5).
        """
        if keys := self._reach.overdue_keys(tasks):
            yield Ask(self._siblings.completion_tracker, FindStatuses(keys))

    def lower(self, key: TaskKey, band: BandName) -> None:
        """Note that tasks of a band after a key left memory."""
        if self._reach.lower(key, self._context.clock.now_ms(), band):
            self._end_backlog()

    def load(self, message: LoadTasks, *, has_waited: bool = False) -> Operation:
        """Load a page of a band, or rows of other flows behind those that some flows have left."""
        reach, backlog = self._reach, self._reach.backlog
        on_time = message.band is BandName.ON_TIME
        if backlog is not None and not backlog.is_known:
            if reach.has_left:
                # Tasks of other flows do not wait for the end of the search.
                yield from self._load_behind()
                return
            # The load waits until the ids are known.
            assert self._waiting_load is None, "one load at a time is asked for"
            self._waiting_load = message
            return
        if (has_waited and backlog is not None) or (on_time and backlog is None):
            # The controller asks again: tasks on time go first, and only during a backlog.
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
        """Load tasks of other flows behind the rows that some flows have left."""
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
        # After a look that found little the next one waits for a tick, because a look takes time
        # from running tasks.  Future rows are passed over first, without such waits.
        is_late = reached.scheduled_ms <= self._context.clock.now_ms()
        few = 2 * len(taken) < len(found.keys)
        # A look that moved nothing would find the same again.
        is_stuck = reach.cursor.key <= after
        self._answer_load(complete=False, held_up=is_stuck or (is_late and few))

    def _load_left(self, after: TaskKey) -> Operation:
        """Load rows before the cursor, of flows that are below their quota again."""
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
        """Return the quota of flows in memory; None if no kind has a rule."""
        tasks_max = self._window.tasks_max
        return self._reach.flow_quota(self._siblings.budget, tasks_max)

    def _take_page(self, page: TaskPage, reached: TaskKey, tasks: Sequence[StoredTask]) -> None:
        """Pass on the open tasks of a page, except those in memory or over their flow's quota."""
        is_open = 2 * len(tasks) >= len(page.tasks)
        tasks = self._reach.take_page(tasks, reached, self._flow_quota())
        self._reach.note_rows(page.tasks)
        if self._reach.is_backlog_over:
            self._end_backlog()
        self._count_ids()
        # Nothing behind a task that left memory meanwhile may be in it: it would overtake (P4).
        self.pass_on(tasks)
        if is_open and self._reach.backlog is None:
            self.look_for_backlog()

    def _take_on_time(
        self, backlog: Backlog | None, reached: TaskKey, tasks: Sequence[StoredTask]
    ) -> None:
        if backlog is None or backlog is not self._reach.backlog:
            # The backlog has ended meanwhile: the ordinary load reads these tasks.
            return
        backlog.on_time.end_load(reached)
        self.pass_on([task for task in tasks if self._reach.is_on_time(task.key.ordering_id)])
        reached_ms = backlog.on_time.key.scheduled_ms
        self._siblings.throughput_controller.tell(BandsChanged(reached_ms))

    # The backlog: ordering ids without overdue rows do not wait for those that have some.

    def look_for_backlog(self) -> None:
        """Begin the search for ids that have a backlog, if memory is far behind the clock."""
        clock = self._context.clock
        if clock.monotonic_ms() < self._search_after_ms:
            return
        backlog = self._reach.look_for_backlog(self._watermark.mark, clock.now_ms())
        if backlog is not None:
            self._operations.begin(self.search(backlog))

    def search(self, backlog: Backlog) -> Operation:
        """Read a page of ordering ids; the next page waits behind operations begun meanwhile."""
        if backlog is not self._reach.backlog:
            return
        yield from self._watermark.raise_loaded_until(backlog.end_ms)
        # The search pauses between pages while the flow that left rows has enough in memory.
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
        """Count the memory of its ids.  If that is too much, end the backlog and return False."""
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
        """Begin the load that waited for the search."""
        message, self._waiting_load = self._waiting_load, None
        if message is not None:
            self._operations.begin(self.load(message, has_waited=True))

    def _answer_load(self, *, complete: bool, held_up: bool = False) -> None:
        answer = TasksLoaded(self._reach.checkpoint.key.scheduled_ms, complete, held_up)
        self._siblings.throughput_controller.tell(answer)

    def ask(self, message: LoadOrdering) -> None:
        """Load waiting tasks of an ordering id, together with those of later requests."""
        self._asked_orderings.append(message)
        if len(self._asked_orderings) == 1:
            self._operations.begin(self._load_orderings())

    def _load_orderings(self) -> Operation:
        """Answer all requests at once: one by one they would delay new batches."""
        requests = self._asked_orderings[:ORDERINGS_LOADED_MAX]
        assert requests, "nobody asks for anything"
        yield from self._reader.orderings(requests)
        del self._asked_orderings[: len(requests)]
        if self._asked_orderings:
            # The rest waits behind operations begun meanwhile.
            self._operations.begin(self._load_orderings())
