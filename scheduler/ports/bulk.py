"""Whole buckets at a time, for jobs over all stored rows; nodes never use it.

A bucket is one hour of one partition, the unit of parallelism. Every method waits for the store and
raises StoreUnavailable if it does not answer. Rows are plain tuples in the order of ``COLUMNS``,
times in UTC milliseconds, ``write_time`` last; a bucket's rows come in key order. At most a page of
rows is in memory.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from hourhand.actors.model.operations.ownership import Claim


class BulkTable(StrEnum):
    """The tables with at least one row for each task."""

    TASKS = "tasks"
    STATUSES = "statuses"
    ATTEMPTS = "attempts"


_KEY = ("scheduled_ms", "ordering_id", "uniqueness_key")

COLUMNS: dict[BulkTable, tuple[str, ...]] = {
    BulkTable.TASKS: (*_KEY, "data", "log_offset", "write_time"),
    BulkTable.STATUSES: (
        *_KEY,
        "result",
        "log_offset",
        "attempts",
        "started_ms",
        "finished_ms",
        "moved_to_ms",
        "for_good",
        "reason",
        "write_time",
    ),
    BulkTable.ATTEMPTS: (
        *_KEY,
        "attempt",
        "result",
        "started_ms",
        "finished_ms",
        "next_attempt_ms",
        "used",
        "suspect",
        "error_class",
        "error_message",
        "error_stack",
        "fence",
        "write_time",
    ),
}
"""The columns of each table's rows. ``data`` is text here."""

BulkRow = tuple[object, ...]


class Bucket(NamedTuple):
    """One hour of one partition."""

    partition: int
    hour_ms: int
    """The UTC millisecond at which the hour begins."""


class BulkStore(Protocol):
    """Rows of ``task_schedule``, ``task_status`` and ``attempt_history``, by bucket."""

    def partition_count(self) -> int | None:
        """Return the installation's number of partitions; None if no node ever started."""

    def list_buckets(
        self, table: BulkTable, partitions: Collection[int], first_ms: int, end_ms: int
    ) -> Sequence[Bucket]:
        """Return, sorted, the buckets of [first, end) that hold a row; opens none of them."""

    def scan(
        self, table: BulkTable, buckets: Sequence[Bucket], first_ms: int, end_ms: int
    ) -> Iterator[tuple[Bucket, Sequence[BulkRow]]]:
        """Yield the buckets' rows scheduled in [first, end), some thousand at a time.

        Buckets come in the order given; one without such a row is skipped.
        """

    def scan_part(
        self, table: BulkTable, part: int, parts: int, columns: Collection[str]
    ) -> Iterator[Mapping[str, Sequence[object]]]:
        """Yield all rows of the ``part``-th of ``parts`` parts of a table, some thousand at a time.

        Yields the named columns of ``COLUMNS`` and ``partition``. Every bucket is in one part, its
        rows together and in key order; the store chooses the order of buckets.
        """

    def delete_rows(self, table: BulkTable, bucket: Bucket, rows: Sequence[BulkRow]) -> None:
        """Remove rows that were read before, each at its own write time.

        A row that was written again since then has a higher write time and stays.
        """

    def begin_partition(self, partition: int, claim: Claim) -> Claim:
        """Store ``claim`` if the partition never had an owner; return the stored claim.

        It never raises the epoch of a partition that has one, so no node loses anything.
        """

    def close(self) -> None:
        """Close connections or files."""
