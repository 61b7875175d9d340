"""How many bytes, slots and tasks of flows a node has at hand, and may have.

A node has one budget of bytes.  Half of it is for the windows, an equal share for each partition
the node works on; a quarter is for records on their way from the log to the store, and one for the
completions that are known.  Nothing else counts: roles say what waits, runs and ends.  Decides how
much of it is free; never drops anything itself.  All but the records is touched on the dispatcher's
thread alone, so there is no lock; in Kafka-only storage each window has its owner's lock.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from actors.model.settings import WindowSettings
from actors.model.task import StoredTask

MEMORY_BYTES_DEFAULT = 1 << 30
"""The budget where nobody says what the machine allows."""
COMPLETIONS_BYTES_MIN = 50_000
"""What the known completions of a partition may always hold: about a hundred of them."""
PAGE_BYTES_MAX = 16 * 2**20
"""Largest page of a read, less its last row."""


class PartitionBudget:
    """The bytes and slots that the tasks of one partition have, waiting and due, and its flows.

    An ordering id that has slots belongs to one flow, that of the first of its tasks which got one.
    """

    __slots__ = (
        "_by_flow",
        "_by_id",
        "_due_bytes",
        "_handed_bytes",
        "_ids_bytes",
        "_node",
        "_reserved",
        "_slots",
        "_waiting",
        "_waiting_bytes",
        "_waiting_tasks",
        "has_flows",
        "partition",
    )

    def __init__(self, node: "NodeBudget", partition: Hashable, *, has_flows: bool) -> None:
        self._node = node
        self.partition = partition
        self.has_flows = has_flows
        """Whether kinds have rules; where none has, no flow is counted."""
        self._waiting_bytes = 0
        self._due_bytes = 0
        self._slots = 0
        self._reserved = 0
        """Slots for tasks that ordering ids are about to read."""
        self._ids_bytes = 0
        self._handed_bytes = 0
        """Of records that an owner was handed and has not looked at; under its lock."""
        self._waiting: dict[str, tuple[int, int]] = {}
        """Tasks and bytes that wait for a slot, by flow."""
        self._waiting_tasks = 0
        """Of all flows."""
        self._by_id: dict[str, tuple[str, int]] = {}
        """The flow of an ordering id and its slots, where kinds have rules."""
        self._by_flow: defaultdict[str, int] = defaultdict(int)

    # How much there is.

    @property
    def share_bytes(self) -> int:
        """What the partition may hold."""
        return self._node.share_bytes

    @property
    def held_bytes(self) -> int:
        """What it holds."""
        tasks_bytes = self._waiting_bytes + self._due_bytes
        return tasks_bytes + self._ids_bytes + self._handed_bytes

    @property
    def free_bytes(self) -> int:
        """How much more it may hold; below 0 where it holds too much."""
        return self._node.share_bytes - self.held_bytes

    @property
    def waiting_bytes(self) -> int:
        """What tasks and records hold that wait."""
        return self._waiting_bytes

    @property
    def due_bytes(self) -> int:
        """What due tasks hold: on their way to an ordering id, queued there, or running."""
        return self._due_bytes

    @property
    def ids_bytes(self) -> int:
        """What the ordering ids hold that have unread rows."""
        return self._ids_bytes

    @property
    def slots(self) -> int:
        """How many due tasks have a slot."""
        return self._slots

    @property
    def slots_reserved(self) -> int:
        """How many slots are kept for tasks that ordering ids are about to read."""
        return self._reserved

    def queue_tasks_max(self, window: WindowSettings) -> int:
        """Return how many tasks one ordering id may keep in memory behind the one that runs.

        What is left to the store must be read again, so that is half of what nobody uses where it
        is more than the setting says; the other half is for other ids (P7).
        """
        is_crowded = 2 * self._due_bytes > self.share_bytes
        slots_free = 0 if is_crowded else window.slots - self._slots - self._reserved
        return max(window.ordering_queue_tasks_max, slots_free // 2)

    def page_bytes(self, pages: int = 1) -> int:
        """Return where each of so many pages that are read together ends: at least one row."""
        assert pages > 0, "memory is shared by those who read"
        return max(1, min(PAGE_BYTES_MAX, self.free_bytes // pages))

    # What each flow has.

    def slots_of(self, flow: str) -> int:
        """Return how many slots a flow has."""
        return self._by_flow.get(flow, 0)

    def tasks_of(self, flow: str) -> int:
        """Return how many tasks of a flow have a slot or wait for one."""
        return self._by_flow.get(flow, 0) + self._waiting.get(flow, (0, 0))[0]

    def waiting_bytes_of(self, flow: str) -> int:
        """Return what the tasks of a flow hold that wait for a slot."""
        return self._waiting.get(flow, (0, 0))[1]

    @property
    def flow_tasks(self) -> int:
        """How many tasks of all flows have a slot or wait for one."""
        return self._slots + self._waiting_tasks

    # What waits.

    def keep_waiting(self, size_bytes: int) -> None:
        """Count what came to wait; below zero what does no longer."""
        self._waiting_bytes += size_bytes
        assert self._waiting_bytes >= 0, "more is let go of than was taken"

    def wait_in(self, flow: str, tasks: int, size_bytes: int) -> None:
        """Count of which flow tasks are that came to wait; below zero such that do no longer."""
        assert self.has_flows, "tasks have flows where kinds have rules"
        tasks_before, bytes_before = self._waiting.get(flow, (0, 0))
        waiting = tasks_before + tasks, bytes_before + size_bytes
        assert min(waiting) >= 0, "more leaves than came"
        self._waiting_tasks += tasks
        if waiting[0]:
            self._waiting[flow] = waiting
        else:
            self._waiting.pop(flow, None)

    # What is due.

    def run(self, tasks: Sequence[StoredTask]) -> None:
        """Give due tasks a slot each; what they hold counts from now on."""
        self._slots += len(tasks)
        self._due_bytes += sum([task.held_bytes for task in tasks])

    def run_in(self, flow: str, ordering_id: str) -> None:
        """Count of which flow a task is that gets a slot."""
        assert self.has_flows, "tasks have flows where kinds have rules"
        belongs, slots = self._by_id.get(ordering_id, (flow, 0))
        self._by_id[ordering_id] = belongs, slots + 1
        self._by_flow[belongs] += 1

    def release(self, tasks: Sequence[StoredTask]) -> None:
        """Take back what due tasks have that ended, or that were left to the store."""
        self.resize(sum([task.held_bytes for task in tasks]), 0)
        if not self.has_flows:
            self.release_slots("", len(tasks))
            return
        for task in tasks:
            self.release_slots(task.key.ordering_id, 1)

    def release_slots(self, ordering_id: str, slots: int) -> None:
        """Take slots back from an id; below zero it has taken so many more by itself."""
        self._slots -= slots
        assert self._slots >= 0, "slots are given back that nobody took"
        if not slots or not self.has_flows:
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

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """Count that due tasks hold more or less than they did."""
        self._due_bytes += after_bytes - before_bytes
        assert self._due_bytes >= 0, "bytes are let go of that nobody counted"

    def reserve(self, slots: int) -> None:
        """Keep slots for tasks that are about to be read; below zero no longer."""
        self._reserved += slots
        assert self._reserved >= 0, "slots are let go of that nobody reserved"

    # What else takes bytes.

    def keep_ids(self, size_bytes: int) -> None:
        """Count what ordering ids hold that have unread rows, in place of what they held."""
        assert size_bytes >= 0, "a number of bytes"
        self._ids_bytes = size_bytes

    def hand_over(self, size_bytes: int) -> None:
        """Count records that an owner was handed; the caller has its lock."""
        self._handed_bytes += size_bytes

    def take_over(self) -> None:
        """Count no records that the owner was handed: it has looked at all of them."""
        self._handed_bytes = 0

    def end(self) -> None:
        """Hold nothing any more."""
        self._node.end(self)


class NodeBudget:
    """The bytes of one node."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes or MEMORY_BYTES_DEFAULT
        assert self.limit_bytes > 0, "a node holds something"
        self._polled_bytes = 0
        """Of records given to the tree and not yet durable; under the node's lock."""
        self._partitions: dict[Hashable, PartitionBudget] = {}

    @property
    def polled_bytes(self) -> int:
        """What records hold that are on their way to the store."""
        return self._polled_bytes

    @property
    def polled_bytes_max(self) -> int:
        """What records on their way to the store may hold, less the last poll's."""
        return self.limit_bytes // 4

    def completions_bytes_max(self, partition_count: int) -> int:
        """Return what the known completions of each of so many partitions may hold."""
        assert partition_count > 0, "a topic has partitions"
        return max(COMPLETIONS_BYTES_MIN, self.limit_bytes // (4 * partition_count))

    @property
    def share_bytes(self) -> int:
        """What the window of each partition may hold."""
        return self.limit_bytes // (2 * max(1, len(self._partitions)))

    @property
    def held_bytes(self) -> int:
        """What is held now, for those who look, from any thread."""
        partitions = tuple(self._partitions.values())
        return sum(each.held_bytes for each in partitions) + self._polled_bytes

    def poll(self, size_bytes: int) -> None:
        """Count records that were given to the tree; below zero such that are durable."""
        self._polled_bytes += size_bytes
        assert self._polled_bytes >= 0, "more records are durable than were polled"

    def begin(self, partition: Hashable, *, has_flows: bool = False) -> PartitionBudget:
        """Return what counts for a partition that is worked on from now on."""
        budget = PartitionBudget(self, partition, has_flows=has_flows)
        self._partitions[partition] = budget
        return budget

    def end(self, budget: PartitionBudget) -> None:
        """Give a partition's share to the others."""
        if self._partitions.get(budget.partition) is budget:
            del self._partitions[budget.partition]
