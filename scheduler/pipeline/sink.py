"""Writes tasks from outside the engine so that no running node misses one.

It writes rows first, then reads ``loaded_until`` of their partition, and sends every row below it
through the log as well: a node could have read the store before that row was there. Slow, paused or
repeated writes change nothing. If the store has one writer at a time (embedded), everything goes
through the log. It knows the ports and no Spark.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT, Claim, initial_watermark
from hourhand.actors.model.task.codec import letter_of
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.actors.ports.store import Stores, TaskPage
from hourhand.scheduler.ports.bulk import Bucket, BulkTable
from hourhand.scheduler.runtime.answers import JOB_S, answered
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.placing import placing_count

NO_OFFSET = -1
"""Offset of a row without a record in the log: every record of its key is later."""
_WRITE_TIMES_BEGIN_MS = 1_577_836_800_000
"""2020 in UTC: write times of bulk loads count from here, and stay below every owner's."""

_T = TypeVar("_T")

ListBuckets = Callable[[BulkTable, Collection[int], int, int], Sequence[Bucket]]


class SinkPorts(NamedTuple):
    """The ports that a sink writes to; their opener closes them."""

    writer: LogWriter
    stores: Stores | None
    """None if tasks may only go through the log."""
    begin_partition: Callable[[int, Claim], Claim]
    now_ms: Callable[[], int]
    list_buckets: ListBuckets | None = None
    """``BulkStore``'s, which asks for many buckets at once; without it each is asked for alone."""


class SinkCounts(NamedTuple):
    """The counts of written rows; a row may be in several counts."""

    rows: int = 0
    batched: int = 0
    """Written to the store, in same-row batches."""
    logged: int = 0
    """Sent through the log (as well)."""
    done: int = 0
    """Keys that were done before: their rows never run."""

    def __add__(self, other: object) -> "SinkCounts":
        assert isinstance(other, SinkCounts), "counts are added to counts"
        return SinkCounts(*(mine + its for mine, its in zip(self, other, strict=True)))


class Looked(NamedTuple):
    """Rows by partition, and the buckets in which their keys may be in use."""

    tasks: Mapping[int, Sequence[StoredTask]]
    occupied: frozenset[Bucket]


class Written(NamedTuple):
    """Rows that the store holds and no node knows of yet."""

    tasks: Mapping[int, Sequence[StoredTask]]
    """By partition."""
    contested: Collection[TaskKey]
    """Keys for which the store holds something else: their last record must win."""
    done: int


def bulk_write_time(now_ms: int) -> int:
    """Return the write time for a bulk write that begins now: above earlier ones, below owners'."""
    return min(max(now_ms - _WRITE_TIMES_BEGIN_MS, 1), (1 << EPOCH_SHIFT) - 1)


