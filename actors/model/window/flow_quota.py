"""The quota of a partition for further rows, and each flow's part of it.

A flow that has enough in memory leaves its further rows to the store, for a while. Decides when it
has enough, and when so much of it has left that a page of its rows is worth reading. Loads nothing.
"""

from collections import defaultdict

from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import PartitionBudget

FLOW_SHARE = 32
"""A flow leaves no rows below this part of the tasks that a partition may hold."""
FLOW_TASKS_MIN = 4
"""The same limit for a partition that may hold few."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def refill_share(partition: int) -> float:
    """Return the part of the free quota below which a flow's left rows are loaded: 1/4 to 3/4.

    Each partition has its own, spread evenly by multiples of the golden ratio (Knuth, The Art of
    Computer Programming, 6.4). A flow is used up equally fast in all partitions, so with one share
    for all they would load at the same time, and small flows would wait.
    """
    return 0.25 + partition * _GOLDEN_RATIO % 1 / 2


class FlowQuota:
    """The quota of a partition for further rows. A flow may use it while it holds less than is
    free, so that one flow alone leaves half (dynamic thresholds, as for slots), and always if it
    holds few tasks: a row that is left waits for all overdue rows before it.
    """

    def __init__(
        self,
        rules: FlowRules,
        budget: PartitionBudget,
        tasks_max: int,
        size_bytes: int,
        refill_share: float,
    ) -> None:
        """The quota is ``tasks_max`` tasks, minus those that the flows have, and ``size_bytes``
        more; a flow whose rows were left continues below ``refill_share`` of the free quota.
        """
        self._rules = rules
        self._budget = budget
        self._least = max(FLOW_TASKS_MIN, tasks_max // FLOW_SHARE)
        self._tasks = tasks_max - budget.flow_tasks
        self._bytes = size_bytes
        self._refill_share = refill_share
        self._taken: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._over_quota: set[str] = set()

    @property
    def is_full(self) -> bool:
        """True if no flow may take anything."""
        return self._tasks <= 0 or self._bytes <= 0

    def admit(self, task: StoredTask) -> bool:
        """Take a task in, unless its flow has enough; return True if it was taken."""
        assert not self.is_full, "the page ends where nothing more fits"
        if self.is_over_quota(task):
            return False
        taken = self._taken[self._rules.flow_of(task)]
        taken[0] += 1
        taken[1] += task.size_bytes
        self._tasks -= 1
        self._bytes -= task.size_bytes
        return True

    def is_over_quota(self, task: StoredTask) -> bool:
        """True if the flow of a task has its limit; then it gets no more of this quota, even if
        some of its tasks leave meanwhile.
        """
        flow = self._rules.flow_of(task)
        if flow in self._over_quota:
            return True
        tasks, size_bytes = self._taken[flow]
        tasks += self._budget.tasks_of(flow)
        size_bytes += self._budget.waiting_bytes_of(flow)
        if tasks < max(self._least, self._tasks) and size_bytes < self._bytes:
            return False
        self._over_quota.add(flow)
        return True

    def may_go_on(self, flow: str) -> bool:
        """True if a flow whose rows were left may have enough of them that a page is worth
        reading.
        """
        share = self._refill_share
        has_tasks = self._budget.tasks_of(flow) <= share * max(self._least, self._tasks)
        return has_tasks and self._budget.waiting_bytes_of(flow) <= share * self._bytes

    def flow_of(self, task: StoredTask) -> str:
        """Return the flow of a task."""
        return self._rules.flow_of(task)
