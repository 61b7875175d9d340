"""Binds the bulk suite to a real Cassandra."""

import uuid
from collections.abc import Iterator

import pytest

from hourhand.scheduler.adapters.cassandra.bulk import open_bulk
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.conformance.bulk_suite import BulkPorts, BulkSuite
from tests.servers.cassandra import CassandraServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def ports(cassandra_server: CassandraServer) -> Iterator[BulkPorts]:
    """A keyspace of this module's own; each test has partitions of its own in it."""
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra_server.addresses),
            port=cassandra_server.port,
            keyspace=f"bulk_{uuid.uuid4().hex[:8]}",
        ),
    )
    migrate(settings)
    stores = open_stores(settings)
    bulk = open_bulk(settings)
    yield BulkPorts(stores, bulk)
    bulk.close()
    stores.close()


class TestCassandraBulk(BulkSuite):
    """The suite on Cassandra."""
