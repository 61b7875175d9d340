"""The key up to which the open tasks of each ordering id are in memory.

One rule holds for all: no task after an unread row of its id is in memory, so the tasks of an id in
memory are its first ones (P4). Rows are unread because their flow has enough, or because more is
overdue than memory may hold. An id without unread rows is read ahead of the others: as far as the
cursor, or, once the ids with a backlog are known, as far as the band of tasks on time. Decides
which tasks of a page or of a write belong in memory. Loads nothing, and passes nothing on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.ownership import Watermark
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import ON_TIME_SHARE, BandName
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.model.window.checkpoint import Checkpoint
from hourhand.actors.model.window.flow_quota import FlowQuota, refill_share

BACKLOG_MIN_MS = 5_000
"""A task that is overdue by more than this and not in memory is a backlog; others are on time."""
AHEAD_MS = 5_000
"""Time into the future in which other flows' tasks are looked for behind left rows."""
UNREAD_SHARE = 4
"""At most one part in this number of a partition's memory is for ordering ids with unread rows."""
ORDERING_ID_BYTES = 150
"""Bytes of an ordering id in memory, without its text."""


class Backlog:
    """The search for the ordering ids with an overdue row, and how far all others are loaded then.

    States: searching, while ids are missing and none counts as on time; known.
    """

    __slots__ = ("end_ms", "is_known", "on_time", "searched")

    def __init__(self, after: TaskKey, end_ms: int) -> None:
        """Every open task is after ``after``, or a straggler's; rows before the end are overdue."""
        self.searched = after
        """The ids of all rows up to here are known, and those of rows that were written since."""
        self.end_ms = end_ms
        self.on_time = Checkpoint(first_key_at(end_ms))
        """Every open task up to here is in memory, of ids without an unread row."""
        self.is_known = False

    def reach_to(self, key: TaskKey) -> None:
        """Extend the search to rows up to ``key``, up to which memory reaches for some ids."""
        assert not self.is_known, "its ids are all known"
        if key >= self.on_time.key:
            self.end_ms = key.scheduled_ms + 1
            self.on_time = Checkpoint(first_key_at(self.end_ms))


class _Picked(NamedTuple):
    """The tasks that are taken from a page."""

    tasks: list[StoredTask]
    gap: TaskKey
    """No row up to this key was left."""
    reached: TaskKey
    """Each task up to this key was taken, left, or in memory already."""
    left: dict[str, TaskKey]
    """By id, the key after which rows were left."""
    first_left: dict[str, TaskKey]
    """By flow, the key after which its first left row is."""


