"""Each answer renews the lease from the sending of its own commit, and of no other; how far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, TopicPartition

from hourhand.scheduler.adapters.kafka.commits import (
    CommitNote,
    MembershipLease,
    OffsetCommits,
    note_of,
)
from hourhand.scheduler.configuration.settings import GroupSettings
from hourhand.scheduler.ports.store_identity import StoreIdentity

REACH_MS = 9_000
GROUP = GroupSettings(session_timeout_ms=10_000, lease_margin_ms=1_000)
POLLING = GroupSettings(
    session_timeout_ms=10_000, max_poll_interval_ms=20_000, lease_margin_ms=1_000
)


def test_there_is_none_before_both_a_poll_and_an_accepted_commit() -> None:
    """Neither alone proves anything."""
    polled, accepted = MembershipLease(POLLING), MembershipLease(POLLING)
    polled.polled(5.0)
    accepted.accepted(5.0)
    assert polled.ends_ms == accepted.ends_ms == -math.inf


def test_it_ends_at_the_earlier_of_session_and_poll_interval() -> None:
    """Each less the margin, each from its own beginning."""
    lease = MembershipLease(POLLING)
    lease.polled(0.0)
    lease.accepted(100.0)
    assert lease.ends_ms == 9_100.0
    lease.accepted(15_000.0)
    assert lease.ends_ms == 19_000.0
    lease.polled(16_000.0)
    assert lease.ends_ms == 24_000.0


def test_an_older_commit_accepted_late_does_not_shorten_it() -> None:
    """The latest proof counts."""
    lease = MembershipLease(POLLING)
    lease.polled(0.0)
    lease.accepted(200.0)
    lease.accepted(100.0)
    assert lease.ends_ms == 9_200.0


def test_an_ended_one_comes_back_only_by_a_new_commit() -> None:
    """Polling on changes nothing."""
    lease = MembershipLease(POLLING)
    lease.polled(0.0)
    lease.accepted(0.0)
    lease.end()
    lease.polled(50.0)
    assert lease.ends_ms == -math.inf
    lease.accepted(60.0)
    assert lease.ends_ms == 9_060.0


@dataclass
class HandClock:
    """A clock that is moved by hand."""

    time_ms: float = 0.0

    def now_ms(self) -> int:
        """Return the same time."""
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        """Return the same time."""
        return self.time_ms


@dataclass
class Coordinator:
    """Takes commits and keeps them until the test answers."""

    sent: list[list[TopicPartition]] = field(default_factory=list)

    settled: list[list[TopicPartition]] = field(default_factory=list)

    def commit(
        self, *, offsets: Sequence[TopicPartition], asynchronous: bool
    ) -> Sequence[TopicPartition]:
        """Keep a commit; accept one that is waited for."""
        (self.sent if asynchronous else self.settled).append(list(offsets))
        return offsets


class Case:
    """Commits of one started partition, with clock, lease and coordinator."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.lease = MembershipLease(GROUP)
        self.lease.polled(0.0)
        self.coordinator = Coordinator()
        self.commits = OffsetCommits("topic", self.clock, self.lease, 10_000)
        self.commits.begin(0, 5)

    def ask_at(self, time_ms: float, offsets: dict[int, int] | None = None) -> None:
        """Ask for a commit at a time."""
        self.clock.time_ms = time_ms
        self.commits.ask(self.coordinator, offsets or {})

    def offsets(self) -> list[dict[int, int]]:
        """Return the offsets of every commit sent."""
        return [{each.partition: each.offset for each in sent} for sent in self.coordinator.sent]


def test_a_commit_of_nothing_new_carries_the_started_position() -> None:
    """There is always one to send."""
    case = Case()
    case.ask_at(1.0)
    assert case.offsets() == [{0: 5}]


def test_the_lease_counts_from_the_sending() -> None:
    """However late the answer comes."""
    case = Case()
    case.ask_at(100.0)
    case.clock.time_ms = 700.0
    assert case.lease.ends_ms == -math.inf
    case.commits.answered(None, case.coordinator.sent[0])
    assert case.lease.ends_ms == 100.0 + REACH_MS


