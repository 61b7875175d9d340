"""The bytes, slots and tasks of flows that a node uses, and their limits.

A node has one budget of bytes. Half of it is for the windows, an equal share for each partition
that the node works on; a quarter is for records on their way from the log to the store, and one for
the known completions. Nothing else counts: roles report which tasks wait, run and end. Decides how
much of it is free; never drops anything itself. Only the dispatcher's thread uses it, except for
the records, so there is no lock; in Kafka-only storage each window has its owner's lock.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.settings import WindowSettings

MEMORY_BYTES_DEFAULT = 1 << 30
"""The budget if the machine's limit is unknown."""
COMPLETIONS_BYTES_MIN = 50_000
"""Bytes that the known completions of a partition may always hold: about a hundred of them."""
PAGE_BYTES_MAX = 16 * 2**20
"""Largest page of a read, less its last row."""


class PartitionBudget:
    """The bytes and slots of one partition's tasks, waiting and due, and its flows.

    An ordering id with slots belongs to one flow, that of the first of its tasks which got one.
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
        """True if kinds have rules; otherwise flows are not counted."""
        self._waiting_bytes = 0
        self._due_bytes = 0
        self._slots = 0
        self._reserved = 0
        """Slots for tasks that ordering ids are about to read."""
        self._ids_bytes = 0
        self._handed_bytes = 0
        """Bytes of records that an owner was handed and has not looked at; under its lock."""
        self._waiting: dict[str, tuple[int, int]] = {}
        """Tasks and bytes that wait for a slot, by flow."""
        self._waiting_tasks = 0
        """Number of waiting tasks of all flows."""
        self._by_id: dict[str, tuple[str, int]] = {}
        """The flow of an ordering id and its slots, if kinds have rules."""
        self._by_flow: defaultdict[str, int] = defaultdict(int)

    # The amounts in use, and the limits.

    @property
    def share_bytes(self) -> int:
        """Bytes that the partition may hold."""
        return self._node.share_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes that it holds."""
        tasks_bytes = self._waiting_bytes + self._due_bytes
        return tasks_bytes + self._ids_bytes + self._handed_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that it may hold in addition; negative if it holds too much."""
        return self._node.share_bytes - self.used_bytes

    @property
    def waiting_bytes(self) -> int:
        """Bytes of waiting tasks and records."""
        return self._waiting_bytes

    @property
    def due_bytes(self) -> int:
        """Bytes of due tasks: on their way to an ordering id, queued there, or running."""
        return self._due_bytes

    @property
    def ids_bytes(self) -> int:
        """Bytes of the ordering ids that have unread rows."""
        return self._ids_bytes

    @property
    def slots(self) -> int:
        """Number of due tasks with a slot."""
        return self._slots

    @property
    def slots_reserved(self) -> int:
        """Number of slots kept for tasks that ordering ids are about to read."""
        return self._reserved

    def queue_tasks_max(self, window: WindowSettings) -> int:
        """Return the most tasks that one ordering id may keep in memory behind the running one.

        Tasks that are left to the store must be read again, so that is half of the free slots if it
        is more than the setting; the other half is for other ids (P7).
        """
        is_crowded = 2 * self._due_bytes > self.share_bytes
        slots_free = 0 if is_crowded else window.slots - self._slots - self._reserved
        return max(window.ordering_queue_tasks_max, slots_free // 2)

    def page_bytes(self, pages: int = 1) -> int:
        """Return the size at which each of ``pages`` pages that are read together ends; a page has
        at least one row.
        """
        assert pages > 0, "memory is shared by those who read"
        return max(1, min(PAGE_BYTES_MAX, self.free_bytes // pages))

    # The amounts of single flows.

    def slots_of(self, flow: str) -> int:
        """Return the number of slots of a flow."""
        return self._by_flow.get(flow, 0)

    def tasks_of(self, flow: str) -> int:
        """Return the number of tasks of a flow that have a slot or wait for one."""
        return self._by_flow.get(flow, 0) + self._waiting.get(flow, (0, 0))[0]

    def waiting_bytes_of(self, flow: str) -> int:
        """Return the bytes of a flow's tasks that wait for a slot."""
        return self._waiting.get(flow, (0, 0))[1]

    @property
    def flow_tasks(self) -> int:
        """The number of tasks of all flows that have a slot or wait for one."""
        return self._slots + self._waiting_tasks

    # Changes of waiting tasks.

    def keep_waiting(self, size_bytes: int) -> None:
        """Add waiting bytes; a negative number removes them."""
        self._waiting_bytes += size_bytes
        assert self._waiting_bytes >= 0, "more is let go of than was taken"

    def wait_in(self, flow: str, tasks: int, size_bytes: int) -> None:
        """Add waiting tasks of a flow; negative numbers remove them."""
        assert self.has_flows, "tasks have flows where kinds have rules"
        tasks_before, bytes_before = self._waiting.get(flow, (0, 0))
        waiting = tasks_before + tasks, bytes_before + size_bytes
        assert min(waiting) >= 0, "more leaves than came"
        self._waiting_tasks += tasks
        if waiting[0]:
            self._waiting[flow] = waiting
        else:
            self._waiting.pop(flow, None)

    # Changes of due tasks.

    def run(self, tasks: Sequence[StoredTask], size_bytes: int | None = None) -> None:
        """Give due tasks a slot each; their bytes, ``size_bytes`` if known, count from now on."""
        if size_bytes is None:
            size_bytes = sum([task.size_bytes for task in tasks])
        self._slots += len(tasks)
        self._due_bytes += size_bytes

    def run_in(self, flow: str, ordering_id: str) -> None:
        """Note the flow of a task that gets a slot."""
        assert self.has_flows, "tasks have flows where kinds have rules"
        belongs, slots = self._by_id.get(ordering_id, (flow, 0))
        self._by_id[ordering_id] = belongs, slots + 1
        self._by_flow[belongs] += 1

    def release(self, tasks: Sequence[StoredTask]) -> None:
        """Release slots and bytes of due tasks that ended, or were left to the store."""
        self.resize(sum([task.size_bytes for task in tasks]), 0)
        if not self.has_flows:
            self.release_slots("", len(tasks))
            return
        for task in tasks:
            self.release_slots(task.key.ordering_id, 1)

    def release_slots(self, ordering_id: str, slots: int) -> None:
        """Take slots back from an id; a negative number means that it took slots by itself."""
        self._slots -= slots
        assert self._slots >= 0, "slots are given back that nobody took"
        if not slots or not self.has_flows:
            return
        flow, taken = self._by_id.get(ordering_id, ("", 0))
        assert taken >= slots, "slots are given back that nobody took"
        if taken == slots:
            del self._by_id[ordering_id]
        else:
            self._by_id[ordering_id] = flow, taken - slots
        self._by_flow[flow] -= slots
        assert self._by_flow[flow] >= 0, "a flow has the slots of its ids"
        if not self._by_flow[flow]:
            del self._by_flow[flow]

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """Note a changed size of due tasks."""
        self._due_bytes += after_bytes - before_bytes
        assert self._due_bytes >= 0, "bytes are let go of that nobody counted"

    def reserve(self, slots: int) -> None:
        """Reserve slots for tasks that are about to be read; a negative number releases them."""
        self._reserved += slots
        assert self._reserved >= 0, "slots are let go of that nobody reserved"

    # Changes of other bytes.

    def keep_ids(self, size_bytes: int) -> None:
        """Set the bytes of ordering ids that have unread rows."""
        assert size_bytes >= 0, "a number of bytes"
        self._ids_bytes = size_bytes

    def hand_over(self, size_bytes: int) -> None:
        """Count records that an owner was handed; the caller has its lock."""
        self._handed_bytes += size_bytes

    def take_over(self) -> None:
        """Stop counting the records that the owner was handed: it has looked at all of them."""
        self._handed_bytes = 0

    def end(self) -> None:
        """Release everything."""
        self._node.end(self)


