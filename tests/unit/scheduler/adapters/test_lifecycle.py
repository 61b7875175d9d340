"""The feed of lifecycle events: told first, then written, and nobody waits in between."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.events import AttemptStarted, RetriesExhausted, TaskClosed
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult, CompletionResult
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.lifecycle import LifecycleFeed
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.ports.lifecycle import LifecycleKind
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task, decode_event

TOPIC = "events"
WRITE_TIME = 7


class HeldMessages:
    """A topic that acknowledges when it is told to."""

    def __init__(self) -> None:
        self.produced: list[tuple[bytes, bytes]] = []
        self.unanswered: list[Future[None]] = []
        self.closed = False
        self.broken = False

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Keep the message, unacknowledged."""
        assert (topic, headers) == (TOPIC, ())
        assert key is not None
        assert value is not None
        if self.broken:
            raise LogUnavailable("no room")
        self.produced.append((key, value))
        self.unanswered.append(Future())
        return self.unanswered[-1]

    def close(self) -> None:
        """Note it."""
        self.closed = True


@pytest.fixture
def topic() -> HeldMessages:
    """The topic of a test."""
    return HeldMessages()


@pytest.fixture
def feed(topic: HeldMessages) -> LifecycleFeed:
    """A feed into it."""
    return LifecycleFeed(topic, TOPIC, VirtualClock(NOW_MS))


@pytest.fixture
def stores(feed: LifecycleFeed) -> Stores:
    """Stores whose writes are published."""
    return feed.publishing(open_memory_stores(MemoryStores()))


def test_nothing_is_written_before_its_event_is_acknowledged(
    stores: Stores, topic: HeldMessages
) -> None:
    """What was told and not written is told again; the other way round it would be lost."""
    rows = [a_stored_task(uniqueness_key=name) for name in "ab"]

    writing = stores.schedule.insert_tasks(3, rows, WRITE_TIME)

    topic.unanswered[0].set_result(None)
    assert not writing.done()
    assert stores.schedule.find_tasks(3, [rows[0].key]).result(30) == {}
    topic.unanswered[1].set_result(None)
    writing.result(30)
    assert stores.schedule.find_tasks(3, [rows[0].key]).result(30) == {rows[0].key: rows[0]}
    assert [key for key, _ in topic.produced] == [b"customer-7"] * 2
    assert {decode_event(value).event for _, value in topic.produced} == {LifecycleKind.ACCEPTED}


def _insert_completion(stores: Stores) -> "Future[None]":
    return stores.status.insert_completions(3, [a_completion()], WRITE_TIME)


def _insert_attempt(stores: Stores) -> "Future[None]":
    record = AttemptRecord(a_key(), 1, AttemptResult.FAILURE, NOW_MS, NOW_MS)
    return stores.status.insert_attempts(3, [record], WRITE_TIME)


@pytest.mark.parametrize("insert", [_insert_completion, _insert_attempt])
def test_a_topic_that_fails_looks_like_a_store_that_does(
    stores: Stores, topic: HeldMessages, insert: "Callable[[Stores], Future[None]]"
) -> None:
    """The engine knows what to do then: it repeats what was not durable."""
    writing = insert(stores)

    topic.unanswered[0].set_exception(LogUnavailable("down"))

    assert isinstance(writing.exception(30), LogUnavailable)
    assert stores.status.find_completions(3, [a_key()]).result(30) == {}
    assert stores.status.find_attempts(3, [a_key()]).result(30) == []


def test_attempts_that_only_began_are_written_at_once(stores: Stores, topic: HeldMessages) -> None:
    """There is nothing to tell."""
    record = AttemptRecord(a_key(), 1, AttemptResult.STARTED, NOW_MS)

    stores.status.insert_attempts(3, [record], WRITE_TIME).result(30)

    assert topic.produced == []


def test_starts_are_told_and_nobody_waits(feed: LifecycleFeed, topic: HeldMessages) -> None:
    """Each is an event of its own, also of an attempt that begins a second time."""
    feed.emit(AttemptStarted(3, a_key(), 1, 5))
    feed.emit(AttemptStarted(3, a_key(), 1, 5))
    feed.emit(TaskClosed(3, a_key(), CompletionResult.SUCCESS))
    feed.emit(RetriesExhausted(3, a_key(), "skip"))
    feed.emit(RetriesExhausted(3, a_key(), "block"))

    told = [decode_event(value) for _, value in topic.produced]
    assert [each.event.value for each in told] == ["started", "started", "blocked"]
    assert len({each.id for each in told}) == 3


def test_a_start_that_cannot_be_told_fails_nobody(feed: LifecycleFeed, topic: HeldMessages) -> None:
    """The contract of the port."""
    topic.broken = True

    feed.emit(AttemptStarted(3, a_key(), 1, 5))

    assert topic.produced == []


def test_closing_the_stores_closes_the_feed(stores: Stores, topic: HeldMessages) -> None:
    """A node closes its stores and knows of nothing else."""
    stores.close()

    assert topic.closed
