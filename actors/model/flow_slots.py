"""How many slots of a partition the tasks of each flow have.

An ordering id that has slots belongs to one flow, that of the first of its tasks which got one.
Decides nothing: who hands tasks on asks how many a flow has.
"""

from collections import defaultdict


class FlowSlots:
    """Slots by ordering id and by flow; no I/O, no locks."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[str, int]] = {}
        self._by_flow: defaultdict[str, int] = defaultdict(int)

    def of(self, flow: str) -> int:
        """Return how many slots a flow has."""
        return self._by_flow.get(flow, 0)

    def take(self, ordering_id: str, flow: str) -> None:
        """Give a slot to a task of an id."""
        assert ordering_id, "every task has an ordering id"
        belongs, slots = self._by_id.get(ordering_id, (flow, 0))
        self._by_id[ordering_id] = belongs, slots + 1
        self._by_flow[belongs] += 1

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
        assert self._by_flow[flow] >= 0, "a flow has the slots of its ids"
        if not self._by_flow[flow]:
            del self._by_flow[flow]
