"""``BucketStorage`` in memory, as far as clients and splits need it."""

from collections.abc import Mapping
from concurrent.futures import Future

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.ports.log import Position
from hourhand.scheduler.kafka_only.bucket_layout import Layout, decode_layout, encode_layout
from hourhand.scheduler.kafka_only.ports import BucketAdmin, HeldLog, Outgoing, PendingWriter


class MemoryAdmin:
    """Keeps what was published; implements ``BucketAdmin``."""

    def __init__(self, layout: Layout | None, partitions: int) -> None:
        self.published = None if layout is None else encode_layout(layout)
        self.partitions = partitions
        self.waiting: dict[int, int] = {}
        self.delay_covered_ms = 60_000
        self.closed = False

    def delay_ms_max(self) -> int:
        """Return what the test set."""
        return self.delay_covered_ms

    def layout(self) -> bytes | None:
        """Return the last one published."""
        return self.published

    def partition_count(self) -> int:
        """Return how many there are."""
        return self.partitions

    def occupancy(self) -> Mapping[int, int]:
        """Return what the test set."""
        return self.waiting

    def add_partition(self) -> int:
        """Add one."""
        self.partitions += 1
        return self.partitions

    def close(self) -> None:
        """Take note."""
        self.closed = True

    def announce(self, record: Outgoing) -> bool:
        """Publish, as the first partition's owner would."""
        assert record.value is not None
        decode_layout(record.value)
        self.published = record.value
        return True


class MemoryPendingWriter:
    """Keeps what was appended; implements ``PendingWriter``."""

    def __init__(self) -> None:
        self.appended: list[Outgoing] = []
        self.known = 1_000
        self.closed = False

    def append_message(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[Position]":
        """Append at once."""
        self.appended.append(Outgoing("pending", partition, key, value, headers))
        done: Future[Position] = Future()
        done.set_result(Position(partition, len(self.appended) - 1))
        return done

    def knows(self, partition: int) -> bool:
        """True if it is below what the test set."""
        return partition < self.known

    def close(self) -> None:
        """Take note."""
        self.closed = True


class MemoryBuckets:
    """Implements ``BucketStorage`` for clients."""

    def __init__(self, layout: Layout | None, partitions: int) -> None:
        self.admins = MemoryAdmin(layout, partitions)
        self.writers = MemoryPendingWriter()

    def admin(self) -> BucketAdmin:
        """Return the one there is."""
        return self.admins

    def writer(self) -> PendingWriter:
        """Return the one there is."""
        return self.writers

    def away_until_ms(self, topic: str, key: bytes | None) -> int | None:
        """Return None: every target takes everything."""
        del topic, key
        return None

    def pending_log(self) -> HeldLog:
        """Clients read nothing."""
        raise NotImplementedError

    def in_log(self) -> HeldLog:
        """Clients read nothing."""
        raise NotImplementedError
