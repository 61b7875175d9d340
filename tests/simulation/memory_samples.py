"""Counts what each partition of a simulated node holds in memory.

It looks into the roles of the tree, and refuses counts that contradict each other.  How much may
be held is for ``invariants``.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from hourhand.actors.kernel.context import ActorContext
from hourhand.actors.model.task.row_text import data_of
from hourhand.actors.model.window.band import WaitingQueue
from hourhand.actors.ordering_executor import OrderingExecutor
from hourhand.actors.partition_executor import PartitionExecutor
from hourhand.actors.partition_scheduler import PartitionScheduler
from tests.simulation.history import Sampled


def sampled(contexts: Iterable[ActorContext], now_ms: float, node: str) -> list[Sampled]:
    """Return what each partition holds, in their order."""
    found: defaultdict[int, _Held] = defaultdict(_Held)
    for context in contexts:
        match actor := context.actor:
            case PartitionScheduler():
                held = found[actor._partition]
                held.slots = 0 if actor._budget is None else actor._budget.slots
                _check_flow_slots(actor)
                for band in actor._bands:
                    held.waiting += len(band.queue)
                    held.data_bytes += _data_bytes(band.queue)
            case PartitionExecutor():
                held = found[actor._ownership.partition]
                for ordering in actor._orderings.values():
                    held.add(ordering)
            case _:
                pass
    return [held.sampled(now_ms, node, p) for p, held in sorted(found.items())]


@dataclass
class _Held:
    """Findings about one partition."""

    waiting: int = 0
    queued_max: int = 0
    executing: int = 0
    slots: int = 0
    """The tasks that the scheduler counts as executing."""
    data_bytes: int = 0

    def add(self, ordering: OrderingExecutor) -> None:
        """Count what one ordering id holds."""
        run, unordered = ordering.run, ordering.unordered
        self.executing += ordering.front is not None
        self.executing += 0 if run is None else len(run)
        queues = [] if ordering.queue is None else [ordering.queue]
        if unordered is not None:
            self.executing += len(unordered._at_hand)
            queues += [of_kind.tasks for of_kind in unordered._kinds.values()]
        for tasks in queues:
            self.queued_max = max(self.queued_max, len(tasks))
            self.executing += len(tasks)
            self.data_bytes += _data_bytes(tasks)

    def sampled(self, now_ms: float, node: str, partition: int) -> Sampled:
        """Return it for the history."""
        uncounted = max(0, self.executing - self.slots)
        return Sampled(
            now_ms,
            node,
            partition,
            waiting=self.waiting,
            queued_max=self.queued_max,
            executing=self.executing,
            uncounted=uncounted,
            data_bytes=self.data_bytes,
        )


def _check_flow_slots(scheduler: PartitionScheduler) -> None:
    """Those of all flows are those of the partition, where nothing is under way."""
    budget = scheduler._budget
    if budget is not None and budget.has_flows:
        by_id = sum(held for _, held in budget._by_id.values())
        assert budget.slots == by_id == sum(budget._by_flow.values()), "slots went astray"
        waiting = sum(tasks for tasks, _ in budget._waiting.values())
        assert waiting == len(scheduler._bands), "tasks of flows went astray"
        assert budget.flow_tasks == waiting + by_id, "tasks of flows went astray"


def _data_bytes(queue: WaitingQueue) -> int:
    return sum(_data_bytes_of(task.body) for key in queue if (task := queue.find(key)))


@lru_cache(1_000)
def _data_bytes_of(body: bytes) -> int:
    """Return the bytes of a row's data; a task that waits is counted again and again."""
    return len(data_of(body))
