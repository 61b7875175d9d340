"""Binds the store suite to a real Cassandra."""

from collections.abc import Callable, Iterator

import pytest
from cassandra.cluster import Cluster

from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.checkpoints import CassandraCheckpointStore
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.adapters.cassandra.definitions import CassandraDefinitionStore
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.outcomes import CassandraOutcomeLog
from hourhand.scheduler.adapters.cassandra.oversight import (
    CassandraOversightStore,
    CassandraTallyStore,
)
from hourhand.scheduler.adapters.cassandra.ownership import PARTITION_COUNT, CassandraOwnershipStore
from hourhand.scheduler.adapters.cassandra.results import CassandraResultStore
from hourhand.scheduler.adapters.cassandra.schedule import CassandraScheduleStore
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.status import CassandraStatusStore
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.conformance.store_values import HOUR_START_MS, done, task_at, write_time
from tests.conformance.stores import (
    Beside,
    CheckpointSuite,
    DefinitionSuite,
    OutcomeSuite,
    OversightSuite,
    OwnershipSuite,
    PagingSuite,
    ReadingSuite,
    ResultSuite,
    ScheduleSuite,
    StatusSuite,
    TallySuite,
    WritersSuite,
)
from tests.conformance.writers_suite import delete_hour, write_all
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


@pytest.fixture(scope="module")
def skewed(settings: Settings) -> Iterator[dict[int, Stores]]:
    """Stores of nodes whose clocks are off, by minutes; opened as they are asked for."""
    opened: dict[int, Stores] = {}
    yield opened
    for each in opened.values():
        each.close()


@pytest.fixture
def beside(settings: Settings, skewed: dict[int, Stores]) -> Beside:
    """Open stores whose driver dates every request by a clock that is off."""

    def open_skewed(skew_minutes: int) -> Stores:
        if skew_minutes not in skewed:
            skewed[skew_minutes] = _open_skewed(settings, skew_minutes)
        return skewed[skew_minutes]

    return open_skewed


def _open_skewed(settings: Settings, skew_minutes: int) -> Stores:
    connection = open_connection(settings.cassandra)
    # The driver's own clock, which dates whatever names no write time.
    connection.cluster.timestamp_generator = lambda: (
        (SystemClock().now_ms() + skew_minutes * 60_000) * 1_000
    )
    session = CassandraSession(connection, settings.cassandra)
    return Stores(
        schedule=CassandraScheduleStore(session),
        status=CassandraStatusStore(session),
        checkpoints=CassandraCheckpointStore(session),
        results=CassandraResultStore(session),
        outcome_log=CassandraOutcomeLog(session),
        ownership=CassandraOwnershipStore(session, retention_ms=86_400_000),
        definitions=CassandraDefinitionStore(session),
        oversight=CassandraOversightStore(session),
        tallies=CassandraTallyStore(session),
        close=session.close,
    )


class TestCassandraSchedule(ScheduleSuite):
    """``task_schedule``."""


class TestCassandraPaging(PagingSuite):
    """``task_schedule``, page by page."""


class TestCassandraWriters(WritersSuite):
    """All tables, several writers."""


class TestCassandraStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""


class TestCassandraCheckpoints(CheckpointSuite):
    """``task_checkpoint``."""


class TestCassandraResults(ResultSuite):
    """``task_result``."""


class TestCassandraOutcomes(OutcomeSuite):
    """``outcome_log``."""


class TestCassandraDefinitions(DefinitionSuite):
    """``definition``."""


class TestCassandraOversight(OversightSuite):
    """``node_report``, ``pause_sheet``, ``audit_log``."""


class TestCassandraTallies(TallySuite):
    """``hour_tally``."""


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


class TestCassandraColumns:
    """What Cassandra keeps beside the values: write times as they were given, and no expiry."""

    def test_nothing_of_a_task_expires_by_itself(self, stores: Stores, settings: Settings) -> None:
        """Retention is by deletion: neither a table nor a cell of task or completion has a TTL.

        Only outcomes have one, that of the retention, as nothing else ever deletes them.
        """
        partition, at = 1_000_001, write_time(3, 9)
        write_all(stores, partition, 5, at)
        with Cluster(settings.cassandra.contact_points, port=settings.cassandra.port) as cluster:
            session = cluster.connect(settings.cassandra.keyspace)
            tables = session.execute(
                "SELECT table_name, default_time_to_live FROM system_schema.tables"
                " WHERE keyspace_name = %s",
                (settings.cassandra.keyspace,),
            )
            assert {row[1] for row in tables} == {0}
            for table, column in (
                ("task_schedule", "data"),
                ("task_schedule", "log_offset"),
                ("task_status", "result"),
                ("task_status", "log_offset"),
                ("attempt_history", "result"),
            ):
                kept = session.execute(
                    f"SELECT TTL({column}), WRITETIME({column}) FROM {table}"  # noqa: S608
                    " WHERE partition_id = %s ALLOW FILTERING",
                    (partition,),
                ).one()
                assert tuple(kept) == (None, at), (table, column)
            ttl_s, written = session.execute(
                "SELECT TTL(outcome), WRITETIME(outcome) FROM command_outcome"
                " WHERE partition_id = %s AND log_offset = 0",
                (partition,),
            ).one()
        retention_s = settings.tree.watermark.completion_retention_ms // 1_000
        assert 0 < ttl_s <= retention_s
        assert ttl_s > retention_s - 3_600
        assert written == at

    def test_a_swept_hour_is_gone_and_its_neighbours_are_not(
        self, stores: Stores, settings: Settings
    ) -> None:
        """One tombstone for each hour and table, at the write time of the delete."""
        partition = 1_000_002
        times = [HOUR_START_MS - 1, HOUR_START_MS, HOUR_START_MS + HOUR_MS]
        tasks = [task_at(each) for each in times]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))
        delete_hour(stores, partition, write_time(1, 2))
        with Cluster(settings.cassandra.contact_points, port=settings.cassandra.port) as cluster:
            hours = cluster.connect(settings.cassandra.keyspace).execute(
                "SELECT toUnixTimestamp(hour) FROM task_schedule WHERE partition_id = %s"
                " ALLOW FILTERING",
                (partition,),
            )
            assert sorted(row[0] for row in hours) == [times[0] + 1 - HOUR_MS, times[2]]


class TestCassandraReading(ReadingSuite):
    """All tables, as a client reads them."""
