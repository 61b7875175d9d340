"""Binds the transfer suite to a real Cassandra."""

import uuid
from collections.abc import Iterator

import pytest

from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.stores import connect, open_stores
from hourhand.scheduler.adapters.cassandra.transfer import CassandraTransfer, open_transfer
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.conformance.transfer_suite import TransferPorts, TransferSuite
from tests.servers.cassandra import CassandraServer

pytestmark = pytest.mark.integration

_FILLED = (
    "partition_watermark",
    "definition",
    "command_outcome",
    "task_schedule",
    "task_status",
    "completion_segment",
    "attempt_history",
)


@pytest.fixture(scope="module")
def settings(cassandra_server: CassandraServer) -> Settings:
    """A keyspace of this module's own."""
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra_server.addresses),
            port=cassandra_server.port,
            keyspace=f"transfer_{uuid.uuid4().hex[:8]}",
        ),
    )
    migrate(settings)
    return settings


@pytest.fixture
def ports(settings: Settings) -> Iterator[TransferPorts]:
    """The keyspace, emptied: to make one takes longer than all tests of it."""
    stores, transfer = open_stores(settings), open_transfer(settings)
    assert isinstance(transfer, CassandraTransfer)
    yield TransferPorts(stores, transfer)
    transfer.close()
    stores.close()
    session = connect(settings.cassandra)
    for table in _FILLED:
        session.execute(session.prepare(f"TRUNCATE {{keyspace}}.{table}").bind(()))
    forget = session.prepare("DELETE FROM {keyspace}.schedule_meta WHERE name = ? IF EXISTS")
    for name in ("partition_count", "transfer"):
        session.execute(forget.bind((name,)))
    session.close()


class TestCassandraTransfer(TransferSuite):
    """The suite on Cassandra."""
