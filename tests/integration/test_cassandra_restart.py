"""A Cassandra server that stops and starts again beneath open stores, on its own server.

It is stopped, not killed: one that dies alone may forget what it answered in its last tenth of
a second, as its commit log is not synced before it answers (see ``docs/promises.md``).
"""

import time
from collections.abc import Iterator

import pytest

from hourhand.actors.model.operations.ownership import Claim, initial_watermark
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.conformance.store_values import HOUR_START_MS, done, write_time
from tests.conformance.writers_suite import delete_hour, versions, write_all
from tests.servers.cassandra import CassandraServer
from tests.servers.running import running

pytestmark = [pytest.mark.integration, pytest.mark.long]

FOUND_AGAIN_S = 120.0
"""Several times the longest pause between two tries, and a fraction of the driver's own."""
LIVING, SWEPT, SWEPT_LATE = 1, 2, 3
"""Partitions: written, deleted before the restart, deleted before and written late after it."""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """A server that only this test uses, as it stops it."""
    yield from running(lambda: CassandraServer(tmp_path_factory.mktemp("restarted")))


def wait_until_found(stores: Stores) -> None:
    """Ask until the server answers; each try that fails takes its time."""
    deadline = time.monotonic() + FOUND_AGAIN_S
    while (failure := stores.ownership.read_watermark(LIVING).exception(60)) is not None:
        assert isinstance(failure, StoreUnavailable)
        assert time.monotonic() < deadline, "the server runs, and the open stores do not see it"


def test_rows_deletes_and_epochs_outlive_a_restarted_server(server: CassandraServer) -> None:
    """Write times too: what was deleted stays so for whoever comes late, and epochs go on.

    The stores that were open find the server again by themselves.
    """
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(server.addresses), port=server.port, keyspace="restarted"
        ),
    )
    migrate(settings)
    stores = open_stores(settings)
    for partition in (LIVING, SWEPT, SWEPT_LATE):
        write_all(stores, partition, 1, write_time(1, 1))
        done(stores.ownership.claim(partition, HOUR_START_MS))
    write_all(stores, LIVING, 2, write_time(2, 7))
    delete_hour(stores, SWEPT, write_time(2, 5))
    delete_hour(stores, SWEPT_LATE, write_time(2, 5))

    server.stop()
    server.start()

    again = open_stores(settings)
    wait_until_found(stores)
    for opened in (stores, again):
        write_all(opened, LIVING, 1, write_time(1, 9))
        write_all(opened, SWEPT_LATE, 3, write_time(2, 4))
        assert versions(opened, LIVING) == [2, 2, 2]
        assert versions(opened, SWEPT) == [None, None, None]
        assert versions(opened, SWEPT_LATE) == [None, None, None]
    write_all(again, SWEPT_LATE, 4, write_time(2, 6))
    assert versions(stores, SWEPT_LATE) == [4, 4, 4]
    for partition in (LIVING, SWEPT, SWEPT_LATE):
        claim = done(again.ownership.claim(partition, 0))
        assert claim == Claim(2, initial_watermark(HOUR_START_MS))
    stores.close()
    again.close()
