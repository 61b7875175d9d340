"""A small log in memory with transactions as Kafka has them, which may crash at every step.

A record of a transaction is there at once, but nobody reads it, nor what follows it, before the
transaction has ended; ``begin`` fences the owner before and ends what it left open.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum, auto

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.kafka_only.ports import Fenced, Outgoing, Refused

PENDING = "pending"
MARKERS = "markers"
AWAY_MS = 2_000


class Crash(Exception):
    """The process died here: nothing of it runs any more."""


class State(Enum):
    """What became of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Entry:
    """A record of the log, and the transaction it belongs to."""

    def __init__(self, record: LogRecord, transaction: "Transaction | None") -> None:
        self.record = record
        self.transaction = transaction

    @property
    def state(self) -> State:
        """A record without a transaction counts at once."""
        return State.COMMITTED if self.transaction is None else self.transaction.state


class Transaction:
    """What its owner did, once it is committed."""

    def __init__(self) -> None:
        self.state = State.OPEN
        self.committed_ms = 0


class MemoryLog:
    """Topics by name and partition; offsets of the group by partition."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.partitions: dict[tuple[str, int], list[Entry]] = defaultdict(list)
        self.committed: dict[int, int] = {}
        self.refusing: set[str] = set()
        self.record_bytes_max: dict[str, int] = {}
        """By topic; a larger record is refused."""
        self.away: set[str] = set()
        """Topics that take nothing, so that a transaction waits for them in vain."""
        self.away_until_ms: dict[str, int] = {}
        """When those that were waited for are tried again."""
        self.epochs: dict[int, int] = defaultdict(int)
        self.open: dict[int, Transaction] = {}

    def append(self, outgoing: Outgoing, transaction: Transaction | None = None) -> int:
        """Append a record; one without a partition goes to the first."""
        place = (outgoing.topic, outgoing.partition or 0)
        entries = self.partitions[place]
        record = LogRecord(
            place[1],
            len(entries),
            self.now_ms(),
            outgoing.key,
            outgoing.value,
            tuple(outgoing.headers),
        )
        entries.append(Entry(record, transaction))
        return record.offset

    def read(self, topic: str, partition: int, start: int) -> tuple[list[LogRecord], int]:
        """Return committed records from ``start`` on, and the next offset to read."""
        found = []
        entries = self.partitions[topic, partition]
        for entry in entries[start:]:
            if entry.state is State.OPEN:
                break
            start += 1
            if entry.state is State.COMMITTED:
                found.append(entry.record)
        return found, start

    def arrivals(self, topic: str) -> list[tuple[LogRecord, int]]:
        """Return what a reader of committed records has seen of a topic, and since when."""
        return [
            (entry.record, entry.transaction.committed_ms if entry.transaction else 0)
            for entry in self.partitions[topic, 0]
            if entry.state is State.COMMITTED
        ]


class MemoryTransactions:
    """``PartitionTransactions`` that ask ``step`` before everything they do."""

    def __init__(
        self, log: MemoryLog, partition: int, step: Callable[[str], None], *, marks: bool = True
    ) -> None:
        self._log = log
        self._partition = partition
        self._step = step
        self._epoch = 0
        self._marks = marks

    def begin(self) -> bytes | None:
        """Fence, end what is open, and read the last marker."""
        log, partition = self._log, self._partition
        self._step("before fencing")
        log.epochs[partition] += 1
        self._epoch = log.epochs[partition]
        if (left := log.open.pop(partition, None)) is not None:
            left.state = State.ABORTED
        self._step("after fencing")
        markers, _ = log.read(MARKERS, partition, 0)
        return markers[-1].value if markers else None

    def commit(self, outgoing: Sequence[Outgoing], next_offset: int, marker: bytes | None) -> None:
        """Produce, then commit; crash between any two of it."""
        self._check()
        transaction = self._log.open[self._partition] = Transaction()
        try:
            self._produce(transaction, outgoing, marker)
        except (Refused, Fenced):
            transaction.state = State.ABORTED
            raise
        self._check()
        self._step("before the commit")
        transaction.state = State.COMMITTED
        transaction.committed_ms = self._log.now_ms()
        if marker is None or next_offset % 3 == 0:
            # The group's offset may follow behind where there are markers.
            self._log.committed[self._partition] = next_offset
        del self._log.open[self._partition]
        self._step("after the commit")

    def close(self) -> None:
        """What is open stays so, as a dead process leaves it."""

    def _produce(
        self, transaction: Transaction, outgoing: Sequence[Outgoing], marker: bytes | None
    ) -> None:
        for number, each in enumerate(outgoing):
            self._step("before a record")
            self._check()
            if each.topic in self._log.refusing:
                raise Refused(number, f"topic {each.topic!r} does not exist")
            size_bytes = len(each.value or b"") + sum(len(v or b"") for _, v in each.headers)
            if size_bytes > self._log.record_bytes_max.get(each.topic, size_bytes):
                raise Refused(number, f"too large for {each.topic!r}")
            if each.topic in self._log.away:
                self._log.away_until_ms[each.topic] = self._log.now_ms() + AWAY_MS
                raise unknown(f"of {each.topic!r}")
            self._log.append(each, transaction)
        if marker is not None:
            self._step("before the marker")
            self._check()
            self._log.append(Outgoing(MARKERS, self._partition, b"", marker), transaction)

    def _check(self) -> None:
        if self._epoch != self._log.epochs[self._partition]:
            raise Fenced(f"partition {self._partition}")


def unknown(what: str) -> LogUnavailable:
    """Return the error of an answer that never came."""
    return LogUnavailable(f"no answer {what}")
