"""What a member reads while the bytes of its node are used up, and when it reads on."""

import threading
from collections.abc import Iterator

import pytest

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.member import Member
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.ports import HeldLog, PartitionTransactions
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message
from hourhand.scheduler.testing import RecordingTelemetry
from tests.unit.scheduler.kafka_only.bucket_world import BUCKETS, LETTERS
from tests.unit.scheduler.kafka_only.storage import MemoryAdmin
from tests.unit.scheduler.kafka_only.transactional_log import PENDING, MemoryLog, MemoryTransactions
from tests.waiting import until

LARGE, SMALL = 0, 1
LARGE_COUNT = 40
LARGE_BYTES = 20_000
BUDGET_BYTES = 8 * 10 * LARGE_BYTES
"""A share of ten large messages for four partitions, two of which are given."""


class ReadLog:
    """A ``HeldLog`` that delivers what is in memory, but of a partition that is held back."""

    def __init__(self, log: MemoryLog, holding: threading.Event) -> None:
        self._log = log
        self._holding = holding
        self._given = False
        self._news = threading.Event()
        """Of an empty poll; nobody tells it, so it ends as a real one does."""
        self._next: dict[int, int] = {}
        self._held: set[int] = set()
        self.holds: list[int] = []

    def subscribe(self, listener: AssignmentListener) -> None:
        """Give both partitions with the next poll."""
        self._listener = listener

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Deliver from there."""
        self._next[partition] = stored_next_offset or 0
        return StartPosition(self._next[partition], 0)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return what is there, of all partitions that are read."""
        if not self._given:
            self._given = True
            self._listener.assigned([LARGE, SMALL])
        records: list[LogRecord] = []
        reached: dict[int, int] = {}
        for partition in self._next.keys() - self._held:
            found, _ = self._log.read(PENDING, partition, self._next[partition])
            few = found[: records_max - len(records)]
            if few:
                self._next[partition] = reached[partition] = few[-1].offset + 1
                records += few
        if not records:
            self._news.wait(min(timeout_ms, 2) / 1000)
        return Polled(records, reached)

    def hold(self, partition: int) -> None:
        """Deliver nothing more of it."""
        self._held.add(partition)
        self.holds.append(partition)

    def release(self, partition: int) -> None:
        """Go on where it was held."""
        self._held.discard(partition)

    def transactions(self, partition: int) -> PartitionTransactions:
        """Return those of a partition; a large message goes when the test says so."""

        def step(_where: str) -> None:
            if partition == LARGE and _where == "before the commit":
                self._holding.wait(30)

        return MemoryTransactions(self._log, partition, step)

    def close(self) -> None:
        """Leave."""


class World:
    """One member, its node's budget, and what waits."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.log = MemoryLog(self.clock.now_ms)
        self.layout = first_layout(1_000, 2.0, BUCKETS)
        self.book = LayoutBook(MemoryAdmin(self.layout, BUCKETS), "layout")
        self.memory = NodeBudget(BUDGET_BYTES)
        for each in range(2):
            self.memory.begin(f"other {each}")
        self.turns = threading.Lock()
        self.released = threading.Event()
        self.most_bytes = 0
        self.reader = ReadLog(self.log, self.released)
        self.member = Member(
            "member",
            lambda: self.reader,
            self._own,
            self.clock,
            RecordingTelemetry(),
            4 * LARGE_BYTES,
        )

    def _own(self, log: HeldLog, partition: int) -> Owner:
        rules = BucketRules(PENDING, LETTERS, lambda topic: None, 100, 10**7, 1_000, 10**7)
        planner = Waiting(rules, self.memory.begin(object()))
        transactions = log.transactions(partition)
        scanner = Scanner(planner, transactions, self.clock, RecordingTelemetry())
        return Owner(f"owner-{partition}", partition, scanner, self.book, self.clock, self.turns)

    def wait_for(self, topic: str, partition: int, value: bytes) -> int:
        """Append what is due now; return its size."""
        now_ms = self.clock.now_ms()
        envelope = Envelope(now_ms, 0, topic, f"{len(self.log.partitions[PENDING, partition]):05d}")
        made = pending(PENDING, self.layout, envelope, Message(topic, b"k", value), now_ms)
        offset = self.log.append(type(made)(PENDING, partition, made.key, made.value, made.headers))
        return record_bytes(self.log.partitions[PENDING, partition][offset].record)


@pytest.fixture
def world() -> Iterator[World]:
    """A member that is not started."""
    world = World()
    yield world
    world.released.set()
    world.member.stop()
    world.book.close()


def test_p13_a_full_partition_is_read_no_further_until_its_messages_leave(world: World) -> None:
    """The other is read on; nothing is lost, and the order stays."""
    values = [b"%04d" % each + b"x" * LARGE_BYTES for each in range(LARGE_COUNT)]
    sizes = [world.wait_for("large", LARGE, value) for value in values]
    world.member.start()
    until(lambda: LARGE in world.reader.holds)
    used_bytes = world.memory.used_bytes

    world.wait_for("small", SMALL, b"small")
    until(lambda: len(world.log.arrivals("small")) == 1)
    assert not world.log.arrivals("large")
    assert SMALL not in world.reader.holds
    # A share, and the poll that filled it.
    assert used_bytes <= BUDGET_BYTES // 8 + 5 * max(sizes)

    world.released.set()
    until(lambda: len(world.log.arrivals("large")) == LARGE_COUNT)
    assert [record.value for record, _ in world.log.arrivals("large")] == values
    until(lambda: world.memory.used_bytes == 0)


def test_p13_what_an_owner_has_not_looked_at_counts_until_it_ends(world: World) -> None:
    """It is handed over while a step is under way; its share goes to the others afterwards."""
    owner = world._own(world.reader, SMALL)
    world.wait_for("small", SMALL, b"x" * 2 * LARGE_BYTES)
    records, reached = world.log.read(PENDING, SMALL, 0)

    handed_bytes = owner.take(records, reached)

    assert handed_bytes == world.memory.used_bytes == record_bytes(records[0])
    assert 0.15 < owner.fullness < 0.3
    owner._end()
    assert world.memory.used_bytes == 0
