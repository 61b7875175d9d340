"""The search past a backlog for other flows: rows that are left to the store, and who has them.

A flow that has enough in memory leaves its further rows to the store, and the rows behind them are
read for the other flows.  An ordering id of which a row was left leaves all later ones, whatever
their flow, so what it has in memory are still its first tasks (P4).  Decides which tasks of a page
are taken, and up to which key the open tasks of an id are in memory.  Loads nothing, and passes
nothing on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.model.backlog import ORDERING_ID_BYTES
from actors.model.budget import PartitionBudget
from actors.model.checkpoint import Checkpoint
from actors.model.flow import FlowRules
from actors.model.key import TaskKey
from actors.model.task import StoredTask

SEARCH_AHEAD_MS = 5_000
"""So far into the future other flows' tasks are looked for behind what is left."""
SEARCH_PAGES = 4
"""Pages of a load that one look at the store comes by, before it pauses for a tick."""
SEARCH_FEW = 4
"""Up to one row in so many is read by its key, where the others are of ids that leave theirs; where
more are wanted, the whole page is read."""
SEARCH_SHARE = 4
"""This part of what a partition may hold, at most, is for the ordering ids that have left rows."""
FLOW_PAGE_TASKS = 250
"""So many rows are read at once where a flow has left some: what others write waits for each."""
FLOW_SHARE = 32
"""Below this part of what a partition may hold, in tasks, a flow leaves none of its rows."""
FLOW_TASKS_MIN = 4
"""The same of a partition that may hold few."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def refill_share(partition: int) -> float:
    """Return below which part of what is free a flow's left rows are loaded: 1/4 to 3/4.

    Each partition has its own, spread evenly by multiples of the golden ratio (Knuth, The Art of
    Computer Programming, 6.4).  A flow is used up equally fast in all partitions, so with one
    share for all they would load at the same time, and small flows would wait.
    """
    return 0.25 + partition * _GOLDEN_RATIO % 1 / 2


class FlowRoom:
    """How much room a partition has, and which flow may take of it: one that holds less than is
    free, so that one flow alone leaves half (dynamic thresholds, as for slots), and one that holds
    few in any case: a row that is left waits for all that is overdue before it.
    """

    def __init__(
        self,
        rules: FlowRules,
        budget: PartitionBudget,
        tasks_max: int,
        size_bytes: int,
        refill_share: float,
    ) -> None:
        """There is room for what the flows lack of so many tasks, and for so many more bytes; a
        flow whose rows were left goes on below this share of what is free.
        """
        self._rules = rules
        self._budget = budget
        self._least = max(FLOW_TASKS_MIN, tasks_max // FLOW_SHARE)
        self._tasks = tasks_max - budget.flow_tasks
        self._bytes = size_bytes
        self._refill_share = refill_share
        self._taken: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._sated: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether no flow may take anything."""
        return self._tasks <= 0 or self._bytes <= 0

    def take(self, task: StoredTask) -> bool:
        """Give room to a task, unless its flow has enough; return whether it did."""
        assert not self.is_full, "the page ends where there is no room"
        if self.has_enough(task):
            return False
        taken = self._taken[self._rules.flow_of(task)]
        taken[0] += 1
        taken[1] += task.held_bytes
        self._tasks -= 1
        self._bytes -= task.held_bytes
        return True

    def has_enough(self, task: StoredTask) -> bool:
        """Whether the flow of a task has as much as it may; then it gets nothing more of this
        room, though some of it leaves meanwhile.
        """
        flow = self._rules.flow_of(task)
        if flow in self._sated:
            return True
        tasks, size_bytes = self._taken[flow]
        tasks += self._budget.tasks_of(flow)
        size_bytes += self._budget.waiting_bytes_of(flow)
        if tasks < max(self._least, self._tasks) and size_bytes < self._bytes:
            return False
        self._sated.add(flow)
        return True

    def may_go_on(self, flow: str) -> bool:
        """Whether a flow whose rows were left may have so many of them that a page is worth it."""
        share = self._refill_share
        has_tasks = self._budget.tasks_of(flow) <= share * max(self._least, self._tasks)
        return has_tasks and self._budget.waiting_bytes_of(flow) <= share * self._bytes

    def flow_of(self, task: StoredTask) -> str:
        """Return the flow of a task."""
        return self._rules.flow_of(task)


class Picked(NamedTuple):
    """What is taken of a page."""

    tasks: list[StoredTask]
    gap: TaskKey
    """Up to this key nothing was left."""
    reached: TaskKey
    """Up to this key each task was taken, left, or in memory already."""


