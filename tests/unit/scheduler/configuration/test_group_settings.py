"""How long a silent member counts as one, and what must fit into that time."""

import pytest
from pydantic import ValidationError

from hourhand.scheduler.configuration.settings import GroupSettings

BROKER_SESSION_MS_MIN = 6_000
"""Kafka's default of ``group.min.session.timeout.ms``."""
TAKEOVER_MS_MAX = 12_000
"""A killed node's partitions run again within this time, out of the box."""
STEPS_MS = 2_000
"""From the end of the session to the first attempt: a rebalance, a claim, a load."""


def test_by_default_a_dead_node_is_missed_in_time_and_every_broker_agrees() -> None:
    """The longest session: a heartbeat arrived just before the node died."""
    group = GroupSettings()

    assert group.session_timeout_ms >= BROKER_SESSION_MS_MIN
    heard_late_ms = group.heartbeat_interval_ms
    assert group.session_timeout_ms + heard_late_ms + STEPS_MS <= TAKEOVER_MS_MAX


def test_by_default_several_commits_may_fail_before_the_lease_ends() -> None:
    """A coordinator that moves to another broker is away for some seconds."""
    group = GroupSettings()

    reach_ms = group.session_timeout_ms - group.lease_margin_ms
    assert reach_ms >= 5 * group.commit_interval_ms


def test_heartbeats_that_the_session_has_no_room_for_are_refused() -> None:
    """Who chose seldom heartbeats beside a longer default is told what to change."""
    with pytest.raises(ValidationError, match=r"heartbeat_interval_ms 3000 .* a third of.* 8000"):
        GroupSettings(session_timeout_ms=8_000, heartbeat_interval_ms=3_000)


def test_a_third_of_the_session_is_often_enough() -> None:
    """Two heartbeats may be late."""
    group = GroupSettings(session_timeout_ms=9_000, heartbeat_interval_ms=3_000)

    assert group.heartbeat_interval_ms == 3_000


def test_a_session_without_room_for_a_lease_is_refused() -> None:
    """An accepted commit must reach beyond the next one."""
    with pytest.raises(ValidationError, match="leaves no lease"):
        GroupSettings(session_timeout_ms=6_000, lease_margin_ms=5_000)
