"""The contract of every ``BulkStore``, beside the three stores of the same installation."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from hourhand.actors.model.operations.ownership import (
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkRow, BulkStore, BulkTable
from tests.conformance.store_values import HOUR_START_MS, done, write_time

EVER = (INSTANT_MIN_MS, INSTANT_MAX_MS + 1)


class BulkPorts(NamedTuple):
    """An installation's stores, and the same rows in bulk."""

    stores: Stores
    bulk: BulkStore


def key(hour: float, name: str = "a") -> TaskKey:
    """Return a key so many hours after the suite's first hour."""
    return TaskKey(HOUR_START_MS + round(hour * HOUR_MS), name, f"key-{name}")


def rows_of(
    ports: BulkPorts, table: BulkTable, buckets: list[Bucket], first_ms: int, end_ms: int
) -> Iterator[tuple[Bucket, BulkRow]]:
    """Yield each row with its bucket."""
    for bucket, page in ports.bulk.scan(table, buckets, first_ms, end_ms):
        yield from ((bucket, row) for row in page)


def _rows_of_part(
    ports: BulkPorts, table: BulkTable, part: int, parts: int = 3
) -> list[tuple[object, Any]]:
    """Return partition and row of all that a part of a table holds."""
    names = ("partition", *COLUMNS[table])
    return [
        (owner, tuple(values))
        for page in ports.bulk.scan_part(table, part, parts, names)
        for owner, *values in zip(*(page[name] for name in names), strict=True)
    ]


def insert(ports: BulkPorts, partition: int, *keys: TaskKey, at: int = 1) -> None:
    """Write schedule rows by the owner of epoch 1, its write number ``at``."""
    rows = [StoredTask(each, b'{"v":1}', 7) for each in keys]
    done(ports.stores.schedule.insert_tasks(partition, rows, write_time(at)))


