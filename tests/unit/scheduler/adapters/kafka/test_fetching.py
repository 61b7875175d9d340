"""Fetching: what comes before a partition has begun waits for it, bounded."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from hourhand.scheduler.adapters.kafka.fetching import Fetching


class Message:
    """One record of a partition, as the driver hands it over."""

    def __init__(self, partition: int, offset: int, value: bytes = b"v") -> None:
        self._partition, self._offset, self._value = partition, offset, value

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value

    def key(self) -> bytes:
        return b"k"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None

    def error(self) -> None:
        return None


class Driver:
    """Hands over what the test puts in; notes what it is told to fetch."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[tuple[Any, ...]] = []
        self.refuses = False

    def consume(self, records_max: int, _timeout_s: float) -> list[Message]:
        some, self.messages = self.messages[:records_max], self.messages[records_max:]
        return some

    def seek(self, target: TopicPartition) -> None:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.calls.append(("seek", target.partition, target.offset))

    def resume(self, targets: list[TopicPartition]) -> None:
        self.calls += [("resume", target.partition) for target in targets]

    def pause(self, targets: list[TopicPartition]) -> None:
        self.calls += [("pause", target.partition) for target in targets]


class Case:
    """What is fetched by a driver in the test's hand."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.fetching = Fetching(self.driver, "topic")

    def fetch(self, *messages: Message) -> None:
        """Let these arrive."""
        self.driver.messages += messages
        self.fetching.fetch(1_000, 0.0, 0.0)

    def taken(self) -> list[int]:
        """Take what is delivered; return the offsets."""
        return [record.offset for record in self.fetching.take(1_000).records]


def test_what_came_before_the_beginning_is_delivered_after_it() -> None:
    """And nothing of it earlier; the driver is not told to fetch it again."""
    case = Case()
    case.fetching.expect(3, 7)
    case.fetch(Message(3, 7), Message(3, 8))
    before = case.taken()

    case.fetching.begin(3, 7)
    case.fetch(Message(3, 9))

    assert before == [] and case.taken() == [7, 8, 9]
    assert case.driver.calls == [("resume", 3), ("seek", 3, 7)]


def test_a_partition_that_begins_elsewhere_is_fetched_from_there() -> None:
    """The store knew better than the group."""
    case = Case()
    case.fetching.expect(3, 7)
    case.fetch(Message(3, 7), Message(3, 8))

    case.fetching.begin(3, 8)
    case.fetch(Message(3, 8))

    assert case.taken() == [8] and case.driver.calls[-1] == ("seek", 3, 8)


def test_a_driver_that_is_not_ready_is_asked_again() -> None:
    """It has not begun with a partition assigned a moment ago."""
    case = Case()
    case.driver.refuses = True
    case.fetching.expect(3, 7)
    case.driver.refuses = False
    case.fetching.expect(3, 7)
    case.fetching.expect(3, 7)
    case.fetch(Message(3, 7))

    case.fetching.begin(3, 7)

    assert case.taken() == [7]
    assert [call for call in case.driver.calls if call[0] == "seek"] == [("seek", 3, 7)]


@pytest.mark.parametrize(("records", "size_bytes"), [(501, 1), (3, 400_000)])
def test_too_much_is_let_go_and_fetched_again(records: int, size_bytes: int) -> None:
    """A store that does not answer must not fill the memory (P13)."""
    case = Case()
    case.fetching.expect(3, 0)
    case.fetch(*(Message(3, offset, b"v" * size_bytes) for offset in range(records)))
    paused = case.driver.calls[-1]
    case.fetch(Message(3, records))
    case.fetching.expect(3, 0)

    case.fetching.begin(3, 0)

    assert paused == ("pause", 3) and case.taken() == []
    assert case.driver.calls[-2:] == [("resume", 3), ("seek", 3, 0)]


def test_what_is_gone_is_not_delivered_when_it_comes_back() -> None:
    """Another owner read on meanwhile."""
    case = Case()
    case.fetching.expect(3, 7)
    case.fetch(Message(3, 7))
    case.fetching.forget((3,))

    case.fetching.begin(3, 7)

    assert case.taken() == [] and case.driver.calls[-1] == ("seek", 3, 7)


def test_what_begins_while_nothing_is_fetched_waits_with_the_others() -> None:
    """The tree has not answered what it was given."""
    case = Case()
    case.fetching.begin(0, 0)
    case.fetching.expect(3, 7)
    case.driver.messages += [Message(0, offset) for offset in range(1_000)]
    while not any(call[0] == "pause" for call in case.driver.calls):
        case.fetching.fetch_ahead(0.0)

    case.fetching.begin(3, 7)

    assert case.driver.calls[-1] == ("pause", 3)
