"""The log itself: partitions, dead letters, and one coordinator for each group.

It stores records, knows their places, and refuses large ones; the coordinator decides who may read
them.
"""

import zlib
from bisect import bisect_left

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable, TaskTooLarge
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.memory.delivery import Deliver, at_once
from hourhand.scheduler.adapters.memory.group import Coordinator

BATCH_BYTES_MAX = 1_048_588
"""A broker's default limit."""
_BATCH_HEAD_BYTES = 61
_RECORD_HEAD_BYTES = 21
_HEADER_HEAD_BYTES = 4


def encoded_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the approximate size of a batch with this one record, before compression."""
    size_bytes = _BATCH_HEAD_BYTES + _RECORD_HEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size_bytes += _HEADER_HEAD_BYTES + len(name.encode()) + len(content or b"")
    return size_bytes


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
        """Drop records before an offset, as retention does."""
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
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        """``batch_bytes_max`` is Kafka's ``message.max.bytes``, also for dead letters."""
        self.clock = clock
        self.deliver = deliver
        self.batch_bytes_max = batch_bytes_max
        self.partitions = [MemoryPartition(number) for number in range(partition_count)]
        self.dead_letters = MemoryPartition(0)
        self.refused: set[int] = set()
        """Partitions without a leader: nothing is appended to them or read from them."""
        self._groups: dict[str, Coordinator] = {}
        self._topics = 1

    @property
    def topic_id(self) -> str:
        """An id that differs for each incarnation of the topic."""
        return f"topic{self._topics}"

    def make_anew(self) -> None:
        """Delete the topic and make it again: its records are gone, and offsets begin at 0.

        The groups keep their committed offsets.
        """
        self._topics += 1
        self.partitions = [MemoryPartition(number) for number in range(len(self.partitions))]

    def check_leader(self, partition: int) -> None:
        """Raise LogUnavailable if a partition has no leader."""
        if partition in self.refused:
            raise LogUnavailable(f"partition {partition} has no leader; try again")

    def check_size(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Raise TaskTooLarge if a record is too large, also after its producer's compression."""
        size_bytes = encoded_bytes(key, value, headers)
        if size_bytes <= self.batch_bytes_max:
            return
        whole = b"".join((key or b"", value or b"", *(_flat(each) for each in headers)))
        packed_bytes = _BATCH_HEAD_BYTES + len(zlib.compress(whole, 1))
        if min(size_bytes, packed_bytes) > self.batch_bytes_max:
            raise TaskTooLarge(
                f"the record takes {size_bytes} bytes, compressed {packed_bytes}, and the log"
                f" allows {self.batch_bytes_max}"
            )

    def group(self, group_id: str) -> Coordinator:
        """Return the coordinator of a group, which is made at its first use."""
        if group_id not in self._groups:
            self._groups[group_id] = Coordinator(len(self.partitions), self.clock)
        return self._groups[group_id]


def _flat(header: tuple[str, bytes | None]) -> bytes:
    name, content = header
    return name.encode() + (content or b"")
