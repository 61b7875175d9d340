"""Where a partition begins and ends, asked of a broker that has not settled yet."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourhand.actors.model.values.errors import LogUnavailable, TopicMissing
from hourhand.scheduler.adapters.kafka.connection import LastError, bounds_of
from hourhand.scheduler.configuration.settings import KafkaSettings, Settings


class Asked:
    """A consumer whose broker answers with these errors first; it notes what it is asked."""

    def __init__(self, *errors: int) -> None:
        self._errors = list(errors)
        self.looks = 0
        self.passed_s: list[float] = []

    def get_watermark_offsets(self, _partition: Any, timeout: float) -> tuple[int, int]:
        """Answer as the driver does."""
        assert timeout > 0
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop(0)))
        return 3, 9

    def list_topics(self, _topic: str, timeout: float) -> None:
        """Look for the leader."""
        assert timeout > 0
        self.looks += 1


def _bounds(consumer: Asked, timeout_ms: int = 1_000) -> tuple[int, int]:
    settings = Settings(kafka=KafkaSettings(connect_timeout_ms=timeout_ms))
    return bounds_of(consumer, settings, "in-topic", 0, LastError(), wait=consumer.passed_s.append)


def test_a_leader_that_is_being_chosen_is_waited_for() -> None:
    """A topic that was made a moment ago has none yet, as far as the driver knows."""
    consumer = Asked(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)

    assert _bounds(consumer) == (3, 9)
    assert consumer.looks == len(consumer.passed_s) == 2


def test_a_leader_that_never_comes_is_an_error() -> None:
    """After the time that a connection may take."""
    consumer = Asked(*[KafkaError.LEADER_NOT_AVAILABLE] * 100)

    with pytest.raises(LogUnavailable, match="'in-topic'"):
        _bounds(consumer, timeout_ms=200)


def test_whoever_must_not_wait_says_so() -> None:
    """Where reading begins is asked for by the thread that keeps the lease, too."""
    consumer = Asked(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 100)
    settings = Settings(kafka=KafkaSettings(connect_timeout_ms=60_000))

    with pytest.raises(LogUnavailable):
        bounds_of(consumer, settings, "in-topic", 0, LastError(), 0.2, consumer.passed_s.append)
    assert consumer.looks == 1


def test_any_other_error_is_told_at_once() -> None:
    """Nothing is asked twice."""
    consumer = Asked(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(LogUnavailable):
        _bounds(consumer)
    assert consumer.looks == 0


def test_a_topic_that_is_missing_is_named() -> None:
    """The one that was asked for, whichever the task topic is."""
    with pytest.raises(TopicMissing, match="topic 'in-topic'"):
        _bounds(Asked(KafkaError.UNKNOWN_TOPIC_OR_PART))