class ReadAhead:
    """The checkpoint of a partition, and which ids are read further; no I/O, no locks."""

    __slots__ = (
        "_first_left",
        "_held_up_flow",
        "_left",
        "_refill_share",
        "_rules",
        "_unread",
        "backlog",
        "checkpoint",
        "cursor",
        "latest_row_ms",
        "size_bytes",
    )

    def __init__(self, key: TaskKey, rules: FlowRules, partition: int) -> None:
        """Memory of a partition reaches up to a key; tasks have flows if kinds have rules."""
        self._rules = rules
        self._refill_share = refill_share(partition)
        self.checkpoint = Checkpoint(key)
        """Every open task up to here is in memory."""
        self.cursor = Checkpoint(key)
        """Every open task up to here is in memory, or of an id with an unread row before it."""
        self.backlog: Backlog | None = None
        self._unread: dict[str, TaskKey | None] = {}
        """The ids with an unread row, and the key after which it is; None if that is unknown, which
        means the cursor."""
        self._left = 0
        """Number of them with a key: a flow that had enough left their rows."""
        self._held_up_flow: str | None = None
        """The flow of the first row that was left; None if the next load must find it."""
        self._first_left: dict[str, TaskKey] = {}
        """By flow, the key after which its first left row is, or an earlier key."""
        self.size_bytes = 0
        """Bytes of the ids."""
        self.latest_row_ms = 0
        """The latest time among the rows read and written that it reaches."""

    def __len__(self) -> int:
        """Return the number of ids with an unread row."""
        return len(self._unread)

    @property
    def has_left(self) -> bool:
        """True if a flow has left rows."""
        return self._left > 0

    def reached(self, ordering_id: str) -> TaskKey:
        """Return the key up to which the open tasks of an id are in memory."""
        backlog, reached = self.backlog, self.cursor.key
        if ordering_id not in self._unread:
            reached = backlog.on_time.key if backlog and backlog.is_known else reached
        elif (after := self._unread[ordering_id]) is not None:
            reached = after
        # Tasks on time may have left memory during the load, which lowered the cursor too.
        return max(reached, self.checkpoint.key)

    def is_on_time(self, ordering_id: str) -> bool:
        """True if others have a backlog, and this id has no overdue unread row."""
        return self._is_known and ordering_id not in self._unread

    def _has_left(self, ordering_id: str) -> bool:
        return self._unread.get(ordering_id) is not None

    @property
    def _is_known(self) -> bool:
        return self.backlog is not None and self.backlog.is_known

    def note_rows(self, rows: Sequence[StoredTask]) -> int:
        """Note rows that were read or written, and return the time of the latest, 0 for none.

        Rows beyond memory's reach are read later.
        """
        latest_ms = max([row.key.scheduled_ms for row in rows], default=0)
        reached_ms = self.checkpoint.key.scheduled_ms
        self.latest_row_ms = max(self.latest_row_ms, min(latest_ms, reached_ms))
        return latest_ms

    def split(
        self, tasks: Sequence[StoredTask]
    ) -> tuple[list[StoredTask], list[StoredTask], list[StoredTask]]:
        """Return tasks that belong in memory, on time and ordinary ones, and the rest."""
        on_time: list[StoredTask] = []
        inside: list[StoredTask] = []
        outside: list[StoredTask] = []
        for task in tasks:
            ordering_id = task.key.ordering_id
            if task.key > self.reached(ordering_id):
                outside.append(task)
            else:
                (on_time if self.is_on_time(ordering_id) else inside).append(task)
        return on_time, inside, outside

    def lower(self, key: TaskKey, now_ms: int, band: BandName) -> bool:
        """Note that tasks of a band after ``key`` left memory; return True if that ends the
        backlog.

        With flows that take turns, it does if the removed tasks were already due: these ids are
        late themselves.
        """
        self.cursor.lower(key)
        self._held_up_flow = None
        reached, backlog = self.cursor.key, self.backlog
        for ordering_id, after in self._unread.items():
            if after is not None and after > reached:
                self._unread[ordering_id] = reached
        self._first_left = {flow: min(after, reached) for flow, after in self._first_left.items()}
        if backlog is None or not backlog.is_known or band is BandName.ORDINARY:
            self.checkpoint.lower(key)
            return False
        backlog.on_time.lower(key)
        if key <= self.checkpoint.key:
            # No other task waits in memory by now: they left it first.
            self.checkpoint.lower(key)
        is_late = bool(self._rules) and key.scheduled_ms < now_ms - BACKLOG_MIN_MS
        return self.is_backlog_over or is_late

    # Offers of pages.

    def flow_quota(self, budget: PartitionBudget, tasks_max: int) -> FlowQuota | None:
        """Return the quota of flows, for a number of tasks in memory; None if no kind has a
        rule.
        """
        if not budget.has_flows:
            return None
        if self.backlog is not None:
            tasks_max -= tasks_max // ON_TIME_SHARE
        return FlowQuota(self._rules, budget, tasks_max, budget.free_bytes, self._refill_share)

    def is_held_up(self, quota: FlowQuota) -> bool:
        """True if the first left row has to stay in the store for now."""
        return self._held_up_flow is not None and not quota.may_go_on(self._held_up_flow)

    def begin_load(self) -> TaskKey:
        """Return the key after which the ordinary load begins."""
        self.cursor.begin_load()
        return self.checkpoint.begin_load()

    def take_page(
        self, tasks: Sequence[StoredTask], reached: TaskKey, quota: FlowQuota | None
    ) -> Sequence[StoredTask]:
        """Return the tasks after the checkpoint to pass on; with ``quota``, at most the limit of
        each flow.
        """
        tasks, reached = self._unless_on_time(tasks, reached, is_cut=quota is not None)
        if quota is None:
            self.cursor.end_load(reached)
        else:
            picked = self._pick(self.checkpoint.key, tasks, reached, quota, is_again=True)
            before, left = self.cursor.key, picked.left
            if picked.reached >= before:
                # All rows that were left so far are taken, or left again.
                self._forget_left()
            else:
                again = {task.key.ordering_id for task in picked.tasks}
                left = dict.fromkeys(filter(self._has_left, again), picked.reached) | left
            self._end(max(before, picked.reached), left, picked.first_left)
            tasks, reached = picked.tasks, picked.gap
        self.checkpoint.end_load(reached)
        return tasks

    def take_behind(
        self, tasks: Sequence[StoredTask], reached: TaskKey, quota: FlowQuota
    ) -> Sequence[StoredTask]:
        """Return the tasks behind the cursor to pass on."""
        if self.backlog is not None and not self.backlog.is_known:
            self.backlog.reach_to(reached)
        tasks, reached = self._unless_on_time(tasks, reached, is_cut=True)
        held_up_flow = self._held_up_flow
        picked = self._pick(self.cursor.key, tasks, reached, quota, is_again=False)
        self._held_up_flow = held_up_flow
        self._end(picked.reached, picked.left, picked.first_left)
        return picked.tasks

    def wanted(self, keys: Iterable[TaskKey]) -> list[TaskKey]:
        """Return the keys of ids that have not left a row."""
        return [key for key in keys if not self._has_left(key.ordering_id)]

    # Left rows before the cursor are offered again.

    def look_again_after(self, quota: FlowQuota) -> TaskKey | None:
        """Return the key after which the left rows begin of flows that are below their quota now;
        None if there are none.

        The ordinary load brings those of the flow that left the first row of all.
        """
        if quota.is_full:
            return None
        return min(
            (
                after
                for flow, after in self._first_left.items()
                if flow != self._held_up_flow and quota.may_go_on(flow)
            ),
            default=None,
        )

    def left_of(self, keys: Iterable[TaskKey], after: TaskKey) -> list[TaskKey]:
        """Return the unread keys before the cursor, of ids for which rows behind ``after`` are
        complete.
        """
        return [key for key in keys if key <= self.cursor.key and self._is_left(key, after)]

    def _is_left(self, key: TaskKey, after: TaskKey) -> bool:
        mark = self._unread.get(key.ordering_id)
        return mark is not None and after <= mark < key and key > self.checkpoint.key

    def take_left(
        self, tasks: Sequence[StoredTask], after: TaskKey, reached: TaskKey, quota: FlowQuota
    ) -> Sequence[StoredTask]:
        """Return the tasks behind ``after``, of the keys from ``left_of``, to pass on."""
        end = min(reached, self.cursor.key)
        taken: list[StoredTask] = []
        refused: dict[str, TaskKey] = {}
        first_left: dict[str, TaskKey] = {}
        last = after
        for task in tasks:
            key, ordering_id = task.key, task.key.ordering_id
            if key > end or quota.is_full:
                end = min(end, last)
                break
            # Memory may have been lowered while the page was read.
            if ordering_id not in refused and self._is_left(key, after):
                if quota.admit(task):
                    taken.append(task)
                else:
                    refused[ordering_id] = last
                    first_left.setdefault(quota.flow_of(task), last)
            last = key
        self._move_marks(after, end, refused)
        self._end_again(after, end, first_left)
        return taken

    def _move_marks(self, after: TaskKey, end: TaskKey, refused: Mapping[str, TaskKey]) -> None:
        """Note, for ids whose rows behind ``after`` a page showed, that memory reaches its end,
        except for refused rows.
        """
        is_whole = end >= self.cursor.key
        for ordering_id, mark in tuple(self._unread.items()):
            if mark is None or not after <= mark <= end:
                continue
            if ordering_id in refused:
                self._unread[ordering_id] = max(mark, refused[ordering_id])
            elif is_whole:
                self._unmark(ordering_id)
            else:
                self._unread[ordering_id] = end

    def _end_again(self, after: TaskKey, end: TaskKey, first_left: Mapping[str, TaskKey]) -> None:
        """Note the key up to which flows have left no row, for those that left none before a
        page.
        """
        for flow, first in tuple(self._first_left.items()):
            if first < after or first > end:
                continue
            if flow in first_left:
                self._first_left[flow] = first_left[flow]
            elif end < self.cursor.key:
                self._first_left[flow] = end
            else:
                del self._first_left[flow]
        for flow, first in first_left.items():
            self._first_left.setdefault(flow, first)

    def _unmark(self, ordering_id: str) -> None:
        """Note that an id has no unread row before the cursor."""
        self._left -= 1
        if self.backlog is not None:
            self._unread[ordering_id] = None
        else:
            del self._unread[ordering_id]
            self.size_bytes -= ORDERING_ID_BYTES + len(ordering_id)

    def end_ms(self, now_ms: int) -> int:
        """Return the time up to which other flows' tasks are looked for behind left rows.

        This continues during the search for ids, which takes longer if more is overdue: small flows
        would wait for it.
        """
        end_ms = now_ms + AHEAD_MS
        if self.backlog is None or not self.backlog.is_known:
            return end_ms
        return min(end_ms, self.backlog.on_time.key.scheduled_ms)

    def may_go_on(self, before_ms: int, share_bytes: int) -> bool:
        """True if there is enough to read before a time, and the partition's memory has room for
        more ids.
        """
        ahead_ms = before_ms - self.cursor.key.scheduled_ms
        return ahead_ms > AHEAD_MS // 2 and self.size_bytes < share_bytes // UNREAD_SHARE

    def _unless_on_time(
        self, tasks: Sequence[StoredTask], reached: TaskKey, *, is_cut: bool
    ) -> tuple[Sequence[StoredTask], TaskKey]:
        """Leave out tasks in the band of tasks on time; if a page ``is_cut``, also all tasks beyond
        it.
        """
        if (backlog := self.backlog) is None:
            return tasks, reached
        end = backlog.on_time.key
        if is_cut:
            reached = min(reached, end)
        return [
            task
            for task in tasks
            if task.key <= reached
            and not (task.key <= end and self.is_on_time(task.key.ordering_id))
        ], reached

    def _pick(
        self,
        after: TaskKey,
        tasks: Sequence[StoredTask],
        reached: TaskKey,
        quota: FlowQuota,
        *,
        is_again: bool,
    ) -> _Picked:
        """Take the tasks of a page that the flows' quota allows; ``is_again`` if left rows are
        among them.
        """
        taken: list[StoredTask] = []
        left: dict[str, TaskKey] = {}
        first_left: dict[str, TaskKey] = {}
        last, gap = after, None
        self._held_up_flow = None
        for task in tasks:
            key, ordering_id = task.key, task.key.ordering_id
            assert last < key <= reached, "a page is in key order"
            if ordering_id in left or (not is_again and self._has_left(ordering_id)):
                continue
            if key > self.reached(ordering_id):
                if quota.is_full:
                    reached = last
                    break
                if not quota.admit(task):
                    left[ordering_id] = last
                    flow = quota.flow_of(task)
                    first_left.setdefault(flow, last)
                    if gap is None:
                        gap, self._held_up_flow = last, flow
                    continue
                taken.append(task)
            last = key
        return _Picked(taken, reached if gap is None else gap, reached, left, first_left)

    def _end(
        self, reached: TaskKey, left: dict[str, TaskKey], first_left: dict[str, TaskKey]
    ) -> None:
        assert reached >= self.cursor.key, "a page begins where the cursor is"
        self.cursor.end_load(reached)
        # Memory may have been lowered while the page was read.
        reached = self.cursor.key
        for ordering_id, after in left.items():
            self._add(ordering_id)
            self._left += self._unread[ordering_id] is None
            self._unread[ordering_id] = min(after, reached)
        for flow, after in first_left.items():
            known = self._first_left.get(flow, after)
            self._first_left[flow] = min(after, known, reached)

    def _add(self, ordering_id: str) -> None:
        if ordering_id not in self._unread:
            self._unread[ordering_id] = None
            self.size_bytes += ORDERING_ID_BYTES + len(ordering_id)

    def _forget_left(self) -> None:
        """Note that no row before the cursor is left; behind it ids with a backlog may have
        more.
        """
        if self.backlog is not None:
            self._unread = dict.fromkeys(self._unread)
        else:
            self._unread, self.size_bytes = {}, 0
        self._left = 0
        self._first_left.clear()

    # Ids without a backlog need not wait for those that have one.

    @property
    def is_backlog_over(self) -> bool:
        """True if memory reaches as far for all as it does for tasks on time."""
        return self.backlog is not None and self.checkpoint.key >= self.backlog.on_time.key

    def look_for_backlog(self, mark: Watermark, now_ms: int) -> Backlog | None:
        """Begin the search for ids with an overdue row, if memory reaches much less than now.

        Every open task is behind the watermark or a straggler's, in memory or in the store.
        """
        assert self.backlog is None, "there is one backlog at a time"
        end_ms = now_ms - BACKLOG_MIN_MS
        if self.checkpoint.key.scheduled_ms >= end_ms:
            return None
        self.backlog = Backlog(first_key_at(mark.watermark_ms), end_ms)
        self.backlog.reach_to(self.cursor.key)
        for straggler in mark.stragglers:
            self._add(straggler.ordering_id)
        return self.backlog

    def add_found(self, ordering_ids: Iterable[str], next_after: TaskKey | None) -> bool:
        """Add the ids of rows that the search found; return True if these are all."""
        backlog = self.backlog
        assert backlog is not None, "ids are looked for where there is a backlog"
        assert not backlog.is_known, "its ids are all known"
        for ordering_id in ordering_ids:
            self._add(ordering_id)
        if next_after is not None:
            assert next_after > backlog.searched, "the look goes on"
            backlog.searched = next_after
        return next_after is None

    def add_written(self, tasks: Iterable[StoredTask]) -> bool:
        """Note tasks that are written, or opened again, while ids are missing; return True if they
        are missing.
        """
        backlog = self.backlog
        if backlog is None or backlog.is_known:
            return False
        for task in tasks:
            if task.key.scheduled_ms < backlog.end_ms:
                self._add(task.key.ordering_id)
        return True

    def fits(self, share_bytes: int) -> bool:
        """True if the ids fit a partition with this memory."""
        return self.size_bytes <= share_bytes // UNREAD_SHARE

    def end_backlog(self) -> None:
        """Keep only the ids of which a flow has left rows."""
        self.backlog = None
        self._unread = {each: after for each, after in self._unread.items() if after is not None}
        self.size_bytes = sum(ORDERING_ID_BYTES + len(each) for each in self._unread)

    def overdue_keys(self, tasks: Iterable[StoredTask]) -> tuple[TaskKey, ...]:
        """Return the keys that are on time by their id, but are in the range of the others'
        backlog, which no load has read.
        """
        backlog, reached = self.backlog, self.checkpoint.key
        if backlog is None or not backlog.is_known:
            return ()
        return tuple(
            task.key
            for task in tasks
            if reached < task.key
            and task.key.scheduled_ms < backlog.end_ms
            and task.key.ordering_id not in self._unread
        )
