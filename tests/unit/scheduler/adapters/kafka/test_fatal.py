"""A producer that the driver gave up for good, on the driver's mock broker: it is replaced."""

from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import LogUnavailable, NodeStopped
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.writer import KafkaMessages, KafkaWriter
from hourhand.scheduler.configuration.settings import KafkaSettings, Settings
from hourhand.scheduler.runtime.light_future import LightFuture
from tests.garbage import cyclic_garbage
from tests.servers.mock_broker import MockBroker

ANSWER_S = 60.0


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    """A broker that answers as the test says."""
    with MockBroker() as broker:
        yield broker


@pytest.fixture
def writer(broker: MockBroker) -> Iterator[KafkaMessages]:
    """A writer of every kind: tasks, dead letters, messages, groups."""
    kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    writer = KafkaMessages(Settings(log="kafka", kafka=kafka), SystemClock())
    yield writer
    writer.close()


def append(writer: KafkaWriter) -> "Future[Position]":
    """Append a record that any broker would take."""
    return writer.append(0, b"id", b"{}")


def test_p1_after_a_fatal_error_records_are_accepted_again(
    broker: MockBroker, writer: KafkaMessages
) -> None:
    """What was under way fails, and the error does not say that it was not stored."""
    append(writer).result(ANSWER_S)
    broker.lose_tail()

    failure = append(writer).exception(ANSWER_S)

    assert isinstance(failure, LogUnavailable)
    assert "may be stored or not; schedule it again" in str(failure)
    append(writer).result(ANSWER_S)


def test_after_a_fatal_error_letters_messages_and_groups_are_accepted_again(
    broker: MockBroker, writer: KafkaMessages
) -> None:
    """They share one rule, as they share one producer."""
    broker.lose_tail()
    letter = LogRecord(0, 7, 0, b"key", b"value", ())
    writer.dead_letter(letter, "poison").exception(ANSWER_S)

    writer.dead_letter(letter, "poison").result(ANSWER_S)
    writer.produce("target", b"key", b"value", ()).result(ANSWER_S)
    group = writer.begin_group()
    group.append("id", b"{}")

    assert group.settle() == {}


def test_a_fatal_error_fails_every_record_that_was_under_way(
    broker: MockBroker, writer: KafkaMessages
) -> None:
    """A future that nobody resolves would be waited for for ever."""
    append(writer).result(ANSWER_S)
    broker.lose_tail()

    futures = [append(writer) for _ in range(2_000)]

    assert not wait(futures, ANSWER_S).not_done
    assert any(future.exception() for future in futures)


def test_a_group_that_meets_a_fatal_error_is_told_of_it(
    broker: MockBroker, writer: KafkaMessages
) -> None:
    """It waits for reports, which the given up driver still makes."""
    append(writer).result(ANSWER_S)
    broker.lose_tail()
    group = writer.begin_group()
    group.append("id", b"{}")

    failures = group.settle()

    assert [type(error) for error in failures.values()] == [LogUnavailable]


def test_a_broker_that_refuses_every_producer_is_not_stormed(
    broker: MockBroker, writer: KafkaMessages, caplog: pytest.LogCaptureFixture
) -> None:
    """Producers that last no time are opened with growing pauses, which fail records at once."""
    broker.lose_tail(requests=1_000)
    enough = 300

    failures = [append(writer).exception(ANSWER_S) for _ in range(enough)]

    assert all(isinstance(failure, LogUnavailable) for failure in failures)
    given_up = [record for record in caplog.records if "gave up" in record.message]
    assert len(given_up) < enough / 10


def test_a_refused_record_leaves_nothing_to_the_collector(
    broker: MockBroker, writer: KafkaMessages
) -> None:
    """A refusal that nobody asks for is told when its future is gone, which must not take long."""
    with cyclic_garbage() as found:
        broker.lose_tail(requests=1_000)
        failures = {_failure_of_one(writer) for _ in range(20)}
        writer.close()
        failures.add(_failure_of_one(writer))

    assert failures == {LogUnavailable, NodeStopped}
    assert found["LightFuture"] == 0


def _failure_of_one(writer: KafkaWriter) -> type[BaseException | None]:
    future = LightFuture[Position]()
    writer.append_for(future, 0, b"id", b"{}")
    return type(future.exception(ANSWER_S))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_that_raises_leaves_the_polling_thread_alone(
    writer: KafkaMessages, error: type[BaseException]
) -> None:
    """It reports the records of everybody."""

    def fail(_done: "Future[Position]") -> None:
        raise error("from a callback")

    first = append(writer)
    first.add_done_callback(fail)
    first.result(ANSWER_S)

    append(writer).result(ANSWER_S)
