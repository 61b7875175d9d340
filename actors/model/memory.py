"""How many bytes of tasks a node holds, and may hold: one budget, shared by its partitions.

Half of it is for the windows, an equal share for each partition the node works on; a quarter is
for records on their way from the log to the store, and one for the completions that are known.
Decides how much room there is; never drops anything itself.  All but the records is touched on
the dispatcher's thread alone, so there is no lock; in Kafka-only storage each window has its
owner's lock.
"""

from collections.abc import Hashable

from actors.model.flow_slots import FlowSlots
from actors.model.settings import WindowSettings

MEMORY_BYTES_DEFAULT = 1 << 30
"""The budget where nobody says what the machine allows."""
COMPLETIONS_BYTES_MIN = 50_000
"""What the known completions of a partition may always hold: about a hundred of them."""
PAGE_BYTES_MAX = 16 * 2**20
"""Largest page of a read, less its last row."""


class WindowMemory:
    """What one partition's tasks hold, waiting and with their ordering ids."""

    __slots__ = (
        "_node",
        "backlog_bytes",
        "executing_bytes",
        "flow_slots",
        "handed_bytes",
        "partition",
        "slots_taken",
        "waiting_bytes",
    )

    def __init__(self, node: "NodeMemory", partition: Hashable, *, has_flows: bool) -> None:
        self._node = node
        self.partition = partition
        self.waiting_bytes = 0
        self.executing_bytes = 0
        """Of tasks that are due: on their way to an ordering id, queued there, or running."""
        self.slots_taken = 0
        """By due tasks that ordering ids have, or are about to read."""
        self.backlog_bytes = 0
        """Of the ordering ids that have a backlog."""
        self.handed_bytes = 0
        """Of records that an owner was handed and has not looked at; under its lock."""
        self.flow_slots = FlowSlots() if has_flows else None
        """Which flows the slots of the partition are taken by; None where no kind has a rule."""

    @property
    def share_bytes(self) -> int:
        """What the partition may hold."""
        return self._node.share_bytes

    @property
    def room_bytes(self) -> int:
        """How much more it may hold; below 0 where it holds too much."""
        return self._node.share_bytes - self.held_bytes

    @property
    def held_bytes(self) -> int:
        """What it holds."""
        held_bytes = self.waiting_bytes + self.executing_bytes
        return held_bytes + self.backlog_bytes + self.handed_bytes

    def queue_tasks_max(self, window: WindowSettings) -> int:
        """Return how many tasks one ordering id may keep in memory behind the one that runs.

        What is left to the store must be read again, so that is half of what nobody uses where it
        is more than the setting says; the other half is for other ids (P7).
        """
        is_crowded = 2 * self.executing_bytes > self.share_bytes
        slots_free = 0 if is_crowded else window.slots - self.slots_taken
        return max(window.ordering_queue_tasks_max, slots_free // 2)

    def page_bytes(self, pages: int = 1) -> int:
        """Return where each of so many pages that are read together ends: at least one row."""
        assert pages > 0, "room is shared by those who read"
        return max(1, min(PAGE_BYTES_MAX, self.room_bytes // pages))

    def end(self) -> None:
        """Hold nothing any more."""
        self._node.end(self)


class NodeMemory:
    """The budget of one node."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes or MEMORY_BYTES_DEFAULT
        assert self.limit_bytes > 0, "a node holds something"
        self.polled_bytes = 0
        """Of records given to the tree and not yet durable; under the node's lock."""
        self._windows: dict[Hashable, WindowMemory] = {}

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
        return self.limit_bytes // (2 * max(1, len(self._windows)))

    @property
    def held_bytes(self) -> int:
        """What is held now, for those who look, from any thread."""
        windows = tuple(self._windows.values())
        held = sum(window.held_bytes for window in windows)
        return held + self.polled_bytes

    def begin(self, partition: Hashable, *, has_flows: bool = False) -> WindowMemory:
        """Return what counts for a partition that is worked on from now on."""
        window = WindowMemory(self, partition, has_flows=has_flows)
        self._windows[partition] = window
        return window

    def end(self, window: WindowMemory) -> None:
        """Give a partition's share to the others."""
        if self._windows.get(window.partition) is window:
            del self._windows[window.partition]
