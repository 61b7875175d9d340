"""The log itself: partitions, dead letters, and one coordinator for each group.

It keeps records and says what is where; who may read them is the coordinator's matter.
"""

from bisect import bisect_left

from actors.model.codec import Headers, LogRecord
from actors.model.errors import LogUnavailable
from actors.ports.clock import Clock
from scheduler.adapters.memory.delivery import Deliver, at_once
from scheduler.adapters.memory.group import Coordinator

RECORD_BYTES_MAX = 1_000_000


class MemoryPartition:
    """The records of one partition, by offset."""

    def __init__(self, number: int) -> None:
        self.first_offset = 0
        self.end_offset = 0
        self._number = number
        self._offsets: list[int] = []
        self._records: list[LogRecord] = []

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int:
        """Append a record and return its offset."""
        offset = self.end_offset
        record = LogRecord(self._number, offset, timestamp_ms, key, value, tuple(headers))
        self._offsets.append(offset)
        self._records.append(record)
        self.end_offset += 1
        return offset

    def skip(self, count: int) -> None:
        """Leave a gap, as the control records of a transaction do."""
        self.end_offset += count

    def trim(self, before_offset: int) -> None:
        """Forget what lies before an offset, as retention does."""
        index = bisect_left(self._offsets, before_offset)
        del self._offsets[:index]
        del self._records[:index]
        self.first_offset = max(self.first_offset, min(before_offset, self.end_offset))

    def read(self, next_offset: int, limit: int) -> tuple[list[LogRecord], int]:
        """Return up to ``limit`` records from ``next_offset`` on, and the offset after them."""
        index = bisect_left(self._offsets, next_offset)
        records = self._records[index : index + limit]
        if len(records) < limit:
            return records, max(next_offset, self.end_offset)
        return records, records[-1].offset + 1


class MemoryBroker:
    """One topic of ``partition_count`` partitions, with its dead letters and its groups."""

    def __init__(
        self,
        partition_count: int,
        clock: Clock,
        deliver: Deliver = at_once,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        self.clock = clock
        self.deliver = deliver
        self.record_bytes_max = record_bytes_max
        self.partitions = [MemoryPartition(number) for number in range(partition_count)]
        self.dead_letters = MemoryPartition(0)
        self.refused: set[int] = set()
        """Partitions without a leader: nothing is appended to them or read from them."""
        self._groups: dict[str, Coordinator] = {}

    def check_leader(self, partition: int) -> None:
        """Raise LogUnavailable where a partition has no leader."""
        if partition in self.refused:
            raise LogUnavailable(f"partition {partition} has no leader; try again")

    def group(self, group_id: str) -> Coordinator:
        """Return the coordinator of a group, made when it is first asked for."""
        if group_id not in self._groups:
            self._groups[group_id] = Coordinator(len(self.partitions), self.clock)
        return self._groups[group_id]
