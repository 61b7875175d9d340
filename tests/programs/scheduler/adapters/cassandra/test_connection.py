"""The driver as it is set up, with the threads that it starts."""

from itertools import islice

from hourhand.scheduler.adapters.cassandra.connection import cluster_of
from hourhand.scheduler.configuration.settings import CassandraSettings

FOUND_AGAIN_S = 10.0


def test_a_server_that_was_away_for_long_is_found_within_seconds() -> None:
    """The driver's own pauses grow to ten minutes."""
    cluster = cluster_of(CassandraSettings(), timeout_s=1.0)
    pauses = islice(cluster.reconnection_policy.new_schedule(), 40)
    cluster.shutdown()

    assert max(pauses) <= FOUND_AGAIN_S