class TaskSink:
    """Raises StoreUnavailable, LogUnavailable, TaskTooLarge; then the same rows may be written
    again. ``look`` is used by one thread, in the order of the rows; its results may be written by
    several.
    """

    def __init__(
        self, ports: SinkPorts, *, write_time: int, record_bytes_max: int, in_flight_max: int
    ) -> None:
        self._ports = ports
        self._partition_count = ports.writer.partition_count()
        if ports.stores is not None:
            # With the count of a topic that was given more partitions, nobody would look for the
            # row.
            asked = placing_count(ports.stores.ownership, self._partition_count)
            self._partition_count = answered(begun(asked), JOB_S)
        self._write_time = write_time
        self._record_bytes_max = record_bytes_max
        self._in_flight_max = in_flight_max
        self._bulk = threading.Lock()
        """Held while whole buckets are requested: one thread at a time."""
        self._begun_here: Bucket | None = None
        """The last bucket of the last rows, if it was empty: then all its rows are of this sink."""

    def write(self, tasks: Iterable[StoredTask]) -> SinkCounts:
        """Make tasks durable and known to their nodes."""
        return self.settle(self.write_rows(tasks))

    def write_rows(self, tasks: Iterable[StoredTask]) -> Written:
        """Write the rows and wait until they are durable; ``settle`` must follow."""
        return self.write_looked(self.look(tasks))

    def look(self, tasks: Iterable[StoredTask]) -> Looked:
        """Find the buckets that already hold rows, before anything is written."""
        by_partition: defaultdict[int, list[StoredTask]] = defaultdict(list)
        for task in tasks:
            owner = partition_of(task.key.ordering_id, self._partition_count)
            by_partition[owner].append(task)
        if self._ports.stores is None or not by_partition:
            return Looked(by_partition, frozenset())
        buckets = {
            Bucket(partition, hour_ms)
            for partition, rows in by_partition.items()
            for hour_ms in {hour_of(task.key.scheduled_ms) for task in rows}
        }
        last = Bucket(owner, hour_of(task.key.scheduled_ms))
        if self._begun_here is not None:
            buckets.discard(self._begun_here)
        occupied = self._occupied(self._ports.stores, buckets)
        self._begun_here = None if last in occupied else last
        return Looked(by_partition, occupied)

    def write_looked(self, looked: Looked) -> Written:
        """Write rows after ``look``, and wait until they are durable."""
        by_partition, occupied = looked
        stores = self._ports.stores
        if stores is None:
            return Written(by_partition, (), 0)
        _all(
            stores.schedule.insert_tasks(partition, rows, self._write_time)
            for partition, rows in by_partition.items()
        )
        contested: set[TaskKey] = set()
        done = 0
        for partition, rows in by_partition.items():
            again = [t for t in rows if Bucket(partition, hour_of(t.key.scheduled_ms)) in occupied]
            if again:
                lost, closed = self._compare(stores, partition, again)
                contested |= lost
                done += closed
        return Written(by_partition, contested, done)

    def settle(self, written: Written) -> SinkCounts:
        """Send rows through the log that a node may have looked for before they were there."""
        in_flight: deque[Future[Position]] = deque()
        rows = logged = 0
        horizons = self._horizons(written.tasks)
        for partition, tasks in written.tasks.items():
            rows += len(tasks)
            for task in tasks:
                key = task.key
                if key.scheduled_ms < horizons[partition] or key in written.contested:
                    logged += 1
                    in_flight.append(self._append(partition, task))
                    if len(in_flight) >= self._in_flight_max:
                        answered(in_flight.popleft(), JOB_S)
        _all(in_flight)
        batched = 0 if self._ports.stores is None else rows
        return SinkCounts(rows, batched, logged, written.done)

    def _horizons(self, tasks: Mapping[int, Sequence[StoredTask]]) -> dict[int, float]:
        """Return the times before which a row may have come too late for its node."""
        stores = self._ports.stores
        if stores is None:
            return dict.fromkeys(tasks, float("inf"))
        found = {each: stores.ownership.read_watermark(each) for each in tasks}
        horizons: dict[int, float] = {}
        for partition, reading in found.items():
            # A partition without an owner would begin at the time of its first owner, and never
            # read earlier rows: it is begun at the first row instead.
            claim = answered(reading, JOB_S) or self._begin(partition, tasks[partition])
            horizons[partition] = claim.watermark.loaded_until_ms
        return horizons

    def _begin(self, partition: int, tasks: Sequence[StoredTask]) -> Claim:
        first_ms = min(self._ports.now_ms(), *(task.key.scheduled_ms for task in tasks))
        with self._bulk:
            return self._ports.begin_partition(partition, Claim(1, initial_watermark(first_ms)))

    def _occupied(self, stores: Stores, buckets: Collection[Bucket]) -> frozenset[Bucket]:
        """Return the buckets that hold rows or completions: there a key may be in use."""
        if self._ports.list_buckets is not None:
            return self._listed(self._ports.list_buckets, buckets)
        occupied = set()
        waiting = deque(sorted(buckets))
        while waiting:
            asked: list[tuple[Bucket, Future[TaskPage], Future[Sequence[Completion]]]] = []
            for bucket in [waiting.popleft() for _ in range(min(len(waiting), _BUCKETS_ASKED_MAX))]:
                start, end_ms = first_key_at(bucket.hour_ms), bucket.hour_ms + HOUR_MS
                page = stores.schedule.load_tasks(bucket.partition, start, end_ms, 1)
                end = first_key_at(end_ms)
                completions = stores.status.load_completions(bucket.partition, start, end)
                asked.append((bucket, page, completions))
            for bucket, found, closed in asked:
                if len(answered(found, JOB_S).tasks) + len(answered(closed, JOB_S)):
                    occupied.add(bucket)
        return frozenset(occupied)

    def _listed(self, list_buckets: ListBuckets, buckets: Collection[Bucket]) -> frozenset[Bucket]:
        """Ask for all buckets of a partition at once, or a few times if they are far apart."""
        hours: defaultdict[int, list[int]] = defaultdict(list)
        for bucket in sorted(buckets):
            hours[bucket.partition].append(bucket.hour_ms)
        found: set[Bucket] = set()
        for partition, of_partition in hours.items():
            for first_ms, end_ms in _spans(of_partition):
                for table in (BulkTable.TASKS, BulkTable.STATUSES):
                    with self._bulk:
                        found.update(list_buckets(table, (partition,), first_ms, end_ms))
        return frozenset(found.intersection(buckets))

    def _compare(
        self, stores: Stores, partition: int, tasks: Sequence[StoredTask]
    ) -> tuple[set[TaskKey], int]:
        """Return the keys that only the log can settle, and the number of keys that are done."""
        keys = [task.key for task in tasks]
        finding = stores.schedule.find_tasks(partition, keys)
        completions = answered(stores.status.find_completions(partition, keys), JOB_S)
        rows = answered(finding, JOB_S)
        done = {key for key, each in completions.items() if each.result.is_done or each.for_good}
        lost = {
            task.key
            for task in tasks
            if task.key not in done
            and (task.key in completions or _differs(rows.get(task.key), task))
        }
        return lost, len(done)

    def _append(self, partition: int, task: StoredTask) -> "Future[Position]":
        record = letter_of(task, partition, 0)
        assert record.key is not None, "a stored task has an ordering id"
        assert record.value is not None, "and becomes a record"
        if len(record.value) > self._record_bytes_max:
            raise TaskTooLarge(
                f"task {task.key} has {len(record.value)} bytes as a record, at most"
                f" {self._record_bytes_max} are allowed: see client.record_bytes_max"
            )
        return self._ports.writer.append(partition, record.key, record.value)


_BUCKETS_ASKED_MAX = 64
_SPAN_HOURS_MAX = 256
"""Most hours in one request, including ones without rows."""


def _spans(hours: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges [first, end) that hold all of these sorted hours."""
    first_ms = last_ms = hours[0]
    for hour_ms in hours[1:]:
        if hour_ms - first_ms >= _SPAN_HOURS_MAX * HOUR_MS:
            yield first_ms, last_ms + HOUR_MS
            first_ms = hour_ms
        last_ms = hour_ms
    yield first_ms, last_ms + HOUR_MS


def _differs(row: StoredTask | None, task: StoredTask) -> bool:
    """True if the store holds other data, or none, where ``task`` was just written."""
    return row is None or row.body != task.body


def _all(futures: Iterable["Future[_T]"]) -> None:
    for each in list(futures):
        answered(each, JOB_S)
