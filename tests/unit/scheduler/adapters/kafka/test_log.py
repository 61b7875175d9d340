"""How long polls wait for more records, and how often the driver is woken for its heartbeats."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourhand.scheduler.adapters.kafka.log import (
    FEW_WAIT_S,
    MANY_PER_S,
    MANY_WAIT_S,
    HeartbeatWaker,
    PollBatching,
)


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


def _after(
    batching: PollBatching, records_per_s: float, *, from_ms: float, polls: int = 40
) -> float:
    """Poll every 5 ms at a rate; return how long the next poll waits."""
    for number in range(polls):
        batching.note(int(records_per_s * 0.005), from_ms + 5.0 * number)
    return batching.wait_s


def test_a_poll_waits_for_more_where_many_records_come() -> None:
    """And hardly where few do, first of all, or once they come no longer."""
    batching = PollBatching()

    assert batching.wait_s == FEW_WAIT_S
    assert _after(batching, 2 * MANY_PER_S, from_ms=1_000.0) == MANY_WAIT_S
    assert _after(batching, MANY_PER_S / 5, from_ms=2_000.0) == FEW_WAIT_S


def test_a_record_after_a_pause_is_not_waited_with() -> None:
    """What came before the pause says nothing of what comes now."""
    batching = PollBatching()
    assert _after(batching, 2 * MANY_PER_S, from_ms=1_000.0) == MANY_WAIT_S

    batching.note(0, 6_000.0)
    assert batching.wait_s == FEW_WAIT_S
