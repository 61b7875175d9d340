"""Membership on a real Kafka under KIP-848: the same contract, and what differs there."""

import math
from collections.abc import Callable
from functools import partial

import pytest

from hourhand.actors.model.values.errors import SettingsInvalid
from tests.conformance.kafka_world import KafkaWorld
from tests.conformance.log_bench import (
    QUICK,
    Bench,
    LogWorld,
    Member,
    append_all,
    poll_for,
    poll_until,
)
from tests.conformance.log_membership import MembershipContract
from tests.servers.kafka import KafkaServer, keep_session

pytestmark = pytest.mark.integration

PATIENT = QUICK.model_copy(update={"session_timeout_ms": 45_000, "max_poll_interval_ms": 90_000})
"""A group whose members are missed long after a test has ended."""


@pytest.fixture(scope="module")
def log_world(kafka_server: KafkaServer) -> KafkaWorld:
    """Topics on the session's broker, and groups whose session the broker keeps."""
    world = KafkaWorld(kafka_server.bootstrap_servers, "consumer")
    keep_session(kafka_server.bootstrap_servers, world.settings("any").group)
    return world


@pytest.fixture
def bench(log_world: LogWorld, request: pytest.FixtureRequest) -> Callable[..., Bench]:
    """Return a function that makes a bench and closes it after the test."""

    def make(partitions: int = 1) -> Bench:
        made = Bench(log_world, partitions)
        request.addfinalizer(made.close)
        return made

    return make


class TestConsumerProtocol(MembershipContract):
    """What a member of any group must do, where brokers assign."""

    def test_partitions_are_shared_and_go_back(self, bench: Callable[..., Bench]) -> None:
        """Brokers know no assignor of ours."""
        super().test_partitions_are_shared_and_go_back(bench, "cooperative-sticky")

    def test_a_revocation_waits_for_its_future_and_commits_its_offsets(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Brokers know no assignor of ours."""
        super().test_a_revocation_waits_for_its_future_and_commits_its_offsets(
            bench, "cooperative-sticky"
        )

    def test_only_an_accepted_commit_gives_a_lease(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Neither joining nor polling counts, nor do heartbeats alone; it counts from a heartbeat
        that was sent before the commit.
        """
        made = bench(1)
        member = made.join("a")
        poll_until(lambda: 0 in member.starts, member)
        poll_for(1.5, member)
        assert member.log.lease_ends_ms() == -math.inf

        reach_ms = QUICK.session_timeout_ms - QUICK.lease_margin_ms
        member.commit()
        sent_ms = log_world.clock.monotonic_ms()
        poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member)
        first_end_ms = member.log.lease_ends_ms()
        assert sent_ms < first_end_ms < sent_ms + reach_ms

        poll_for(0.5, member)
        assert member.log.lease_ends_ms() == first_end_ms
        member.log.commit({})
        poll_until(lambda: member.log.lease_ends_ms() > first_end_ms, member)


def test_a_lease_goes_on_while_a_member_works(bench: Callable[..., Bench]) -> None:
    """Commits, heartbeats and statistics put its end off, again and again."""
    made = bench(2)
    member = made.join("a")
    ends_ms = -math.inf
    for _ in range(10):
        poll_until(partial(_is_put_off, member, ends_ms), member, committing=True)
        ends_ms = member.log.lease_ends_ms()


def _is_put_off(member: Member, ends_ms: float) -> bool:
    return member.log.lease_ends_ms() > ends_ms


def test_a_session_that_brokers_end_before_the_lease_is_refused(
    bench: Callable[..., Bench],
) -> None:
    """Another member would own the partitions while this one still starts attempts (P3)."""
    group = QUICK.model_copy(update={"session_timeout_ms": 3_001})
    with pytest.raises(SettingsInvalid, match=r"3001.*after 3000 ms.*consumer.session.timeout"):
        bench(1).join("a", group)


def test_a_member_that_leaves_is_replaced_at_once(
    kafka_server: KafkaServer, request: pytest.FixtureRequest
) -> None:
    """Long before its session could expire."""
    world = KafkaWorld(kafka_server.bootstrap_servers, "consumer")
    keep_session(kafka_server.bootstrap_servers, PATIENT.model_copy(update={"id": world.group_id}))
    made = Bench(world, 2)
    request.addfinalizer(made.close)
    append_all(made.writer(), 0, [b"a"])
    first = made.join("a", PATIENT)
    poll_until(lambda: len(first.starts) == 2, first, committing=True)
    second = made.join("b", PATIENT)
    poll_until(lambda: len(second.starts) == 1, first, second, committing=True)
    clock_ms = world.clock.monotonic_ms
    left_ms = clock_ms()
    made.leave(first)
    poll_until(lambda: len(second.starts) == 2, second, committing=True)
    assert clock_ms() - left_ms < PATIENT.session_timeout_ms / 2
