"""A group on a producer that the test reports for: which record failed, and who serves."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourhand.actors.model.values.errors import (
    HourhandError,
    LogUnavailable,
    NodeStopped,
    TaskTooLarge,
)
from hourhand.scheduler.adapters.kafka.serving import HELD_RECORDS_MAX, HOLD_MS, ServedProducer
from hourhand.scheduler.adapters.kafka.writer import KafkaGroup
from tests.unit.scheduler.adapters.memory.world import ManualClock
from tests.waiting import until

GONE = "no broker"


class Report:
    """What the driver says of a record."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        return self._value


class Driver:
    """Keeps records, and reports them when it is polled, or later; implements a ``Producer``."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.fields: list[tuple[Any, ...]] = []
        self.failing: Callable[[int], bool] = lambda number: False
        self.holds = False
        """Nothing is reported meanwhile."""
        self.refuses: KafkaError | None = None
        self.reporting = 0
        """Threads that are in a callback."""
        self.reported_together = 0
        self.has_died = False
        """A callback of a call has made another one on its thread."""
        self._calling: set[int] = set()
        self._room = room
        self._queue: deque[tuple[int, bytes, Any]] = deque()

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Any
    ) -> None:
        if self.refuses is not None:
            raise KafkaException(self.refuses)
        if len(self._queue) >= self._room:
            raise BufferError
        self._queue.append((len(self.fields), value, on_delivery))
        self.fields.append((topic, value, key, partition))

    def poll(self, timeout_s: float) -> int:
        self.has_died = self.has_died or threading.get_ident() in self._calling
        self._calling.add(threading.get_ident())
        try:
            return self._report()
        finally:
            self._calling.discard(threading.get_ident())

    def _report(self) -> int:
        while self._queue and not self.holds:
            number, value, delivered = self._queue.popleft()
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if self.failing(number) else None
            self.reporting += 1
            self.reported_together = max(self.reported_together, self.reporting)
            delivered(error, Report(value))
            self.reporting -= 1
        return 0

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return len(self._queue)

    def purge(self) -> None:
        self.holds, self.failing = False, lambda number: True

    def __len__(self) -> int:
        return len(self._queue)


def failure(error: KafkaError, topic: str) -> HourhandError:
    """Translate an error."""
    return LogUnavailable(f"{GONE}: {topic}: {error.name()}")


def refuse_large(key: bytes, value: bytes) -> None:
    """Allow 20,000 bytes."""
    if len(key) + len(value) > 20_000:
        raise TaskTooLarge("more than 20,000 bytes")


class World:
    """A group whose driver the test controls."""

    made: ClassVar[list["World"]] = []

    def __init__(self, driver: Driver, room_timeout_s: float = 60.0) -> None:
        self.driver = driver
        self.clock = ManualClock()
        made: Any = driver
        self.producer = ServedProducer(lambda: made, failure, room_timeout_s, self.clock)
        self.made.append(self)

    def group(self) -> KafkaGroup:
        return KafkaGroup(self.producer, "tasks", refuse_large, failure)

    def values(self) -> list[bytes]:
        """Return what the driver got."""
        return [value for _topic, value, _key, _partition in self.driver.fields]

    def filled(self, count: int) -> KafkaGroup:
        group = self.group()
        for number in range(count):
            group.append(f"id-{number % 3}", b"%d" % number)
        return group


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """End the thread that each producer has."""
    yield
    for world in World.made:
        world.producer.close(0.0)
    World.made.clear()


def test_the_driver_chooses_the_partition_by_the_ordering_id() -> None:
    """Its partitioner is Kafka's default rule."""
    world = World(Driver())

    assert world.filled(1).settle() == {}

    assert world.driver.fields == [("tasks", b"0", b"id-0", -1)]


def test_a_record_that_fails_in_the_middle_is_told_by_its_number() -> None:
    """The others are accepted."""
    driver = Driver()
    driver.failing = lambda number: number in {3, 77}
    world = World(driver)

    failures = world.filled(200).settle()

    assert sorted(failures) == [3, 77]
    assert all(GONE in str(error) for error in failures.values())


def test_of_records_with_the_same_bytes_as_many_are_told_as_failed() -> None:
    """Which of them it was makes no difference to anybody."""
    driver = Driver()
    driver.failing = lambda number: number in {1, 3}
    group = World(driver).group()
    for value in (b"same", b"same", b"other", b"same"):
        group.append("id", value)

    assert sorted(group.settle()) == [0, 1]


def test_a_record_that_is_too_large_has_no_number() -> None:
    """The caller hears of it at once."""
    driver = Driver()
    driver.failing = lambda number: number == 1
    group = World(driver).group()

    group.append("id", b"first")
    with pytest.raises(TaskTooLarge):
        group.append("id", b"x" * 19_999)
    group.append("id", b"second")

    assert [*group.settle()] == [1]


def test_a_record_that_the_driver_refuses_is_told() -> None:
    """At once where it does not wait for others, else by its number."""
    driver = Driver()
    group = World(driver).group()
    driver.refuses = KafkaError(KafkaError._UNKNOWN_TOPIC)

    with pytest.raises(LogUnavailable):
        group.append("id", b"alone")
    group.append("id", b"held")

    assert {number: str(error) for number, error in group.settle().items()} == {
        0: f"{GONE}: tasks: _UNKNOWN_TOPIC"
    }