class BacklogSearch:
    """The rows behind the checkpoint that are in memory, and the ordering ids of those that are
    not; no I/O, no locks.

    At rest where nothing is left: then it reaches no further than the checkpoint does.
    """

    __slots__ = ("_left", "_left_flow", "checkpoint", "size_bytes")

    def __init__(self, after: TaskKey) -> None:
        self.checkpoint = Checkpoint(after)
        """Every open task up to this key is in memory, or of an id with left rows."""
        self._left: dict[str, TaskKey] = {}
        """Of these ids nothing after their key was taken."""
        self._left_flow: str | None = None
        """Whose row was the first one left; None where the next load is to find out."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._left)

    def has_in_memory(self, key: TaskKey) -> bool:
        """Whether an open task of this key is in memory as the search came by."""
        if key > self.checkpoint.key:
            return False
        last = self._left.get(key.ordering_id)
        return last is None or key <= last

    def wanted(self, keys: Iterable[TaskKey]) -> list[TaskKey]:
        """Return the keys of ids that have not left a row."""
        return [key for key in keys if key.ordering_id not in self._left]

    def may_go_on(self, before_ms: int, share_bytes: int) -> bool:
        """Whether there is enough to read before a time, and a partition that may hold so many
        bytes may keep more ids.
        """
        ahead_ms = before_ms - self.checkpoint.key.scheduled_ms
        return ahead_ms > SEARCH_AHEAD_MS // 2 and self.size_bytes < share_bytes // SEARCH_SHARE

    def is_held_up(self, room: FlowRoom) -> bool:
        """Whether the first left row has to stay where it is for now."""
        assert self._left_flow is None or self._left, "a row that was left has an ordering id"
        return self._left_flow is not None and not room.may_go_on(self._left_flow)

    def lower(self, key: TaskKey) -> None:
        """Tasks after ``key`` left memory."""
        self.checkpoint.lower(key)
        assert self.checkpoint.key <= key, "it reaches past what left memory"
        self._left_flow = None
        reached = self.checkpoint.key
        for ordering_id, last in self._left.items():
            if last > reached:
                self._left[ordering_id] = reached

    def take_first(
        self, after: TaskKey, tasks: Sequence[StoredTask], reached: TaskKey, room: FlowRoom
    ) -> Picked:
        """Take of the open tasks after the checkpoint, where the first left rows are."""
        picked, left = self._pick(after, tasks, reached, room, {})
        before = self.checkpoint.key
        if picked.reached >= before:
            # All that was left so far is taken, or left anew.
            self._left, self.size_bytes = {}, 0
        else:
            again = {each.key.ordering_id for each in picked.tasks} & self._left.keys()
            left = dict.fromkeys(again, picked.reached) | left
        self._end(max(before, picked.reached), left)
        return picked

    def take_behind(
        self, after: TaskKey, tasks: Sequence[StoredTask], reached: TaskKey, room: FlowRoom
    ) -> Picked:
        """Take of the open tasks behind all that was read."""
        left_flow = self._left_flow
        assert after <= reached, "a page ends before it begins"
        picked, left = self._pick(after, tasks, reached, room, self._left)
        self._left_flow = left_flow
        self._end(picked.reached, left)
        return picked

    def _pick(
        self,
        after: TaskKey,
        tasks: Sequence[StoredTask],
        reached: TaskKey,
        room: FlowRoom,
        left_before: Mapping[str, TaskKey],
    ) -> tuple[Picked, dict[str, TaskKey]]:
        """Return what is taken, and after which key an ordering id leaves its rows."""
        taken: list[StoredTask] = []
        left: dict[str, TaskKey] = {}
        last, gap = after, None
        self._left_flow = None
        for task in tasks:
            key = task.key
            assert last < key <= reached, "a page is in key order"
            ordering_id = key.ordering_id
            if ordering_id in left or ordering_id in left_before:
                continue
            if not self.has_in_memory(key):
                if room.is_full:
                    reached = last
                    break
                if not room.take(task):
                    left[ordering_id] = last
                    if gap is None:
                        gap, self._left_flow = last, room.flow_of(task)
                    continue
                taken.append(task)
            last = key
        return Picked(taken, reached if gap is None else gap, reached), left

    def _end(self, reached: TaskKey, left: Mapping[str, TaskKey]) -> None:
        assert reached >= self.checkpoint.key, "a page begins where the search ends"
        self.checkpoint.end_load(reached)
        # Memory may have been lowered while the page was read.
        reached = self.checkpoint.key
        for ordering_id, last in left.items():
            if ordering_id not in self._left:
                self.size_bytes += ORDERING_ID_BYTES + len(ordering_id)
            self._left[ordering_id] = min(last, reached)
