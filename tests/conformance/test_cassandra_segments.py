"""Binds the suites of segments and of statuses to a real Cassandra that holds segments."""

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from msgspec.structs import replace

from actors.model.bucket import HOUR_MS
from actors.model.status import Completion, CompletionResult
from actors.ports.store import Stores
from scheduler.adapters.cassandra.bulk import open_bulk
from scheduler.adapters.cassandra.connection import open_connection
from scheduler.adapters.cassandra.migrate import migrate
from scheduler.adapters.cassandra.session import CassandraSession
from scheduler.adapters.cassandra.status import CassandraStatusStore
from scheduler.adapters.cassandra.stores import open_stores
from scheduler.adapters.completion_segments import SEGMENT_ROWS_MAX
from scheduler.configuration.settings import CassandraSettings, Settings
from scheduler.ports.bulk import BulkStore, BulkTable
from tests.conformance.segments_suite import (
    END_MS,
    EVER,
    HOUR,
    KEYS,
    ORDERS,
    STEPS,
    Step,
    check_segments,
)
from tests.conformance.store_values import done, write_time
from tests.conformance.stores import StatusSuite
from tests.servers.cassandra import CassandraServer

pytestmark = pytest.mark.integration

_partitions = itertools.count(2_000_000)


@pytest.fixture(scope="module")
def chosen(cassandra_server: CassandraServer) -> Settings:
    """Settings of a keyspace of this module's own, with the schema in it."""
    chosen = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra_server.addresses),
            port=cassandra_server.port,
            keyspace=f"segments_{uuid.uuid4().hex[:8]}",
        ),
    )
    migrate(chosen)
    return chosen


class Opened:
    """Stores that write segments; opening again closes what was open."""

    def __init__(self, chosen: Settings) -> None:
        self._chosen = chosen
        self.stores = self._open()

    def reopen(self) -> Stores:
        """Close and open again."""
        self.close()
        self.stores = self._open()
        return self.stores

    def close(self) -> None:
        """Close what is open."""
        self.stores.close()
        self.session.close()

    def _open(self) -> Stores:
        settings = self._chosen.cassandra
        self.session = CassandraSession(open_connection(settings), settings)
        status = CassandraStatusStore(self.session, lambda: True)
        return replace(open_stores(self._chosen), status=status)


@pytest.fixture(scope="module")
def opened(chosen: Settings) -> Iterator[Opened]:
    """One connection for all tests: each uses partitions of its own."""
    opened = Opened(chosen)
    yield opened
    opened.close()


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Return what is open."""
    return opened.stores


@pytest.fixture
def reopen(opened: Opened) -> Callable[[], Stores]:
    """Return the callable of ``Opened``."""
    return opened.reopen


@pytest.fixture(scope="module")
def bulk(chosen: Settings) -> Iterator[BulkStore]:
    """The same keyspace in bulk."""
    bulk = open_bulk(chosen)
    yield bulk
    bulk.close()


def segments_of(opened: Opened, partition: int) -> list[int]:
    """Return the write times of the segments of the suite's first two hours."""
    select = opened.session.prepare(
        "SELECT write_time FROM {keyspace}.completion_segment"
        " WHERE partition_id = ? AND hour IN (?, ?)"
    )
    bound = select.bind((partition, HOUR, HOUR + HOUR_MS))
    return [row[0] for row in opened.session.execute(bound)]


class TestCassandraStatusInSegments(StatusSuite):
    """``completion_segment`` and ``task_status`` side by side."""


