"""The waiting tasks of a partition if kinds have rules: one queue for each flow.

An ordering id with tasks here belongs to one flow, that of the first of its tasks which came; its
later ones join them whatever their flow is, so that they leave in key order (P4). Decides which due
task leaves next: by the order of flows, without flows that have too many of the slots. Does not
know why a flow is slow.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Iterator

from hourhand.actors.model.flow.fair_order import FairOrder
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.model.window.task_queue import TaskQueue, fitting

SLOTS_PART = 2
"""A flow gets another slot while it has less than this part of the free ones: one flow alone leaves
two thirds of them free, and however many are stuck, some stay free (dynamic thresholds, Choudhury
and Hahne, 1998)."""


class _Flow:
    """The waiting tasks of one flow."""

    __slots__ = ("is_ready", "name", "priority", "queue", "weight")

    def __init__(self, name: str, priority: int, weight: float) -> None:
        self.name = name
        self.priority = priority
        self.weight = weight
        self.queue = TaskQueue()
        self.is_ready = False
        """True if it is in the order of flows, or kept out of it because it has too many
        slots."""


class _QueuedOrdering:
    """An ordering id with tasks here."""

    __slots__ = ("flow", "tasks")

    def __init__(self, flow: _Flow) -> None:
        self.flow = flow
        self.tasks = 0


class FlowQueues:
    """A ``TaskQueue`` for each flow, and the order between them; no I/O, no locks."""

    takes_turns = True
    """True if flows take turns: then due tasks do not leave in key order."""

    def __init__(self, rules: FlowRules, budget: PartitionBudget) -> None:
        self._rules = rules
        self._budget = budget
        self._flows: dict[str, _Flow] = {}
        self._orderings: dict[str, _QueuedOrdering] = {}
        self._firsts: list[tuple[TaskKey, str]] = []
        """A heap of the first keys of flows that are not ready, and of some that left."""
        self._order = FairOrder()
        self._over_limit: list[_Flow] = []
        """Ready flows that have too many slots."""
        self._count = 0
        self.size_bytes = 0
        """Bytes of the tasks in memory, by ``StoredTask.size_bytes``."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: TaskKey) -> bool:
        return self.find(key) is not None

    def __iter__(self) -> Iterator[TaskKey]:
        for flow in self._flows.values():
            yield from flow.queue

    def find(self, key: TaskKey) -> StoredTask | None:
        """Return the task of a key, if it is here."""
        ordering = self._orderings.get(key.ordering_id)
        return None if ordering is None else ordering.flow.queue.find(key)

    def first(self) -> TaskKey | None:
        """Return the first key of all flows."""
        return min(
            (key for flow in self._flows.values() if (key := flow.queue.first())), default=None
        )

    def first_after(self, now_ms: int) -> int | None:
        """Return the next time at which a flow without due tasks has one."""
        firsts = self._firsts
        while firsts:
            key, name = firsts[0]
            flow = self._flows.get(name)
            if flow is not None and flow.queue.first() == key and key.scheduled_ms > now_ms:
                return key.scheduled_ms
            if flow is not None and flow.queue.first() == key and not flow.is_ready:
                # It is due, and waits for a slot.
                return None
            heapq.heappop(firsts)
        return None

    def add(self, task: StoredTask) -> None:
        """Add a task, or merge it with the task of its key."""
        if self.update(task):
            return
        ordering_id = task.key.ordering_id
        ordering = self._orderings.get(ordering_id)
        if ordering is None:
            ordering = self._orderings[ordering_id] = _QueuedOrdering(self._flow_of(task))
        ordering.tasks += 1
        flow = ordering.flow
        flow.queue.add(task)
        self._count += 1
        self.size_bytes += task.size_bytes
        self._budget.wait_in(flow.name, 1, task.size_bytes)
        if not flow.is_ready and flow.queue.first() == task.key:
            heapq.heappush(self._firsts, (task.key, flow.name))

    def update(self, task: StoredTask) -> bool:
        """Replace a task by a later record of its key; return True if the key is here."""
        ordering = self._orderings.get(task.key.ordering_id)
        if ordering is None:
            return False
        assert ordering.tasks, "an id without tasks is let go of"
        queue = ordering.flow.queue
        before_bytes = queue.size_bytes
        is_here = queue.update(task)
        if grown_bytes := queue.size_bytes - before_bytes:
            self.size_bytes += grown_bytes
            self._budget.wait_in(ordering.flow.name, 0, grown_bytes)
        return is_here

    def remove(self, key: TaskKey) -> StoredTask | None:
        """Remove a key; return its task, if it was here."""
        ordering = self._orderings.get(key.ordering_id)
        task = None if ordering is None else ordering.flow.queue.remove(key)
        if ordering is not None and task is not None:
            self._discount(ordering, task)
            self._note_first(ordering.flow)
        return task

    def pop(self) -> StoredTask | None:
        """Remove a task and return it; those of one ordering id leave in key order."""
        for flow in self._flows.values():
            if (key := flow.queue.first()) is not None:
                return self.remove(key)
        return None

    def keep_first(self, tasks_max: int, bytes_max: int, tasks_min: int) -> list[TaskKey]:
        """Remove the latest tasks, as ``TaskQueue.keep_first`` does, of any flow."""
        assert tasks_min >= 0, "a number of tasks"
        assert tasks_max >= 0, "a number of tasks"
        tasks = sorted((t for f in self._flows.values() for t in f.queue.tasks()), key=_key_of)
        fit = fitting((task.size_bytes for task in tasks), bytes_max)
        kept = min(tasks_max, len(tasks), max(fit, tasks_min))
        kept_by_flow = Counter(self._orderings[t.key.ordering_id].flow.name for t in tasks[:kept])
        for flow in tuple(self._flows.values()):
            flow.queue.keep_first(kept_by_flow[flow.name], sys.maxsize, 0)
        for task in tasks[kept:]:
            self._discount(self._orderings[task.key.ordering_id], task)
        self._firsts.clear()
        for flow in self._flows.values():
            self._note_first(flow)
        assert self._count == kept, "what is counted is what is here"
        return [task.key for task in tasks[kept:]]

    # Due tasks leave in the order of flows.

    def begin_taking(self, now_ms: int) -> None:
        """Find the flows that have due tasks, before tasks are taken at that time."""
        firsts = self._firsts
        while firsts and firsts[0][0].scheduled_ms <= now_ms:
            key, name = heapq.heappop(firsts)
            flow = self._flows.get(name)
            if flow is not None and not flow.is_ready and flow.queue.first() == key:
                flow.is_ready = True
                self._enter(flow)
        over_limit, self._over_limit = self._over_limit, []
        for flow in over_limit:
            self._enter(flow)

    def take_due(self, now_ms: int, free_slots: int) -> StoredTask | None:
        """Give a slot to the next due task and return it; None if no flow with due tasks may have
        another slot.
        """
        assert free_slots > 0, "a task that leaves has a slot"
        while (name := self._order.pop()) is not None:
            flow = self._flows[name]
            key = flow.queue.first()
            if key is None or key.scheduled_ms > now_ms:
                self._rest(flow)
            elif SLOTS_PART * self._budget.slots_of(name) >= max(1, free_slots):
                self._over_limit.append(flow)
            else:
                task = flow.queue.pop()
                assert task is not None, "the first key has a task"
                self._order.count_start()
                self._budget.run_in(name, key.ordering_id)
                self._discount(self._orderings[key.ordering_id], task)
                following = flow.queue.first()
                if following is not None and following.scheduled_ms <= now_ms:
                    self._enter(flow)
                else:
                    self._rest(flow)
                return task
        return None

    def _flow_of(self, task: StoredTask) -> _Flow:
        name = self._rules.flow_of(task)
        flow = self._flows.get(name)
        if flow is None:
            weight = self._rules.weight_of(name)
            flow = self._flows[name] = _Flow(name, self._rules.priority_of(task), weight)
        return flow

    def _enter(self, flow: _Flow) -> None:
        self._order.enter(flow.name, flow.priority, flow.weight)

    def _rest(self, flow: _Flow) -> None:
        """Wait until the first task of a flow is due, or drop a flow without tasks."""
        assert flow.is_ready, "it was taken out of the order"
        flow.is_ready = False
        if not len(flow.queue):
            del self._flows[flow.name]
        self._note_first(flow)

    def _note_first(self, flow: _Flow) -> None:
        if (key := flow.queue.first()) is not None:
            heapq.heappush(self._firsts, (key, flow.name))

    def _discount(self, ordering: _QueuedOrdering, task: StoredTask) -> None:
        """Count a task that left its queue."""
        self._count -= 1
        self.size_bytes -= task.size_bytes
        assert self.size_bytes >= 0, "more is let go of than was taken"
        self._budget.wait_in(ordering.flow.name, -1, -task.size_bytes)
        ordering.tasks -= 1
        if not ordering.tasks:
            del self._orderings[task.key.ordering_id]
        flow = ordering.flow
        if not len(flow.queue) and not flow.is_ready:
            self._flows.pop(flow.name, None)


def _key_of(task: StoredTask) -> TaskKey:
    return task.key
