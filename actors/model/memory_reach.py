"""Up to which key the open tasks of each ordering id are in memory.

For most ids that is the checkpoint; further for punctual ids while others have a backlog, and for
ids that have no row which a flow left to the store.  Decides which tasks of a page or of a write
belong in memory.  Loads nothing, and passes nothing on.
"""

from collections.abc import Sequence

from actors.model.backlog import BACKLOG_MIN_MS, Backlog
from actors.model.backlog_search import SEARCH_AHEAD_MS, BacklogSearch, FlowRoom, refill_share
from actors.model.band import ON_TIME_SHARE
from actors.model.budget import PartitionBudget
from actors.model.checkpoint import Checkpoint
from actors.model.flow import FlowRules
from actors.model.key import TaskKey
from actors.model.task import StoredTask


class MemoryReach:
    """The checkpoint of a partition, and what reaches further; no I/O, no locks."""

    __slots__ = ("_refill_share", "_rules", "backlog", "checkpoint", "latest_row_ms", "search")

    def __init__(self, key: TaskKey, rules: FlowRules, partition: int) -> None:
        """Memory of a partition reaches up to a key; tasks have flows where kinds have rules."""
        self._rules = rules
        self._refill_share = refill_share(partition)
        self.checkpoint = Checkpoint(key)
        self.backlog: Backlog | None = None
        """Which ids are punctual, while others have a backlog."""
        self.search = BacklogSearch(key)
        """It reaches as far as the checkpoint where no flow has left anything."""
        self.latest_row_ms = 0
        """No row that it reaches is later, of those that were read and of those written."""

    @property
    def ids_bytes(self) -> int:
        """What the ordering ids hold that it has to know."""
        return self.search.size_bytes + (0 if self.backlog is None else self.backlog.size_bytes)

    @property
    def is_backlog_over(self) -> bool:
        """Whether memory reaches as far for all as it does for punctual ids."""
        return self.backlog is not None and self.checkpoint.key >= self.backlog.checkpoint.key

    def note_rows(self, rows: Sequence[StoredTask]) -> int:
        """Note rows that were read or written, and return the time of the latest, 0 for none.

        What memory does not reach yet is read when it does.
        """
        latest_ms = max([row.key.scheduled_ms for row in rows], default=0)
        reached_ms = self.checkpoint.key.scheduled_ms
        self.latest_row_ms = max(self.latest_row_ms, min(latest_ms, reached_ms))
        return latest_ms

    def split(
        self, tasks: Sequence[StoredTask]
    ) -> tuple[list[StoredTask], list[StoredTask], list[StoredTask]]:
        """Return tasks of punctual ids that belong in memory, others that do, and the rest."""
        backlog, checkpoint, search = self.backlog, self.checkpoint.key, self.search
        punctual: list[StoredTask] = []
        inside: list[StoredTask] = []
        outside: list[StoredTask] = []
        for task in tasks:
            key = task.key
            if backlog is not None and backlog.is_punctual(key.ordering_id):
                (punctual if key <= backlog.checkpoint.key else outside).append(task)
            elif key <= checkpoint or search.has_in_memory(key):
                inside.append(task)
            else:
                outside.append(task)
        return punctual, inside, outside

    def lower(self, key: TaskKey, now_ms: int, *, punctual: bool) -> bool:
        """Tasks after ``key`` left memory, of punctual ids only or of the others; return whether
        that ends the backlog.

        Where flows take turns, it does if what left was due before: these ids are late themselves.
        """
        self.search.lower(key)
        backlog = self.backlog
        if backlog is None or not backlog.is_known or not punctual:
            self.checkpoint.lower(key)
            return False
        backlog.checkpoint.lower(key)
        if key <= self.checkpoint.key:
            # None of the others waits in memory by now: they left it first.
            self.checkpoint.lower(key)
        is_late = bool(self._rules) and key.scheduled_ms < now_ms - BACKLOG_MIN_MS
        return self.is_backlog_over or is_late

    def flow_room(self, budget: PartitionBudget, tasks_max: int) -> FlowRoom | None:
        """Return what flows may have of so many tasks in memory; None where no kind has a rule."""
        if not budget.has_flows:
            return None
        assert self._rules, "flows are counted where kinds have rules"
        if self.backlog is not None:
            tasks_max -= tasks_max // ON_TIME_SHARE
        return FlowRoom(self._rules, budget, tasks_max, budget.room_bytes, self._refill_share)

    def search_end_ms(self, now_ms: int) -> int:
        """Return up to when other flows' tasks are looked for behind what is left.

        It goes on while ids are looked for, which takes the longer the more is overdue: small
        flows would wait for it.
        """
        end_ms = now_ms + SEARCH_AHEAD_MS
        if self.backlog is None or not self.backlog.is_known:
            return end_ms
        return min(end_ms, self.backlog.checkpoint.key.scheduled_ms)

    def begin_load(self) -> TaskKey:
        """Return after which key the ordinary load begins."""
        self.search.checkpoint.begin_load()
        return self.checkpoint.begin_load()

    def take_page(
        self, tasks: Sequence[StoredTask], reached: TaskKey, room: FlowRoom | None
    ) -> Sequence[StoredTask]:
        """Return what of the open tasks after the checkpoint is to be passed on; with ``room``, of
        some flows not more than they may have.
        """
        tasks, reached = self._unless_punctual(tasks, reached, is_cut=room is not None)
        if room is None:
            self.search.checkpoint.end_load(reached)
        else:
            after = self.checkpoint.key
            picked = self.search.take_first(after, tasks, reached, room)
            tasks, reached = picked.tasks, picked.gap
        self.checkpoint.end_load(reached)
        return tasks

    def take_behind(
        self, tasks: Sequence[StoredTask], reached: TaskKey, room: FlowRoom
    ) -> Sequence[StoredTask]:
        """Return what of the open tasks behind the search is to be passed on."""
        if self.backlog is not None and not self.backlog.is_known:
            self.backlog.reach_to(reached)
        tasks, reached = self._unless_punctual(tasks, reached, is_cut=True)
        after = self.search.checkpoint.key
        return self.search.take_behind(after, tasks, reached, room).tasks

    def _unless_punctual(
        self, tasks: Sequence[StoredTask], reached: TaskKey, *, is_cut: bool
    ) -> tuple[Sequence[StoredTask], TaskKey]:
        """Leave out what the window of punctual ids has brought; where a page ``is_cut``, all that
        lies beyond it too.
        """
        if (backlog := self.backlog) is None:
            return tasks, reached
        if is_cut:
            reached = min(reached, backlog.checkpoint.key)
        return [
            task for task in tasks if task.key <= reached and not backlog.has_in_memory(task.key)
        ], reached
