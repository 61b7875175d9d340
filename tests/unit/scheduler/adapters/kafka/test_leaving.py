"""A member whose partitions go lets go of them: before its driver closes, or as they are lost."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.adapters.kafka.log import KafkaLog
from hourhand.scheduler.configuration.settings import GroupSettings, Settings


class Driver:
    """Revokes what was assigned once it is polled after ``unsubscribe``."""

    def __init__(self, revoke: Callable[["Driver"], None]) -> None:
        self.calls: list[str] = []
        self._revoke = revoke
        self.named_for = 0
        """Polls after which the driver has left its group."""

    def memberid(self) -> str | None:
        return "name" if self.calls.count("poll") < self.named_for else None

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")

    def poll(self, _timeout_s: float) -> None:
        self.calls.append("poll")
        if self.calls.count("poll") == 2:
            self._revoke(self)

    def incremental_unassign(self, partitions: list[Any]) -> None:
        self.calls.append(f"let go of {[each.partition for each in partitions]}")

    def unassign(self) -> None:
        self.calls.append("let go of all")

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.parametrize(
    ("assignor", "let_go"),
    [("cooperative-sticky", "let go of [0, 3]"), ("range", "let go of all")],
)
def test_partitions_are_let_go_before_the_driver_closes(assignor: str, let_go: str) -> None:
    """The callback of a driver that is closing may wait for ever, holding the interpreter."""
    settings = Settings(log="kafka", group=GroupSettings.model_validate({"assignor": assignor}))
    log = KafkaLog(settings, VirtualClock())
    revoked = [TopicPartition(settings.topic.name, each) for each in (0, 3)]
    real, driver = log._consumer, Driver(lambda driver: log._on_revoke(driver, revoked))
    log._consumer = driver
    log._assigned = {0, 3}

    log.close()
    real.close()

    assert driver.calls == ["unsubscribe", "poll", "poll", let_go, "close"]


def test_a_member_without_partitions_closes_at_once() -> None:
    """It never subscribed, or holds none."""
    log = KafkaLog(Settings(log="kafka"), VirtualClock())
    real, driver = log._consumer, Driver(lambda _driver: None)
    log._consumer = driver

    log.close()
    real.close()

    assert driver.calls == ["unsubscribe", "close"]


@pytest.mark.parametrize(("named_for", "polls"), [(5, 5), (10_000, 102)])
def test_the_driver_is_closed_once_it_has_left_its_group(named_for: int, polls: int) -> None:
    """Told to close before, it may never leave: others wait until its session has expired.

    One that cannot leave, for its brokers are gone, is closed anyway.
    """
    settings = Settings(log="kafka")
    log = KafkaLog(settings, VirtualClock())
    revoked = [TopicPartition(settings.topic.name, 0)]
    real, driver = log._consumer, Driver(lambda driver: log._on_revoke(driver, revoked))
    driver.named_for = named_for
    log._consumer = driver
    log._assigned = {0}

    log.close()
    real.close()

    assert driver.calls.count("poll") == polls and driver.calls[-1] == "close"


class Heard:
    """Notes what it is told, and when the lease ended just then."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self.told: list[tuple[str, list[int], float]] = []

    def assigned(self, partitions: Sequence[int]) -> None:
        self.told.append(("assigned", list(partitions), self._log.lease_ends_ms()))

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        raise AssertionError(f"{partitions} are lost already: nothing may be committed")

    def lost(self, partitions: Sequence[int]) -> None:
        self.told.append(("lost", list(partitions), self._log.lease_ends_ms()))


def test_p3_a_member_that_lost_its_partitions_has_no_lease_when_it_says_so() -> None:
    """Another member owns them by now; a worker that asks the lease may begin no attempt."""
    settings = Settings(log="kafka", group=GroupSettings(assignor="cooperative-sticky"))
    clock = VirtualClock()
    log = KafkaLog(settings, clock)
    log._listener = heard = Heard(log)
    log._assigned = {0, 3}
    log._lease.polled(clock.monotonic_ms())
    log._lease.accepted(clock.monotonic_ms())
    driver = Driver(lambda _driver: None)

    before_ms = log.lease_ends_ms()
    log._on_lost(driver, [TopicPartition(settings.topic.name, each) for each in (0, 3)])
    log._consumer.close()

    assert before_ms > clock.monotonic_ms()
    assert heard.told == [("lost", [0, 3], -math.inf)]
    assert log.lease_ends_ms() == -math.inf
    assert driver.calls == ["let go of [0, 3]"]
