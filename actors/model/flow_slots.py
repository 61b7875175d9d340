"""How many slots of a partition the tasks of each flow have, and how much of it waits in memory.

An ordering id that has slots belongs to one flow, that of the first of its tasks which got one.
Decides nothing: who hands tasks on asks how many a flow has.
"""

from collections import defaultdict


class FlowSlots:
    """Slots by ordering id and by flow; no I/O, no locks."""

    def __init__(self) -> None:
        self.tasks = 0
        """Of all flows, with a slot or waiting for one."""
        self._waiting: dict[str, tuple[int, int]] = {}
        """Tasks and bytes by flow."""
        self._by_id: dict[str, tuple[str, int]] = {}
        self._by_flow: defaultdict[str, int] = defaultdict(int)

    def of(self, flow: str) -> int:
        """Return how many slots a flow has."""
        return self._by_flow.get(flow, 0)

    def held_tasks(self, flow: str) -> int:
        """Return how many tasks of a flow have a slot or wait for one."""
        return self._by_flow.get(flow, 0) + self._waiting.get(flow, (0, 0))[0]

    def waiting_bytes(self, flow: str) -> int:
        """Return what the tasks of a flow hold that wait for a slot."""
        return self._waiting.get(flow, (0, 0))[1]

    def add_waiting(self, flow: str, tasks: int, size_bytes: int) -> None:
        """Count tasks that came to wait for a slot; below zero such that do no longer."""
        tasks_before, bytes_before = self._waiting.get(flow, (0, 0))
        waiting = tasks_before + tasks, bytes_before + size_bytes
        assert min(waiting) >= 0, "more leaves than came"
        self.tasks += tasks
        if waiting[0]:
            self._waiting[flow] = waiting
        else:
            self._waiting.pop(flow, None)

    def take(self, ordering_id: str, flow: str) -> None:
        """Give a slot to a task of an id."""
        assert ordering_id, "every task has an ordering id"
        belongs, slots = self._by_id.get(ordering_id, (flow, 0))
        self._by_id[ordering_id] = belongs, slots + 1
        self._by_flow[belongs] += 1
        self.tasks += 1

    def release(self, ordering_id: str, slots: int) -> None:
        """Take slots back from an id; below zero it has taken so many more by itself."""
        if not slots:
            return
        flow, held = self._by_id.get(ordering_id, ("", 0))
        assert held >= slots, "slots are given back that nobody took"
        if held == slots:
            del self._by_id[ordering_id]
        else:
            self._by_id[ordering_id] = flow, held - slots
        self._by_flow[flow] -= slots
        self.tasks -= slots
        assert self._by_flow[flow] >= 0, "a flow has the slots of its ids"
        if not self._by_flow[flow]:
            del self._by_flow[flow]
