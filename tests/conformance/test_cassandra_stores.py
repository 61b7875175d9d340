"""Binds the store suite to a real Cassandra."""

from collections.abc import Callable, Iterator

import pytest
from cassandra.cluster import Cluster

from actors.ports.store import Stores
from scheduler.adapters.cassandra.migrate import migrate
from scheduler.adapters.cassandra.ownership import PARTITION_COUNT
from scheduler.adapters.cassandra.stores import open_stores
from scheduler.settings import CassandraSettings, Settings
from tests.conformance.stores import OwnershipSuite, ScheduleSuite, StatusSuite
from tests.servers.cassandra import CassandraServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def settings(cassandra_server: CassandraServer) -> Settings:
    """Settings of a keyspace of this module's own, with the schema in it."""
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra_server.addresses),
            port=cassandra_server.port,
            keyspace="conformance",
        ),
    )
    migrate(settings)
    return settings


class Opened:
    """The stores a test has open; opening again closes what was open."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.stores = open_stores(settings)

    def reopen(self) -> Stores:
        """Close and open again."""
        self.stores.close()
        self.stores = open_stores(self._settings)
        return self.stores


@pytest.fixture(scope="module")
def opened(settings: Settings) -> Iterator[Opened]:
    """One connection for all tests: each uses a partition of its own."""
    opened = Opened(settings)
    yield opened
    opened.stores.close()


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Return what is open."""
    return opened.stores


@pytest.fixture
def reopen(opened: Opened) -> Callable[[], Stores]:
    """Return the callable of ``Opened``."""
    return opened.reopen


class TestCassandraSchedule(ScheduleSuite):
    """``task_schedule``."""


class TestCassandraStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""


class TestCassandraOwnership(OwnershipSuite):
    """``partition_watermark``, ``command_outcome``, ``schedule_meta``."""

    @pytest.fixture(autouse=True)
    def _unset_partition_count(self, settings: Settings) -> None:
        cluster = Cluster(settings.cassandra.contact_points, port=settings.cassandra.port)
        try:
            cluster.connect(settings.cassandra.keyspace).execute(
                "DELETE FROM schedule_meta WHERE name = %s IF EXISTS", (PARTITION_COUNT,)
            )
        finally:
            cluster.shutdown()
