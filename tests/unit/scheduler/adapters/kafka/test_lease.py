"""The lease is the earlier of two ends, and only later proof moves it."""

import math

from scheduler.adapters.kafka.lease import Lease
from scheduler.configuration.settings import GroupSettings

GROUP = GroupSettings(session_timeout_ms=10_000, max_poll_interval_ms=20_000, lease_margin_ms=1_000)


def test_there_is_none_before_both_a_poll_and_an_accepted_commit() -> None:
    """Neither alone proves anything."""
    polled, accepted = Lease(GROUP), Lease(GROUP)
    polled.polled(5.0)
    accepted.accepted(5.0)
    assert polled.ends_ms == accepted.ends_ms == -math.inf


def test_it_ends_at_the_earlier_of_session_and_poll_interval() -> None:
    """Each less the margin, each from its own beginning."""
    lease = Lease(GROUP)
    lease.polled(0.0)
    lease.accepted(100.0)
    assert lease.ends_ms == 9_100.0
    lease.accepted(15_000.0)
    assert lease.ends_ms == 19_000.0
    lease.polled(16_000.0)
    assert lease.ends_ms == 24_000.0


def test_an_older_commit_accepted_late_does_not_shorten_it() -> None:
    """The latest proof counts."""
    lease = Lease(GROUP)
    lease.polled(0.0)
    lease.accepted(200.0)
    lease.accepted(100.0)
    assert lease.ends_ms == 9_200.0


def test_an_ended_one_comes_back_only_by_a_new_commit() -> None:
    """Polling on changes nothing."""
    lease = Lease(GROUP)
    lease.polled(0.0)
    lease.accepted(0.0)
    lease.end()
    lease.polled(50.0)
    assert lease.ends_ms == -math.inf
    lease.accepted(60.0)
    assert lease.ends_ms == 9_060.0
