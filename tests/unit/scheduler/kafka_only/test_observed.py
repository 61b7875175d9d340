"""What a node of storage with Kafka alone tells of itself, and when it counts as working."""

import threading
from concurrent.futures import Future

from hourhand.actors.model.operations.events import LogCalled, MessageRelayed, TransactionCommitted
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.cli.bucket_running import Asking
from hourhand.scheduler.kafka_only.bucket_layout import encode_layout, first_layout
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message
from hourhand.scheduler.testing import RecordingTelemetry
from tests.unit.scheduler.kafka_only.bucket_world import BUCKETS, LETTERS, TARGET, BucketWorld
from tests.unit.scheduler.kafka_only.storage import MemoryAdmin
from tests.unit.scheduler.kafka_only.transactional_log import (
    PENDING,
    MemoryLog,
    MemoryTransactions,
    unknown,
)

WAIT_S = 60


def test_each_transaction_is_told_with_what_it_did() -> None:
    """Moved, passed on and put aside add up to the records that were produced."""
    world = BucketWorld(5, hazards=False)
    world.log.refusing.add("nowhere")
    world.send(500, topic="nowhere")
    for number in range(20):
        world.send(200 * number)
    world.run(10_000)

    told = world.telemetry.of(TransactionCommitted)
    relayed = len(world.telemetry.of(MessageRelayed))
    assert (relayed, sum(each.put_aside for each in told)) == (20, 1)
    moved = sum(each.moved for each in told)
    assert moved > 0, "those of far ahead come nearer step by step"
    assert sum(each.records for each in told) == moved + relayed + 1
    calls = [each for each in world.telemetry.of(LogCalled) if each.call == "transaction"]
    assert len(calls) == len(told) + 1, "one of them was refused for its message"
    assert [each.error for each in calls if each.error] == []


class OneOwner:
    """One partition's owner on its own thread; its first commit gets no answer."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.telemetry = RecordingTelemetry()
        self.log = MemoryLog(self.clock.now_ms)
        self.layout = first_layout(1_000, 2.0, BUCKETS)
        self.book = LayoutBook(MemoryAdmin(self.layout, BUCKETS), "layout")
        self.working: list[bool] = []
        self.told_begun = 0
        self.settled = threading.Event()
        self._commits = 0
        self.turns = threading.Lock()
        rules = BucketRules(PENDING, LETTERS, lambda topic: None, 100, 10_000, 1_000, 10_000_000)
        transactions = MemoryTransactions(self.log, 0, self._step)
        scanner = Scanner(
            Waiting(rules, NodeBudget().begin(0)), transactions, self.clock, self.telemetry
        )
        self.owner = Owner("owner", 0, scanner, self.book, self.clock, self.turns)

    def _step(self, where: str) -> None:
        if where == "before fencing":
            self.working.append(self.owner.has_begun)
        if where == "before the commit":
            self._commits += 1
            if self._commits == 1:
                raise unknown(where)
        if where == "after the commit":
            self.settled.set()

    def start(self) -> None:
        """Let it own its partition, from the beginning."""
        started: Future[StartPosition] = Future()
        started.set_result(StartPosition(0, 0))
        self.owner.start(lambda _partition, _stored: started, self._begun)

    def _begun(self) -> None:
        self.told_begun += 1

    def send(self) -> None:
        """Hand over a message that is due."""
        now_ms = self.clock.now_ms()
        envelope = Envelope(now_ms, 0, TARGET, "one")
        made = pending(PENDING, self.layout, envelope, Message(TARGET, None, b"v"), now_ms)
        self.log.append(made)
        records, reached = self.log.read(PENDING, 0, 0)
        self.owner.take(records, reached)

    def close(self) -> None:
        """End it."""
        self.owner.stop()
        self.owner.ended.result(WAIT_S)
        self.book.close()


def test_an_owner_whose_step_failed_does_not_count_as_working() -> None:
    """Until it has begun again; that its ownership began is told once."""
    one = OneOwner()
    one.start()
    one.send()
    assert one.settled.wait(WAIT_S)
    one.close()

    assert one.working == [False, False]
    assert one.told_begun == 1
    assert (one.owner.count, one.owner.overdue_ms()) == (0, 0)
    assert encode_layout(one.book.current) == encode_layout(one.layout)


def test_what_an_owner_holds_and_how_late_it_is_can_be_read() -> None:
    """By anybody, at any time."""
    one = OneOwner()
    one.send()

    assert one.owner.count == 1
    one.book.close()


def test_a_question_that_is_open_is_asked_once() -> None:
    """However many want the answer; the next one is asked again."""
    answers = threading.Event()
    asked = 0

    def question() -> int:
        nonlocal asked
        asked += 1
        answers.wait(WAIT_S)
        if asked > 1:
            raise LogUnavailable("the broker is away")
        return 4

    asking = Asking(question)
    first, second = asking.ask(), asking.ask()
    answers.set()

    assert first is second
    assert first.result(WAIT_S) == 4
    assert isinstance(asking.ask().exception(WAIT_S), LogUnavailable)
    assert asked == 2