def test_a_single_record_goes_after_those_that_are_held() -> None:
    """Of one key the order counts, whichever way its records came."""
    world = World(Driver())
    group = world.filled(3)

    world.producer.produce("tasks", b"single", b"id-1", 0, lambda _error, _message: None)

    assert world.values() == [b"0", b"1", b"2", b"single"]
    assert group.settle() == {}


def test_a_held_record_goes_when_it_has_waited_for_others() -> None:
    """Nobody appends any more, or waits."""
    world = World(Driver())
    world.filled(3)
    assert world.values() == [b"0"]

    world.clock.ms += HOLD_MS

    until(lambda: world.values() == [b"0", b"1", b"2"])


def test_a_large_record_waits_for_no_others() -> None:
    """It takes those that were held with it."""
    world = World(Driver())
    group = world.filled(2)
    large = b"x" * 10_000

    group.append("id", large)

    assert world.values() == [b"0", b"1", large]
    assert group.settle() == {}


def test_the_wait_for_room_begins_anew_with_every_record_that_went() -> None:
    """A log that is slow is not one that is gone."""
    driver = Driver(room=1)
    world = World(driver, room_timeout_s=0.015)
    group = world.filled(1)
    driver.holds = True
    for number in range(1, 6):
        group.append("id", b"%d" % number)
    looks = iter(range(1_000))
    poll = driver.poll

    def answer_every_other(timeout_s: float) -> int:
        driver.holds = next(looks) % 2 == 0
        answered = poll(timeout_s)
        driver.holds = True
        return answered

    driver.poll = answer_every_other  # type: ignore[method-assign]
    world.producer.hand_over()
    assert len(world.values()) == 6

    driver.poll, driver.holds = poll, False  # type: ignore[method-assign]
    assert group.settle() == {}


def test_records_of_a_slow_stream_wait_for_nothing() -> None:
    """Who comes after a pause goes at once."""
    world = World(Driver())
    group = world.group()
    for number in range(3):
        group.append("id", b"%d" % number)
        world.clock.ms += HOLD_MS

    assert world.values() == [b"0", b"1", b"2"]


def test_no_more_are_held_than_a_group_has() -> None:
    """The driver gets them, and the next one waits again."""
    world = World(Driver())
    world.filled(1 + HELD_RECORDS_MAX)
    assert len(world.values()) == 1

    world.group().append("id", b"next")

    assert len(world.values()) == 1 + HELD_RECORDS_MAX


def test_all_that_is_held_hears_that_the_driver_was_given_up() -> None:
    """And so does who hands it over; what the driver had fails with it."""
    world = World(Driver())
    group = world.filled(4)
    world.driver.refuses = KafkaError(KafkaError._FATAL)

    with pytest.raises(LogUnavailable):
        world.producer.hand_over()

    assert sorted(group.settle()) == [0, 1, 2, 3]


def test_what_a_close_has_no_room_for_is_refused() -> None:
    """The rest fails as what is unacknowledged does."""
    world = World(Driver(room=1))
    world.driver.holds = True
    group = world.filled(3)

    world.producer.close(0.0)

    assert [type(error) for _, error in sorted(group.settle().items())] == [
        LogUnavailable,
        NodeStopped,
        NodeStopped,
    ]


def test_a_full_queue_slows_the_caller_and_loses_nothing() -> None:
    """It serves acknowledgements until there is room."""
    world = World(Driver(room=7))

    assert world.filled(500).settle() == {}
    assert len(world.driver.fields) == 500


def test_a_queue_that_stays_full_is_a_log_that_is_gone() -> None:
    """The wait for room is bounded, and each record that waited hears of it."""
    world = World(Driver(room=2), room_timeout_s=0.0)
    world.driver.holds = True
    group = world.filled(5)

    with pytest.raises(LogUnavailable):
        world.producer.hand_over()

    world.driver.holds = False
    assert sorted(group.settle()) == [2, 3, 4]


def test_a_close_settles_what_a_log_that_is_gone_keeps() -> None:
    """And takes no more: a group that waits is not left waiting."""
    driver = Driver()
    driver.holds = True
    world = World(driver)
    group = world.filled(40)

    world.producer.close(0.0)

    assert sorted(group.settle()) == [*range(40)]
    with pytest.raises(NodeStopped):
        group.append("id", b"late")


def test_acknowledgements_are_served_by_one_thread_at_a_time() -> None:
    """Groups count without a lock of their own."""
    world = World(Driver())
    failures: list[object] = []
    threads = [
        threading.Thread(
            target=lambda: failures.extend(world.filled(300).settle() for _ in range(5))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == [{}] * 20
    assert world.driver.reported_together == 1


def test_a_callback_may_append_and_settle_itself() -> None:
    """As user code does that schedules on when a receipt arrives."""
    world = World(Driver())
    settled: list[object] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        settled.append(world.filled(120).settle())

    world.producer.produce("tasks", b"v", b"k", 0, delivered)
    world.producer.serve_until(lambda: bool(settled))

    assert settled == [{}]
    assert not world.driver.has_died


def test_a_callback_may_append_more_than_the_driver_has_room_for() -> None:
    """Its records wait for room, which other reports make meanwhile."""
    world = World(Driver(room=10))
    settled: list[object] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        settled.append(world.filled(120).settle())

    world.producer.produce("tasks", b"v", b"k", 0, delivered)
    world.producer.serve_until(lambda: bool(settled))

    assert settled == [{}]
    assert not world.driver.has_died
