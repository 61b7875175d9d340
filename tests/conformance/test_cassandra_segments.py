"""Binds the suites of segments and of statuses to a real Cassandra that holds segments."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from msgspec.structs import replace

from hourhand.actors.model.operations.oversight import NodeReport
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import InstallationBusy
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.bulk import open_bulk
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.oversight import CassandraOversightStore
from hourhand.scheduler.adapters.cassandra.segments import CompletionSegments
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.stores import bring_up_to_date, open_stores
from hourhand.scheduler.adapters.completion_segments import SEGMENT_ROWS_MAX
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from hourhand.scheduler.ports.bulk import BulkStore, BulkTable
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
            completion_segments="on",
        ),
    )
    migrate(chosen)
    return chosen


def with_segments(chosen: Settings, when: Literal["auto", "off"]) -> Settings:
    """Return settings of the same keyspace whose nodes write segments at other times."""
    cassandra = chosen.cassandra.model_copy(update={"completion_segments": when})
    return chosen.model_copy(update={"cassandra": cassandra})


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
        return open_stores(self._chosen)


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
        self,
        chosen: Settings,
        opened: Opened,
        bulk: BulkStore,
        steps: list[Step],
        order: list[int],
    ) -> None:
        """By range, by key and in bulk, also after single rows were deleted, and as rows again."""
        partition = next(_partitions)
        stores = opened.stores
        left = check_segments(stores, bulk, partition, steps, order)
        bring_up_to_date(with_segments(chosen, "off"))
        assert segments_of(opened, partition) == []
        assert done(stores.status.find_completions(partition, KEYS)) == left
        loaded = done(stores.status.load_completions(partition, *EVER))
        assert [each.key for each in loaded] == sorted(left)

    def test_what_was_written_before_segments_is_read_beside_them(
        self, chosen: Settings, opened: Opened, bulk: BulkStore
    ) -> None:
        """Rows of a store that writes none, and segments: the later version of each key stands."""
        partition, before = next(_partitions), open_stores(with_segments(chosen, "off"))
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


PLAIN = [Completion(key, CompletionResult.SUCCESS, 1, 1, 3, 4) for key in KEYS[:40]]


class TestWhoWritesSegments:
    """The setting, and the reports that ``auto`` goes by."""

    def test_a_node_that_just_began_writes_rows(self, chosen: Settings, opened: Opened) -> None:
        """Neither ``auto``, whatever the reports say, nor ``off`` writes segments."""
        for when in ("auto", "off"):
            partition, stores = next(_partitions), open_stores(with_segments(chosen, when))
            try:
                done(stores.status.insert_completions(partition, PLAIN, write_time(1)))
                assert list(done(stores.status.load_completions(partition, *EVER))) == PLAIN
            finally:
                stores.close()
            assert segments_of(opened, partition) == []

    def test_the_reports_in_the_store_say_whether_all_nodes_read_segments(
        self, opened: Opened
    ) -> None:
        """Nobody reported: nobody knows.  A node of an older version says nothing of segments."""
        oversight = CassandraOversightStore(opened.session)
        assert not done(oversight.all_read_segments())
        new = [NodeReport(node, 1, reads_segments=True) for node in ("new-1", "new-2")]
        for report in new:
            done(oversight.save_report(report))
        assert done(oversight.all_read_segments())
        done(oversight.save_report(NodeReport("old", 1)))
        assert not done(oversight.all_read_segments())
        upgraded = NodeReport("old", 2, reads_segments=True)
        done(oversight.save_report(upgraded))
        assert done(oversight.all_read_segments())


class TestSegmentsIntoRows:
    """The way back to a version that does not read segments."""

    def test_a_later_delete_and_a_later_row_stand(self, chosen: Settings, opened: Opened) -> None:
        """What becomes a row has the write time that its segment had."""
        partition, status = next(_partitions), opened.stores.status
        again = Completion(KEYS[3], CompletionResult.REOPENED, 9)
        done(status.insert_completions(partition, [again], write_time(3)))
        done(status.insert_completions(partition, PLAIN, write_time(2)))
        bring_up_to_date(with_segments(chosen, "off"))
        assert segments_of(opened, partition) == []
        found = list(done(status.load_completions(partition, *EVER)))
        assert found == [*PLAIN[:3], again, *PLAIN[4:]]
        done(status.delete_statuses(partition, HOUR, HOUR + HOUR_MS, write_time(2)))
        assert list(done(status.load_completions(partition, *EVER))) == [again]

    def test_it_says_what_it_did_and_may_be_repeated(
        self, chosen: Settings, opened: Opened
    ) -> None:
        """A second run finds nothing to turn."""
        done(opened.stores.status.insert_completions(next(_partitions), PLAIN, write_time(1)))
        for turned in (1, 0):
            said = bring_up_to_date(with_segments(chosen, "off"))
            assert said == [f"the store holds no completion segments: {turned} became rows"]
        assert bring_up_to_date(chosen) == []

    def test_it_says_that_nodes_write_further_segments(
        self, chosen: Settings, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that was not told to write rows."""
        delete, status = CompletionSegments.delete, opened.stores.status
        partition = next(_partitions)

        def delete_late(*arguments: Any) -> None:
            delete(*arguments)
            done(status.insert_completions(partition, PLAIN, write_time(2)))

        done(status.insert_completions(partition, PLAIN, write_time(1)))
        with monkeypatch.context() as patched:
            patched.setattr(CompletionSegments, "delete", delete_late)
            with pytest.raises(InstallationBusy, match="completion_segments to 'off'"):
                bring_up_to_date(with_segments(chosen, "off"))
        bring_up_to_date(with_segments(chosen, "off"))
        assert segments_of(opened, partition) == []
        assert list(done(status.load_completions(partition, *EVER))) == PLAIN