class NodeBudget:
    """The bytes of one node."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes or MEMORY_BYTES_DEFAULT
        assert self.limit_bytes > 0, "a node holds something"
        self._polled_bytes = 0
        """Bytes of records given to the tree and not yet durable; under the node's lock."""
        self._partitions: dict[Hashable, PartitionBudget] = {}

    @property
    def polled_bytes(self) -> int:
        """Bytes of records on their way to the store."""
        return self._polled_bytes

    @property
    def polled_bytes_max(self) -> int:
        """Limit for the bytes of records on their way to the store, without the last poll's."""
        return self.limit_bytes // 4

    def completions_bytes_max(self, partition_count: int) -> int:
        """Return the limit of the known completions of each partition."""
        assert partition_count > 0, "a topic has partitions"
        return max(COMPLETIONS_BYTES_MIN, self.limit_bytes // (4 * partition_count))

    @property
    def share_bytes(self) -> int:
        """Limit for the window of each partition."""
        return self.limit_bytes // (2 * max(1, len(self._partitions)))

    @property
    def used_bytes(self) -> int:
        """Current bytes, for readers on any thread."""
        partitions = tuple(self._partitions.values())
        return sum(each.used_bytes for each in partitions) + self._polled_bytes

    def poll(self, size_bytes: int) -> None:
        """Count records that were given to the tree; a negative number removes durable ones."""
        self._polled_bytes += size_bytes
        assert self._polled_bytes >= 0, "more records are durable than were polled"

    def begin(self, partition: Hashable, *, has_flows: bool = False) -> PartitionBudget:
        """Return a budget for a new partition."""
        budget = PartitionBudget(self, partition, has_flows=has_flows)
        self._partitions[partition] = budget
        return budget

    def end(self, budget: PartitionBudget) -> None:
        """Release a partition's share for the others."""
        if self._partitions.get(budget.partition) is budget:
            del self._partitions[budget.partition]