class TestCassandraSegments:
    """Mixed rows and segments, by every way of reading."""

    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(STEPS, ORDERS)
    @example([(1, (0, len(KEYS), 1)), (2, (3, 1, 0)), (3, (0, 32, 1))], [1, 2, 3, 4, 5, 6, 7, 8])
    @example([(2, (0, len(KEYS), 1)), (1, (0, len(KEYS), 1))], [1, 2, 3, 4, 5, 6, 7, 8])
    @example([(1, (0, len(KEYS), 1)), (1, (0, 1))], [1, 2, 3, 4, 5, 6, 7, 8])
    def test_segments_read_as_rows_do(
        self, stores: Stores, bulk: BulkStore, steps: list[Step], order: list[int]
    ) -> None:
        """By range, by key and in bulk, also after single rows were deleted."""
        check_segments(stores, bulk, next(_partitions), steps, order)

    def test_what_was_written_before_segments_is_read_beside_them(
        self, chosen: Settings, opened: Opened, bulk: BulkStore
    ) -> None:
        """Rows of a store that writes none, and segments: the later version of each key stands."""
        partition, before = next(_partitions), open_stores(chosen)
        old = [Completion(key, CompletionResult.REOPENED, 1) for key in KEYS]
        new = [Completion(key, CompletionResult.SUCCESS, 2, 1, 3, 4) for key in KEYS[:70]]
        try:
            done(before.status.insert_completions(partition, old, write_time(1)))
            done(opened.stores.status.insert_completions(partition, new, write_time(2)))
            assert len(segments_of(opened, partition)) == 1, "30 of the second hour are rows"
            for stores in (before, opened.stores):
                found = done(stores.status.load_completions(partition, *EVER))
                assert list(found) == [*new, *old[70:]]
        finally:
            before.close()
        buckets = bulk.list_buckets(BulkTable.STATUSES, [partition], HOUR, END_MS)
        rows = bulk.scan(BulkTable.STATUSES, buckets, HOUR, END_MS)
        offsets = [row[4] for _, page in rows for row in page]
        assert offsets == [2] * 70 + [1] * (len(KEYS) - 70)

    def test_segments_of_one_write_that_begin_at_the_same_time_are_all_kept(
        self, opened: Opened
    ) -> None:
        """All tasks of a burst may be due in the same millisecond."""
        partition = next(_partitions)
        keys = [KEYS[0]._replace(uniqueness_key=f"{n:04}") for n in range(2 * SEGMENT_ROWS_MAX + 9)]
        burst = [Completion(key, CompletionResult.SUCCESS, 1) for key in keys]
        done(opened.stores.status.insert_completions(partition, burst, write_time(1)))

        assert len(segments_of(opened, partition)) == 3
        assert list(done(opened.stores.status.load_completions(partition, *EVER))) == burst
        found = done(opened.stores.status.find_completions(partition, keys[::100]))
        assert sorted(found) == keys[::100]

    def test_a_deleted_hour_takes_its_segments_along_even_those_that_arrive_later(
        self, opened: Opened
    ) -> None:
        """At the write time of the delete, whatever a job took out of them before."""
        partition, status = next(_partitions), opened.stores.status
        plain = [Completion(key, CompletionResult.SUCCESS, 1) for key in KEYS[:40]]
        for at in (1, 3):
            done(status.insert_completions(partition, plain, write_time(at)))
        done(status.delete_statuses(partition, HOUR, HOUR + HOUR_MS, write_time(2)))
        assert segments_of(opened, partition) == [write_time(3)]
        late = [replace(each, offset=9) for each in plain]
        done(status.insert_completions(partition, late, write_time(1, 5)))
        assert list(done(status.load_completions(partition, *EVER))) == plain
        done(status.delete_statuses(partition, HOUR, HOUR + HOUR_MS, write_time(3)))
        assert done(status.find_completions(partition, KEYS)) == {}

    def test_an_hour_that_is_deleted_stays_so_where_a_job_took_entries_out(
        self, opened: Opened, bulk: BulkStore
    ) -> None:
        """The places that are taken out die with their segment, in either order."""
        partition, status = next(_partitions), opened.stores.status
        plain = [Completion(key, CompletionResult.SUCCESS, 1) for key in KEYS[:40]]
        done(status.insert_completions(partition, plain, write_time(1)))
        buckets = bulk.list_buckets(BulkTable.STATUSES, [partition], HOUR, END_MS)
        ((bucket, page),) = bulk.scan(BulkTable.STATUSES, buckets, HOUR, END_MS)
        bulk.delete_rows(BulkTable.STATUSES, bucket, page[:3])
        assert list(done(status.load_completions(partition, *EVER))) == plain[3:]
        done(status.delete_statuses(partition, HOUR, HOUR + HOUR_MS, write_time(1, 2)))
        bulk.delete_rows(BulkTable.STATUSES, bucket, page[3:9])
        assert segments_of(opened, partition) == []
        assert bulk.list_buckets(BulkTable.STATUSES, [partition], HOUR, END_MS) == []
