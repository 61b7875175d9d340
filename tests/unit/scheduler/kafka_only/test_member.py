"""A member of the pending topic's group: what it tells of ownership, and of its failures."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.model.operations.events import (
    AssignmentReceived,
    OwnerBegan,
    PartitionLost,
    PartitionRevoked,
)
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.member import Member
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.ports import HeldLog, PartitionTransactions
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.testing import RecordingTelemetry
from tests.unit.scheduler.kafka_only.bucket_world import BUCKETS, LETTERS
from tests.unit.scheduler.kafka_only.storage import MemoryAdmin
from tests.unit.scheduler.kafka_only.transactional_log import PENDING, MemoryLog, MemoryTransactions
from tests.waiting import until

WAIT_S = 60


class QuietLog:
    """A ``HeldLog`` without records that gives partitions 0 and 1, and fails as it is told to."""

    def __init__(self, log: MemoryLog, failing: "threading.Event") -> None:
        self._log = log
        self._failing = failing
        self.listener: AssignmentListener | None = None
        self._news = threading.Event()
        """Of an empty poll; nobody tells it, so it ends as a real one does."""
        self._gives = [0, 1]
        self.takes: list[int] = []
        self.loses: list[int] = []
        self.given_up: list[Future[Mapping[int, int]]] = []

    def subscribe(self, listener: AssignmentListener) -> None:
        """Give partitions with the next poll."""
        self.listener = listener

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin where it was left."""
        del partition
        return StartPosition(stored_next_offset or 0, 0)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Tell of ownership, or fail."""
        del records_max
        assert self.listener is not None
        if self._failing.is_set():
            self._failing.clear()
            raise LogUnavailable("the broker is away")
        given, self._gives = self._gives, []
        taken, self.takes = self.takes, []
        lost, self.loses = self.loses, []
        if given:
            self.listener.assigned(given)
        if taken:
            self.given_up.append(self.listener.revoking(taken))
        if lost:
            self.listener.lost(lost)
        self._news.wait(min(timeout_ms, 5) / 1000)
        return Polled()

    def hold(self, partition: int) -> None:
        """There is nothing to hold."""

    def release(self, partition: int) -> None:
        """There is nothing to release."""

    def transactions(self, partition: int) -> PartitionTransactions:
        """Return those of a partition."""
        return MemoryTransactions(self._log, partition, lambda _where: None)

    def close(self) -> None:
        """Leave."""


class World:
    """One member."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.turns = threading.Lock()
        self.telemetry = RecordingTelemetry()
        self.failing = threading.Event()
        self._log = MemoryLog(self.clock.now_ms)
        self.opened: list[QuietLog] = []
        self.failures: list[str | None] = []
        """What the member said of itself whenever it opened its log again."""
        layout = first_layout(1_000, 2.0, BUCKETS)
        self.book = LayoutBook(MemoryAdmin(layout, BUCKETS), "layout")
        self.member = Member("member", self._open, self._own, self.clock, self.telemetry, 10**6)

    def _open(self) -> HeldLog:
        if self.opened:
            self.failures.append(self.member.failure)
        self.opened.append(QuietLog(self._log, self.failing))
        return self.opened[-1]

    def _own(self, log: HeldLog, partition: int) -> Owner:
        rules = BucketRules(PENDING, LETTERS, lambda topic: None, 100, 10_000, 1_000, 10_000_000)
        transactions = log.transactions(partition)
        scanner = Scanner(
            Waiting(rules, NodeBudget().begin(0)), transactions, self.clock, self.telemetry
        )
        return Owner(f"owner-{partition}", partition, scanner, self.book, self.clock, self.turns)

    def told(self, kind: type[Any]) -> list[int]:
        """Return the partitions that events of a kind are about."""
        return sorted(event.partition for event in self.telemetry.of(kind))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A member that works."""
    monkeypatch.setattr("hourhand.scheduler.kafka_only.member.FAILED_PAUSE_S", 0.01)
    world = World()
    world.member.start()
    yield world
    world.member.stop()
    world.book.close()


def test_ownership_is_told_from_the_groups_word_to_its_end(world: World) -> None:
    """Given, begun, given up or lost."""
    until(lambda: world.told(OwnerBegan) == [0, 1])
    assert world.told(AssignmentReceived) == [0, 1]
    assert all(each.has_begun for each in world.member.owners.values())
    assert all(each.waited_ms >= 0 for each in world.telemetry.of(OwnerBegan))

    world.opened[0].takes = [0]
    until(lambda: world.told(PartitionRevoked) == [0])
    until(lambda: all(each.done() for each in world.opened[0].given_up))
    world.opened[0].loses = [1]
    until(lambda: world.told(PartitionLost) == [1])
    assert not world.member.owners


def test_a_round_that_failed_is_told_until_one_succeeds(world: World) -> None:
    """The log is opened again, and its partitions begin again."""
    until(lambda: world.told(OwnerBegan) == [0, 1])
    world.failing.set()
    until(lambda: world.told(OwnerBegan) == [0, 0, 1, 1])

    assert world.failures == ["the broker is away"]
    assert world.member.failure is None
