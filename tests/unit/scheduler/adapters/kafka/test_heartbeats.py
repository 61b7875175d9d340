"""The driver is woken a few times for each heartbeat, and never waited for."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from scheduler.adapters.kafka.heartbeats import HeartbeatWaker


class _Driver:
    """Counts what a consumer is asked."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._refusal = refusal

    def commit(self, **asked: Any) -> None:
        """Take a commit."""
        self.asked.append(asked)
        if self._refusal:
            raise self._refusal


@pytest.mark.parametrize("poll_ms", [1, 20, 50])
def test_it_wakes_four_times_for_each_heartbeat(poll_ms: int) -> None:
    """However often the member polls; a poll that comes late makes up for nothing."""
    driver = _Driver()
    waker = HeartbeatWaker(driver, 250)

    for now_ms in range(0, 10_000, poll_ms):
        waker.polled(float(now_ms))

    assert 100 <= len(driver.asked) <= 160
    assert all(asked == {"offsets": [], "asynchronous": True} for asked in driver.asked)


def test_what_the_driver_refuses_ends_no_poll() -> None:
    """A member that is about to end has nobody to wake."""
    waker = HeartbeatWaker(_Driver(KafkaException(KafkaError(KafkaError._STATE))), 250)

    waker.polled(0.0)
