"""Under the consumer protocol a lease counts from a heartbeat that a broker took, and from no
other moment; whatever breaks the proof gives none.
"""

import json
import math
from dataclasses import dataclass, field

import pytest

from hourhand.scheduler.adapters.kafka import heartbeats
from hourhand.scheduler.adapters.kafka.heartbeats import HeartbeatLease
from hourhand.scheduler.configuration.settings import GroupSettings

GROUP = GroupSettings(protocol="consumer", session_timeout_ms=10_000, lease_margin_ms=1_000)
REACH_MS = 9_000
BOOT_MS = 1_000_000.0
"""How far the clock that counts suspension is ahead when a member is opened."""


@dataclass
class World:
    """A driver that counts, and both clocks, moved by hand."""

    time_ms: float = 100.0
    """By the driver's clock."""
    suspended_ms: float = 0.0
    heartbeats: int = 0
    commits: int = 0
    connection: tuple[int, int] = (1, 0)
    told: bool = True
    lease: HeartbeatLease = field(init=False)

    def __post_init__(self) -> None:
        self.lease = HeartbeatLease(GROUP, self)
        self.lease.polled(self.monotonic_ms())

    def now_ms(self) -> int:
        """Return no wall clock."""
        raise AssertionError("nobody asks for it")

    def monotonic_ms(self) -> float:
        """Return the clock that counts suspension."""
        return self.time_ms + BOOT_MS + self.suspended_ms

    def sample(self) -> str:
        """Return statistics as of now, a moment later."""
        self.time_ms += 1
        shown = {"OffsetCommit": self.commits} if self.told else {}
        counted = {
            "connects": self.connection[0],
            "disconnects": self.connection[1],
            "tx": self.commits + self.heartbeats + 3,
            "req": {"Metadata": 3, **shown},
        }
        ts = round(self.time_ms * 1000)
        return json.dumps({"ts": ts, "brokers": {"GroupCoordinator": counted, "b/1": {}}})

    def observe(self) -> float:
        """Hand statistics over and return when they were taken, by the clock."""
        statistics = self.sample()
        taken_ms = self.monotonic_ms()
        self.time_ms += 1
        self.lease.polled(self.monotonic_ms())
        self.lease.observe(statistics)
        return taken_ms

    def commit(self) -> float:
        """Send a commit and return when."""
        self.time_ms += 1
        self.commits += 1
        return self.monotonic_ms()

    def accept(self, sent_ms: float) -> None:
        """Hand an answer over."""
        self.time_ms += 1
        self.lease.accepted(sent_ms)

    @property
    def ends_ms(self) -> float:
        """When the lease ends."""
        return self.lease.ends_ms


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world whose driver's clock the lease reads."""
    made: list[World] = []
    monkeypatch.setattr(heartbeats, "driver_ms", lambda: made[0].time_ms if made else 100.0)
    made.append(World())
    return made[0]


def heard(world: World) -> float:
    """Have a heartbeat sent between two statistics; return when the first were taken."""
    taken_ms = world.observe()
    world.heartbeats += 1
    world.observe()
    return taken_ms


def test_it_counts_from_the_statistics_before_a_heartbeat(world: World) -> None:
    """Which a commit followed, whose answer statistics of the same connection followed."""
    before_ms = heard(world)
    world.accept(world.commit())
    assert world.ends_ms == -math.inf

    world.observe()

    assert world.ends_ms == pytest.approx(before_ms + REACH_MS)


def test_a_commit_without_a_heartbeat_proves_nothing(world: World) -> None:
    """It keeps no session under this protocol."""
    world.observe()
    world.observe()
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == -math.inf


def test_a_commit_that_was_sent_before_the_heartbeat_was_known_proves_nothing(
    world: World,
) -> None:
    """The broker may have taken it first."""
    sent_ms = world.commit()
    heard(world)
    world.accept(sent_ms)
    world.observe()

    assert world.ends_ms == -math.inf


def test_a_connection_that_broke_in_between_proves_nothing(world: World) -> None:
    """The heartbeat went down with it, and the commit was sent again on the next one."""
    heard(world)
    sent_ms = world.commit()
    world.connection = (2, 1)
    world.accept(sent_ms)
    world.observe()

    assert world.ends_ms == -math.inf


def test_heartbeats_of_two_connections_are_not_compared(world: World) -> None:
    """What was sent on the old one may never have come."""
    world.observe()
    world.connection = (2, 1)
    world.heartbeats += 1
    world.observe()
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == -math.inf


def test_statistics_from_before_the_answer_confirm_nothing(world: World) -> None:
    """They tell of the connection as it was."""
    heard(world)
    sent_ms = world.commit()
    statistics = world.sample()
    world.accept(sent_ms)

    world.lease.observe(statistics)

    assert world.ends_ms == -math.inf


def test_a_heartbeat_from_before_a_suspension_counts_no_more(world: World) -> None:
    """The driver's clock stood still, and the session went on."""
    heard(world)
    world.suspended_ms += 8_000
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == -math.inf


def test_statistics_from_before_a_suspension_are_dropped(world: World) -> None:
    """They wait for a poll while the machine sleeps."""
    statistics = world.sample()
    world.suspended_ms += 8_000
    world.time_ms += 1
    world.lease.polled(world.monotonic_ms())
    world.lease.observe(statistics)
    world.heartbeats += 1
    world.observe()
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == -math.inf


def test_after_a_suspension_it_comes_back(world: World) -> None:
    """By a heartbeat that was sent since."""
    world.suspended_ms += 8_000
    world.lease.polled(world.monotonic_ms())
    before_ms = heard(world)
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == pytest.approx(before_ms + REACH_MS)


def test_an_ended_one_comes_back_only_by_another_heartbeat(world: World) -> None:
    """The one before was sent by a membership that is gone."""
    heard(world)
    world.lease.end()
    world.accept(world.commit())
    world.observe()
    assert world.ends_ms == -math.inf

    before_ms = heard(world)
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == pytest.approx(before_ms + REACH_MS)


def test_a_driver_that_does_not_tell_gives_no_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version may count otherwise; it is said once."""
    world.told = False
    heard(world)
    world.accept(world.commit())
    world.observe()

    assert world.ends_ms == -math.inf
    assert caplog.text.count("set it to classic") == 1