def test_one_is_in_flight_and_the_latest_wish_follows() -> None:
    """What is asked for meanwhile is sent once, with the newest offsets."""
    case = Case()
    case.ask_at(0.0)
    case.ask_at(10.0, {0: 6})
    case.ask_at(20.0, {0: 7})
    case.commits.send_waiting(case.coordinator)
    assert case.offsets() == [{0: 5}]
    case.commits.answered(None, case.coordinator.sent[0])
    case.clock.time_ms = 30.0
    case.commits.send_waiting(case.coordinator)
    case.commits.send_waiting(case.coordinator)
    assert case.offsets() == [{0: 5}, {0: 7}]
    case.commits.answered(None, case.coordinator.sent[1])
    assert case.lease.ends_ms == 30.0 + REACH_MS


def test_a_late_answer_is_not_taken_for_that_of_a_later_commit() -> None:
    """Neither after a loss of membership, nor when an answer was given up."""
    case = Case()
    case.ask_at(0.0)
    case.commits.abandon()
    case.ask_at(500.0)
    case.commits.answered(None, case.coordinator.sent[0])
    assert case.lease.ends_ms == -math.inf
    case.ask_at(10_501.0)
    case.commits.answered(None, case.coordinator.sent[1])
    assert case.lease.ends_ms == -math.inf
    case.commits.answered(None, case.coordinator.sent[2])
    assert case.lease.ends_ms == 10_501.0 + REACH_MS


def test_a_refused_commit_renews_nothing() -> None:
    """And the next one may be sent."""
    case = Case()
    case.ask_at(0.0)
    case.commits.answered(KafkaError(KafkaError.UNKNOWN_MEMBER_ID), case.coordinator.sent[0])
    assert case.lease.ends_ms == -math.inf
    case.ask_at(10.0)
    assert len(case.coordinator.sent) == 2


def test_partitions_that_are_gone_are_not_committed() -> None:
    """Nor are those that were never started."""
    case = Case()
    case.commits.begin(1, 3)
    case.commits.forget([0])
    case.ask_at(0.0, {0: 9, 1: 4, 2: 8})
    assert case.offsets() == [{1: 4}]
    case.commits.forget([1])
    case.commits.abandon()
    case.ask_at(1.0)
    assert len(case.coordinator.sent) == 1


def test_what_the_coordinator_keeps_already_is_not_waited_for() -> None:
    """The next owner would wait as long; what moved since goes, and a new membership asks again."""
    case = Case()
    case.commits.begin(1, 3)
    case.ask_at(0.0, {0: 9, 1: 4})
    case.commits.answered(None, case.coordinator.sent[0])

    case.commits.settle(case.coordinator, {0: 9, 1: 4})
    case.commits.settle(case.coordinator, {0: 9, 1: 5})
    case.commits.abandon()
    case.commits.settle(case.coordinator, {0: 9})

    settled = [[(each.partition, each.offset) for each in one] for one in case.coordinator.settled]
    assert settled == [[(1, 5)], [(0, 9)]]


def test_a_partition_that_came_back_is_committed_before_it_goes() -> None:
    """Another member may have committed in between, so what was accepted before says nothing."""
    case = Case()
    case.ask_at(0.0)
    case.commits.answered(None, case.coordinator.sent[0])
    case.commits.forget([0])
    case.commits.begin(0, 5)

    case.commits.settle(case.coordinator, {0: 5})

    assert len(case.coordinator.settled) == 1


def test_a_commit_names_its_topic_and_its_store() -> None:
    """The group may keep the offset of a topic that is gone; what others wrote names none."""
    case = Case()
    case.commits.note = CommitNote("a1b2c3d4", StoreIdentity("5f", "keyspace blue"))
    case.ask_at(0.0)

    (sent,) = case.coordinator.sent[0]

    assert note_of(sent.metadata) == case.commits.note
    assert {note_of(each) for each in (None, "", "7", "reset by hand")} == {CommitNote()}