class BulkSuite:
    """Tests over the fixture ``ports``; partitions are each test's own."""

    def test_buckets_are_those_that_hold_rows(self, ports: BulkPorts) -> None:
        """Sorted, within the hours asked for, of the partitions asked for."""
        insert(ports, 1, key(0), key(0.5), key(3), key(3_000))
        insert(ports, 2, key(1))

        def found(*partitions: int, first_ms: int, end_ms: int) -> list[tuple[int, int]]:
            buckets = ports.bulk.list_buckets(BulkTable.TASKS, partitions, first_ms, end_ms)
            return [(b.partition, (b.hour_ms - HOUR_START_MS) // HOUR_MS) for b in buckets]

        near = {"first_ms": HOUR_START_MS, "end_ms": HOUR_START_MS + 4 * HOUR_MS}
        assert found(1, 2, **near) == [(1, 0), (1, 3), (2, 1)]
        assert found(2, **near) == [(2, 1)]
        ever = {"first_ms": EVER[0], "end_ms": EVER[1]}
        assert found(1, **ever) == [(1, 0), (1, 3), (1, 3_000)]
        assert ports.bulk.list_buckets(BulkTable.ATTEMPTS, [1, 2], *EVER) == []

    def test_rows_are_the_columns_in_key_order(self, ports: BulkPorts) -> None:
        """Of all three tables, with what is absent as None."""
        one = key(0.5)
        insert(ports, 3, one, at=4)
        completion = Completion(one, CompletionResult.MOVED, 9, 2, None, 8, 77, True, "why")
        attempt = AttemptRecord(
            one, 2, AttemptResult.FAILURE, 5, 6, None, 1, True, "E", "m", "s", 3
        )
        done(ports.stores.status.insert_completions(3, [completion], write_time(5)))
        done(ports.stores.status.insert_attempts(3, [attempt], write_time(6)))

        found = {
            table: [row for _, row in rows_of(ports, table, [Bucket(3, HOUR_START_MS)], *EVER)]
            for table in BulkTable
        }

        assert {table: [len(row) for row in rows] for table, rows in found.items()} == {
            table: [len(columns)] for table, columns in COLUMNS.items()
        }
        assert [tuple(row) for row in found[BulkTable.TASKS]] == [
            (*one, '{"v":1}', 7, write_time(4))
        ]
        assert [tuple(row) for row in found[BulkTable.STATUSES]] == [
            (*one, "moved", 9, 2, None, 8, 77, True, "why", write_time(5))
        ]
        assert [tuple(row) for row in found[BulkTable.ATTEMPTS]] == [
            (*one, 2, "failure", 5, 6, None, 1, True, "E", "m", "s", 3, write_time(6))
        ]

    def test_a_scan_keeps_to_its_buckets_and_times(self, ports: BulkPorts) -> None:
        """More rows than a page, in the order of buckets and keys."""
        keys = [key(hour + minute / 4_000, "b") for hour in range(3) for minute in range(2_500)]
        insert(ports, 4, *keys)
        buckets = [Bucket(4, HOUR_START_MS + hour * HOUR_MS) for hour in (0, 1, 2)]

        first_ms, end_ms = keys[10].scheduled_ms, keys[-10].scheduled_ms
        found = list(rows_of(ports, BulkTable.TASKS, buckets[::2], first_ms, end_ms))

        assert [row[:3] for _, row in found] == [*keys[10:2_500], *keys[5_000:-10]]
        assert {bucket for bucket, _ in found} == {buckets[0], buckets[2]}

    def test_the_parts_of_a_table_hold_every_row_once(self, ports: BulkPorts) -> None:
        """More rows than a page, also a long one; each bucket in one part, in key order."""
        keys = [key(hour + minute / 4_000, "p") for hour in range(3) for minute in range(2_500)]
        insert(ports, 8, *keys)
        long = StoredTask(key(4, "q"), b'{"v":"' + b"x" * 2**20 + b'"}', 7)
        done(ports.stores.schedule.insert_tasks(9, [long], write_time(1)))
        completion = Completion(keys[0], CompletionResult.SUCCESS, 9, 2, 5, 8, reason="why")
        done(ports.stores.status.insert_completions(8, [completion], write_time(5)))

        parts = [_rows_of_part(ports, BulkTable.TASKS, part) for part in range(3)]

        found = [row for part in parts for row in part]
        assert len(set(found)) == len(found)
        for partition, hours in ((8, range(3)), (9, [4])):
            for hour in hours:
                bucket = Bucket(partition, HOUR_START_MS + hour * HOUR_MS)
                expected = [row for _, row in rows_of(ports, BulkTable.TASKS, [bucket], *EVER)]
                of_bucket = [
                    number
                    for number, (owner, row) in enumerate(found)
                    if (owner, row[0] // HOUR_MS * HOUR_MS) == bucket
                ]
                start = of_bucket[0]
                assert of_bucket == list(range(start, start + len(expected)))
                assert [row for _, row in found[start : start + len(expected)]] == expected
        statuses = [
            row for part in range(2) for row in _rows_of_part(ports, BulkTable.STATUSES, part, 2)
        ]
        reading = rows_of(ports, BulkTable.STATUSES, [Bucket(8, HOUR_START_MS)], *EVER)
        assert [row for owner, row in statuses if owner == 8] == [row for _, row in reading]

    def test_columns_of_a_part_are_those_named(self, ports: BulkPorts) -> None:
        """Whichever are asked for, in every year, and None where nothing is stored."""
        times = (INSTANT_MIN_MS, -1, HOUR_START_MS, INSTANT_MAX_MS)
        keys = [TaskKey(time_ms, f"é{time_ms}", "") for time_ms in times]
        insert(ports, 10, *keys)
        closed = [
            Completion(keys[0], CompletionResult.MOVED, 9, 2, None, 8, 77, True),
            Completion(keys[1], CompletionResult.SUCCESS, -5, 2, -7, 8, reason="why"),
            Completion(keys[2], CompletionResult.SUCCESS, 3, 1, 4, 8),
        ]
        done(ports.stores.status.insert_completions(10, closed, write_time(5)))
        tried = [
            AttemptRecord(keys[2], 1, AttemptResult.STARTED, 5, None),
            AttemptRecord(keys[2], 2, AttemptResult.RETRY, 5, 6, -9, 1, True, "E", None, "s", 3),
        ]
        done(ports.stores.status.insert_attempts(10, tried, write_time(6)))

        def found(table: BulkTable, *names: str) -> Counter[tuple[object, ...]]:
            pages = ports.bulk.scan_part(table, 0, 1, ("partition", *names))
            rows = [row for page in pages for row in zip(*page.values(), strict=True)]
            return Counter(row[1:] for row in rows if row[0] == 10)

        assert found(BulkTable.TASKS, "ordering_id", "scheduled_ms", "write_time") == Counter(
            (key.ordering_id, key.scheduled_ms, write_time(1)) for key in keys
        )
        assert found(BulkTable.STATUSES, "for_good") == {(False,): 2, (True,): 1}
        columns = ("reason", "started_ms", "log_offset", "moved_to_ms")
        assert found(BulkTable.STATUSES, *columns) == Counter(
            [("why", -7, -5, None), (None, 4, 3, None), (None, None, 9, 77)]
        )
        bucket = Bucket(10, HOUR_START_MS)
        (plain,) = (row for _, row in rows_of(ports, BulkTable.STATUSES, [bucket], *EVER))
        assert plain[3:] == ("success", 3, 1, 4, 8, None, False, None, write_time(5))
        assert found(BulkTable.ATTEMPTS, "finished_ms", "next_attempt_ms", "suspect") == Counter(
            [(6, -9, True), (None, None, False)]
        )

    def test_a_deleted_row_is_the_one_that_was_read(self, ports: BulkPorts) -> None:
        """A row that was written again since then stays, and so does everything else."""
        insert(ports, 5, key(0, "a"), key(0, "b"), key(0, "c"), at=1)
        bucket = Bucket(5, HOUR_START_MS)
        read = [row for _, row in rows_of(ports, BulkTable.TASKS, [bucket], *EVER)]
        insert(ports, 5, key(0, "b"), at=2)

        ports.bulk.delete_rows(BulkTable.TASKS, bucket, read[:2])

        left = [row[1] for _, row in rows_of(ports, BulkTable.TASKS, [bucket], *EVER)]
        assert left == ["b", "c"]

    def test_an_attempt_is_deleted_by_its_number(self, ports: BulkPorts) -> None:
        """Attempts of a key are rows of their own."""
        one, bucket = key(0), Bucket(6, HOUR_START_MS)
        attempts = [AttemptRecord(one, n, AttemptResult.FAILURE, n, n) for n in (1, 2)]
        done(ports.stores.status.insert_attempts(6, attempts, write_time(1)))
        read = [row for _, row in rows_of(ports, BulkTable.ATTEMPTS, [bucket], *EVER)]

        ports.bulk.delete_rows(BulkTable.ATTEMPTS, bucket, read[:1])

        left = [row[3] for _, row in rows_of(ports, BulkTable.ATTEMPTS, [bucket], *EVER)]
        assert left == [2]

    def test_a_partition_is_begun_once(self, ports: BulkPorts) -> None:
        """The first claim stands, and the next owner's epoch is above it."""
        mark = Watermark(5, 6, 7, (Straggler("s", 4),), 0, 0, 0, 0, 9)

        first = ports.bulk.begin_partition(7, Claim(3, mark))
        second = ports.bulk.begin_partition(7, Claim(8, initial_watermark(1)))

        assert first == second == Claim(3, mark)
        assert done(ports.stores.ownership.claim(7, 0)).epoch == 4

    def test_the_number_of_partitions_is_what_was_agreed(self, ports: BulkPorts) -> None:
        """Asking does not agree on anything."""
        before = ports.bulk.partition_count()
        agreed = done(ports.stores.ownership.agree_partition_count(before or 12))

        assert ports.bulk.partition_count() == agreed
