"""The table ``completion_segment``: plain successes of one hour, some hundred in one row.

It decides which segments are read for a range or for keys, and how entries are taken out of one.
``completion_segments`` decides the content of a segment and which version of a key counts. Entries
leave here in the columns of ``task_status``, with the write time behind.

A reader reads segments first and rows afterwards: when segments are turned into rows, the rows are
written before the segments go, so nothing is missed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter

from cassandra.query import BatchStatement, BatchType

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.scheduler.adapters.cassandra.hours import HourReads, HourWalk
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedBatch,
    PackedRow,
    batches,
    packed_bigint,
    packed_bigints,
    packed_bytes,
    packed_int,
)
from hourhand.scheduler.adapters.cassandra.pages import can_exist
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row
from hourhand.scheduler.adapters.completion_segments import segments_of, unpacked
from hourhand.scheduler.ports.bulk import Bucket

SEGMENT = (
    "SELECT toUnixTimestamp(first_time), toUnixTimestamp(last_time), write_time, number, body,"
    " gone FROM {keyspace}.completion_segment"
)
"""The columns for ``entries_in``."""
OVERLAPPING = "last_time >= ? AND first_time <= ? ALLOW FILTERING"
"""Used with given Cassandra partitions only: the server skips other segments in them."""
FETCH_SEGMENTS = 32
"""Rows of one answer: each of some ten kilobytes, and at most half a megabyte."""
_PLACE = "partition_id = ? AND hour = ? AND first_time = ? AND write_time = ? AND number = ?"
_SOUGHT_TIMES_MAX = 8
"""Times of an hour that are looked up one by one; more are read as one range."""

key_of = itemgetter(slice(0, 3))
"""The key of a row."""


class CompletionSegments:
    """Segments of one keyspace."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self.hours = HourWalk(session, "completion_segment")
        self._reads = HourReads(session, SEGMENT, OVERLAPPING, FETCH_SEGMENTS)
        self._list = session.prepare(
            "SELECT DISTINCT partition_id, toUnixTimestamp(hour) FROM {keyspace}.completion_segment"
        )
        self._all = session.prepare(f"{SEGMENT} WHERE partition_id = ? AND hour = ?")
        self._all.fetch_size = FETCH_SEGMENTS
        self._insert = session.prepare(
            "INSERT INTO {keyspace}.completion_segment (partition_id, hour, first_time,"
            " write_time, number, last_time, body) VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._take_out = session.prepare(
            "UPDATE {keyspace}.completion_segment USING TIMESTAMP ? SET gone = gone + ?"
            f" WHERE {_PLACE}"
        )
        self._delete = session.prepare(
            f"DELETE FROM {{keyspace}}.completion_segment USING TIMESTAMP ? WHERE {_PLACE}"
        )

    def batches(
        self, partition: int, by_hour: Mapping[int, Sequence[Completion]], write_time: int
    ) -> Iterator[PackedBatch]:
        """Yield statements that write plain successes, given by hour, as segments."""
        rows = (
            _packed_segment(number, write_time, *segment)
            for completions in by_hour.values()
            for number, segment in enumerate(segments_of(completions))
        )
        return batches(self._insert, partition, rows, self._session.settings.batch_bytes)

    def pages(self) -> Iterator[tuple[Bucket, list[Row]]]:
        """Yield all segments of the table, some of a bucket at a time; waits.

        Raises StoreUnavailable.
        """
        buckets = sorted(Bucket(*row) for row in self._session.execute(self._list.bind(())))
        reads = (self._all.bind(bucket) for bucket in buckets)
        for position, page in self._session.stream(reads):
            yield buckets[position], page

    def delete(self, bucket: Bucket, segments: Sequence[Row]) -> None:
        """Remove segments as they were read, without later versions; waits.

        Raises StoreUnavailable.
        """
        self._session.execute_all(
            [
                self._delete.bind((write_time, *bucket, first_ms, write_time, number))
                for first_ms, _, write_time, number, *_ in segments
            ]
        )

    def between(self, partition: int, after: TaskKey, up_to: TaskKey) -> list[Row]:
        """Return all entries with ``after`` < key <= ``up_to``, in key order; waits.

        Raises StoreUnavailable.
        """
        if after >= up_to:
            return []
        found: list[Row] = []
        end_ms = hour_of(up_to.scheduled_ms) + HOUR_MS
        span = (after.scheduled_ms, up_to.scheduled_ms)
        for hours in self.hours.groups(partition, hour_of(after.scheduled_ms), end_ms):
            for segment in self._session.execute(self._reads.bind(partition, hours, span)):
                found += (row for row in entries_in(segment) if after < key_of(row) <= up_to)
        return sorted(found, key=key_of)

    def find(self, partition: int, keys: Collection[TaskKey]) -> list[Row]:
        """Return the entries of single keys, in key order; waits.  Raises StoreUnavailable."""
        wanted = set(filter(can_exist, keys))
        times_of: defaultdict[int, set[int]] = defaultdict(set)
        for key in wanted:
            times_of[hour_of(key.scheduled_ms)].add(key.scheduled_ms)
        answers = self._session.execute_all(
            [
                self._reads.bind(partition, [hour_ms], span)
                for hour_ms, times in times_of.items()
                for span in _spans(times)
            ]
        )
        segments = {segment[:4]: segment for answer in answers for segment in answer}
        found = [row for each in segments.values() for row in entries_in(each, wanted)]
        return sorted(found, key=key_of)

    def remove(self, bucket: Bucket, doomed: Mapping[TaskKey, int]) -> None:
        """Take keys out of their segments, each up to a write time; waits.

        Raises StoreUnavailable. May be repeated, also concurrently.
        """
        times = [key.scheduled_ms for key in doomed]
        if not times:
            return
        read = self._reads.bind(bucket.partition, [bucket.hour_ms], (min(times), max(times)))
        for _, page in self._session.stream([read]):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for segment in page:
                self._add_removal(batch, bucket, segment, doomed)
            if len(batch):
                batch.is_idempotent = True
                self._session.execute(batch)

    def _add_removal(
        self, batch: BatchStatement, bucket: Bucket, segment: Row, doomed: Mapping[TaskKey, int]
    ) -> None:
        first_ms, _, write_time, number, body, gone = segment
        keys = [entry[0] for entry in unpacked(body)] if body else []
        taken = {place for place, key in enumerate(keys) if doomed.get(key, -1) >= write_time}
        # At the segment's own write time: a delete of the segment deletes this too.
        place = (*bucket, first_ms, write_time, number)
        if keys and len(taken.union(gone or ())) == len(keys):
            batch.add(self._delete, (write_time, *place))
        elif taken:
            batch.add(self._take_out, (write_time, taken, *place))


def entries_in(segment: Row, wanted: Collection[TaskKey] | None = None) -> list[Row]:
    """Return the entries of a segment, those of single keys or all, as rows in key order."""
    _, _, write_time, _, body, gone = segment
    if body is None:
        # Gaps that a job left in a segment that was deleted long ago.
        return []
    left_out = frozenset(gone or ())
    return [
        (*key, "success", offset, attempts, started_ms, finished_ms, "", write_time)
        for place, (key, offset, attempts, started_ms, finished_ms) in enumerate(
            unpacked(body, wanted)
        )
        if (wanted is None or key in wanted) and place not in left_out
    ]


def _packed_segment(
    number: int, write_time: int, first_ms: int, last_ms: int, body: bytes
) -> PackedRow:
    clustering = packed_bigints(first_ms, write_time) + packed_int(number)
    values = packed_bigint(last_ms) + packed_bytes(body) + packed_bigint(write_time)
    return TaskKey(first_ms, "", ""), clustering, values


def _spans(times: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last time of each read that together cover all of these times."""
    if len(times) > _SOUGHT_TIMES_MAX:
        return [(min(times), max(times))]
    return [(each, each) for each in times]
