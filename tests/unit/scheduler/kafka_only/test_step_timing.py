"""When an owner begins its next step, and whose turn it is."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing

import pytest

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.kafka_only.bucket_layout import MOVES_EARLY_MS, first_layout
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.step_timing import HURRY_MS, MOVE_GATHER_MS, SETTLE_MS, wait_ms
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message
from hourhand.scheduler.testing import RecordingTelemetry
from tests.unit.scheduler.kafka_only.bucket_world import BUCKETS, LETTERS, TARGET
from tests.unit.scheduler.kafka_only.storage import MemoryAdmin
from tests.unit.scheduler.kafka_only.transactional_log import PENDING, MemoryLog, MemoryTransactions
from tests.waiting import until

NOW_MS = 1_767_225_600_000
LONG_AGO_MS = 10_000.0
FAR_MS = 3_600_000
WAIT_S = 60


def test_nothing_to_do_is_waited_for_without_end() -> None:
    """Until something is handed over."""
    assert wait_ms(None, None, NOW_MS, LONG_AGO_MS, 100) is None


@pytest.mark.parametrize(
    ("next_in_ms", "due_in_ms", "since_step_ms", "expected_ms"),
    [
        (-50, FAR_MS, LONG_AGO_MS, 0),
        (70, FAR_MS, LONG_AGO_MS, 70),
        (-50, FAR_MS, 30.0, 70),
        (-50, None, 30.0, 70),
        (-50, HURRY_MS + 20, 30.0, 20),
        (-50, 0, 30.0, 0),
        (-50, 0, 1.0, SETTLE_MS - 1),
        (90, 90, 30.0, 90),
    ],
)
def test_what_is_due_soon_hurries_and_all_else_gathers_company(
    next_in_ms: int, due_in_ms: int | None, since_step_ms: float, expected_ms: float
) -> None:
    """But no step begins before the broker has ended the one before."""
    due_ms = None if due_in_ms is None else NOW_MS + int(due_in_ms)

    waits_ms = wait_ms(NOW_MS + next_in_ms, due_ms, NOW_MS, since_step_ms, 100.0)

    assert waits_ms == expected_ms


def test_messages_that_are_moved_in_time_may_gather_company() -> None:
    """One that is due as soon as it may rest no longer hurries only then."""
    assert MOVE_GATHER_MS + HURRY_MS <= MOVES_EARLY_MS


class OneOwner:
    """One partition's owner on its own thread."""

    def __init__(self, turns: threading.Lock) -> None:
        self.clock = SystemClock()
        self.log = MemoryLog(self.clock.now_ms)
        self.layout = first_layout(1_000, 2.0, BUCKETS)
        self.book = LayoutBook(MemoryAdmin(self.layout, BUCKETS), "layout")
        self._handed_over = -1
        rules = BucketRules(PENDING, LETTERS, lambda topic: None, 100, 10_000, 1_000, 10_000_000)
        transactions = MemoryTransactions(self.log, 0, lambda _where: None)
        scanner = Scanner(
            Waiting(rules, NodeBudget().begin(0)), transactions, self.clock, RecordingTelemetry()
        )
        self.owner = Owner("owner", 0, scanner, self.book, self.clock, turns)
        started: Future[StartPosition] = Future()
        started.set_result(StartPosition(0, 0))
        self.owner.start(lambda _partition, _stored: started)

    def hand_over(self, name: bytes, due_in_ms: int) -> None:
        """Hand over a message that may rest no longer, due so much later."""
        now_ms = self.clock.now_ms()
        envelope = Envelope(now_ms + due_in_ms, 0, TARGET, "origin")
        made = pending(PENDING, self.layout, envelope, Message(TARGET, None, name), now_ms)
        offset = self._handed_over = self._handed_over + 1
        long_ago_ms = now_ms - FAR_MS
        self.owner.take(
            [LogRecord(0, offset, long_ago_ms, made.key, made.value, tuple(made.headers))],
            offset + 1,
        )

    def passed_on(self) -> list[bytes | None]:
        """Return what reached its target."""
        return [record.value for record, _ in self.log.arrivals(TARGET)]

    def moved(self) -> list[bytes | None]:
        """Return what was moved to another bucket."""
        places = [each for topic, each in self.log.partitions if topic == PENDING]
        return [record.value for each in places for record in self.log.read(PENDING, each, 0)[0]]

    def close(self) -> None:
        """End it."""
        self.owner.stop()
        self.owner.ended.result(WAIT_S)
        self.book.close()


@pytest.fixture
def turns() -> threading.Lock:
    """What the owners of a node share."""
    return threading.Lock()


@pytest.fixture
def far(turns: threading.Lock) -> Iterator[OneOwner]:
    """An owner that moves messages."""
    with closing(OneOwner(turns)) as owner:
        yield owner


@pytest.fixture
def near(turns: threading.Lock) -> Iterator[OneOwner]:
    """An owner that passes messages on."""
    with closing(OneOwner(turns)) as owner:
        yield owner


def test_what_is_due_passes_while_somebody_else_has_the_turn(
    turns: threading.Lock, far: OneOwner, near: OneOwner
) -> None:
    """What is only to be moved waits for it."""
    with turns:
        far.hand_over(b"moved", FAR_MS)
        near.hand_over(b"due", 0)
        until(lambda: near.passed_on() == [b"due"])
        assert not far.moved()

    until(lambda: far.moved() == [b"moved"])
