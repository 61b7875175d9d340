"""Nodes that own partitions of a log in memory, under a virtual clock, from one seed.

Nodes crash at any step of a transaction, lose answers, are replaced without being told, and know
of a split later than others.  What was sent is compared with what a reader of committed records
has seen.
"""

import random
from collections import Counter

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.kafka_only.bucket_layout import Layout, first_layout
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.ports import Fenced
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message
from hourhand.scheduler.testing import RecordingTelemetry
from tests.unit.scheduler.kafka_only.transactional_log import (
    PENDING,
    Crash,
    MemoryLog,
    MemoryTransactions,
    unknown,
)

TARGET = "target"
LETTERS = "letters"
BUCKETS = 5


class Owner:
    """One node's hold of one partition."""

    def __init__(self, world: "BucketWorld", partition: int) -> None:
        self._world = world
        self.partition = partition
        self.begun = False
        self._next_read = 0
        # Small windows and batches find more, where lateness is no matter.
        batch_max, held_max = (7, 30) if world.hazards else (100, 1_000)
        rules = BucketRules(
            PENDING,
            LETTERS,
            lambda topic: None,
            batch_max,
            10_000,
            held_max,
            10_000_000,
            lambda topic, _key: world.log.away_until_ms.get(topic),
        )
        self.waiting = Waiting(rules, world.memory.begin(object()))
        transactions = MemoryTransactions(world.log, partition, world.hazard)
        self._scanner = Scanner(self.waiting, transactions, world.clock, world.telemetry)

    def round(self, layout: Layout) -> None:
        """Begin, or read and take one step; a lost answer makes it begin again."""
        try:
            if not self.begun:
                self._scanner.begin(self._start)
                self.begun = True
            if self.waiting.fullness < 1:
                records, reached = self._world.log.read(PENDING, self.partition, self._next_read)
                self._take(records, reached)
            self._scanner.step(layout)
        except LogUnavailable:
            self.begun = False

    def _start(self, marker: Marker | None) -> StartPosition:
        stored = 0 if marker is None else marker.next_offset
        self._next_read = max(stored, self._world.log.committed.get(self.partition, 0))
        return StartPosition(self._next_read, self._next_read, "the topic")

    def _take(self, records: list[LogRecord], reached: int) -> None:
        few = records[: self._world.rng.randrange(10, 40)]
        reached = reached if len(few) == len(records) else few[-1].offset + 1
        self.waiting.take(few, reached)
        self._next_read = reached


class BucketWorld:
    """Nodes, log and clock."""

    def __init__(self, seed: int, *, hazards: bool = True) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock(1_000_000)
        self.telemetry = RecordingTelemetry()
        self.log = MemoryLog(self.clock.now_ms)
        self.layout = first_layout(1_000, 2.0, BUCKETS)
        self.hazards = hazards
        # About twenty messages a partition, where hazards are looked for.
        self.memory = NodeBudget(60_000 if hazards else None)
        self.sent: dict[bytes, int] = {}
        self.crashes = 0
        self._owners: list[Owner] = []
        for partition in range(BUCKETS):
            self.assign(partition)

    def hazard(self, where: str) -> None:
        """Maybe die here, or lose an answer."""
        if not self.hazards or self.rng.random() > 0.02:
            return
        self.crashes += 1
        if self.rng.random() < 0.5:
            raise Crash(where)
        raise unknown(where)

    def assign(self, partition: int) -> None:
        """Give a partition to a new owner; the one before may go on, unaware, for a while."""
        before = [each for each in self._owners if each.partition == partition]
        if self.rng.random() < 0.5:
            self._owners = [each for each in self._owners if each not in before]
            for owner in before:
                owner.waiting.budget.end()
        self._owners.append(Owner(self, partition))

    def send(
        self,
        delay_ms: int,
        key: bytes | None = None,
        topic: str = TARGET,
        headers: Headers = (),
    ) -> bytes:
        """Let a message wait, placed by a layout that may be out of date."""
        number = len(self.sent)
        value = b"%06d" % number
        now_ms = self.clock.now_ms()
        envelope = Envelope(now_ms + delay_ms, 0, topic, value.decode())
        known = self.layout.within(self.rng.choice((BUCKETS, 1_000)))
        self.log.append(
            pending(PENDING, known, envelope, Message(topic, key, value, tuple(headers)), now_ms)
        )
        self.sent[value] = envelope.due_ms
        return value

    def split(self) -> None:
        """Split some bucket while everything runs."""
        partition = 1 + max(p for bucket in self.layout.buckets for p in bucket.partitions)
        index = self.rng.randrange(len(self.layout.buckets))
        self.layout = self.layout.split(index, partition, self.clock.now_ms())
        self.assign(partition)

    def run(self, virtual_ms: int) -> None:
        """Let time pass, with whatever happens."""
        end_ms = self.clock.now_ms() + virtual_ms
        while self.clock.now_ms() < end_ms:
            # Where nothing goes wrong there is less to be found between two moments.
            self.clock.advance(self.rng.choice((1, 5, 20, 60) if self.hazards else (20, 60)))
            for owner in self.rng.sample(self._owners, len(self._owners)):
                self._round(owner)
            if self.hazards and self.rng.random() < 0.01:
                self.assign(self.rng.choice(self._owners).partition)

    def _round(self, owner: Owner) -> None:
        try:
            owner.round(self.layout)
        except (Fenced, Crash):
            self._owners.remove(owner)
            owner.waiting.budget.end()
            if all(each.partition != owner.partition for each in self._owners):
                self.assign(owner.partition)

    def judge(self) -> None:
        """Nothing lost, nothing doubled, nothing early."""
        seen = Counter(record.value for record, _ in self.log.arrivals(TARGET))
        missing = [value for value in self.sent if value not in seen]
        assert not missing, f"lost: {missing[:5]} of {len(missing)}"
        doubled = [value for value, count in seen.items() if count > 1]
        assert not doubled, f"doubled: {doubled[:5]} of {len(doubled)}"
        for record, committed_ms in self.log.arrivals(TARGET):
            assert record.value is not None
            assert committed_ms >= self.sent[record.value], f"early: {record.value!r}"
