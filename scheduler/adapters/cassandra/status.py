"""``StatusStore`` on Cassandra: completions, as rows and segments, and attempts.

Reads go from hour to hour, writes are same-row batches, and a delete is one tombstone an hour
and table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    STORED_FAILED_RESULTS,
    STORED_RESULTS,
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
    read_attempt,
    read_result,
    stored_attempt,
)
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import InstallationBusy
from hourhand.scheduler.adapters.cassandra.hours import HourReads, HourWalk, whole_hours
from hourhand.scheduler.adapters.cassandra.packing import (
    PACKED_BOOLEANS,
    PackedBatch,
    PackedRow,
    batches,
    packed_bigint,
    packed_bytes,
    packed_int,
    packed_key,
    packed_text,
)
from hourhand.scheduler.adapters.cassandra.pages import KEY_BOUND, KEY_COLUMNS, KeyFinder, key_of
from hourhand.scheduler.adapters.cassandra.segments import CompletionSegments, entries_in
from hourhand.scheduler.adapters.cassandra.segments import key_of as row_key_of
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row
from hourhand.scheduler.adapters.completion_segments import merged, plain_by_hour

_COMPLETION = (
    f"SELECT {KEY_COLUMNS}, result, log_offset, attempts, toUnixTimestamp(started),"
    " toUnixTimestamp(finished), detail, WRITETIME(result) FROM {keyspace}.task_status"
)
_ATTEMPT = (
    f"SELECT {KEY_COLUMNS}, attempt, result, toUnixTimestamp(started),"
    " toUnixTimestamp(finished), toUnixTimestamp(next_attempt), used, suspect, error_class,"
    " error_message, error_stack, fence FROM {keyspace}.attempt_history"
)
_RANGE = f"{KEY_BOUND} > (?, ?, ?) AND {KEY_BOUND} <= (?, ?, ?)"
_FAILED = f"{_RANGE} AND result = ? LIMIT ? ALLOW FILTERING"
"""One result at a time: Cassandra cannot filter by IN on a column outside of the key."""
_DELETE = "DELETE FROM {keyspace}.%s USING TIMESTAMP ? WHERE partition_id = ? AND hour = ?"


class _Detail(msgspec.Struct, omit_defaults=True, frozen=True):
    """Rare values of completions; the names are those of their fields."""

    moved_to_ms: int | None = None
    for_good: bool = False
    reason: str | None = None


_NO_DETAIL = packed_bytes(b"")
_COMPLETION_RESULTS = {each: packed_text(text) for each, text in STORED_RESULTS.items()}
_COMPLETION_RESULT_OF = {each.value: each for each in CompletionResult}
_ATTEMPT_RESULTS = {each: packed_text(each.value) for each in AttemptResult}
_ATTEMPT_RESULT_OF = {each.value: each for each in AttemptResult}
_detail_encoder = msgspec.json.Encoder()
_detail_decoder = msgspec.json.Decoder(_Detail)


class CassandraStatusStore:
    """Completions and attempts; the contract is ``hourhand.actors.ports.store.StatusStore``."""

    def __init__(
        self, session: CassandraSession, in_segments: Callable[[], bool] = lambda: False
    ) -> None:
        """``in_segments`` returns True if segments may be written now; they are always read."""
        self._session = session
        self._in_segments = in_segments
        self._segments = CompletionSegments(session)
        self._completion_hours = HourWalk(session, "task_status")
        self._attempt_hours = HourWalk(session, "attempt_history")
        self._checkpoint_hours = HourWalk(session, "task_checkpoint")
        self._result_hours = HourWalk(session, "task_result")
        self._completion_finder = KeyFinder(session, _COMPLETION)
        self._attempt_finder = KeyFinder(session, _ATTEMPT)
        self._load_completions = HourReads(session, _COMPLETION, _RANGE)
        self._load_failed = HourReads(session, _COMPLETION, _FAILED)
        self._load_attempts = HourReads(session, _ATTEMPT, _RANGE)
        self._insert_completion = session.prepare(
            "INSERT INTO {keyspace}.task_status (partition_id, hour, scheduled_time, ordering_id,"
            " uniqueness_key, result, log_offset, attempts, started, finished, detail)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._insert_attempt = session.prepare(
            "INSERT INTO {keyspace}.attempt_history (partition_id, hour, scheduled_time,"
            " ordering_id, uniqueness_key, attempt, result, started, finished, next_attempt,"
            " used, suspect, error_class, error_message, error_stack, fence)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        # Segments last: readers see a success meanwhile, never the row that it replaced.
        self._deletes = [
            session.prepare(_DELETE % table)
            for table in (
                *("task_status", "attempt_history", "task_checkpoint", "task_result"),
                "completion_segment",
            )
        ]

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions; of two with one key in one call the last counts."""
        by_hour: Mapping[int, Sequence[Completion]] = {}
        if self._in_segments():
            distinct = {each.key: each for each in completions}.values()
            by_hour, completions = plain_by_hour(distinct, write_time)
        at = packed_bigint(write_time)
        rows = (_packed_completion(each, at) for each in completions)
        segments = self._segments.batches(partition, by_hour, write_time)
        return self._write(self._insert_completion, partition, rows, segments)

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> "Future[Sequence[Completion]]":
        if failed_max is not None:
            return self._session.submit(lambda: self._failed(partition, after, up_to, failed_max))

        def work() -> Sequence[Completion]:
            entries = self._segments.between(partition, after, up_to)
            rows = self._range(
                self._completion_hours, self._load_completions, partition, after, up_to
            )
            return [_completion(row) for row in _standing(rows, entries)]

        return self._session.submit(work)

    def _failed(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int
    ) -> Sequence[Completion]:
        """Read failed completions, hour by hour; segments hold none."""
        found: list[Completion] = []
        end_ms = hour_of(up_to.scheduled_ms) + HOUR_MS
        groups = self._completion_hours.groups(partition, hour_of(after.scheduled_ms), end_ms)
        for hours in groups if after < up_to else ():
            wanted = failed_max - len(found)
            rows = [
                row
                for result in STORED_FAILED_RESULTS
                for row in self._session.execute(
                    self._load_failed.bind(partition, hours, (*after, *up_to, result.value, wanted))
                )
            ]
            found += sorted(map(_completion, rows), key=attrgetter("key"))[:wanted]
            if len(found) == failed_max:
                break
        return found

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        def work() -> Mapping[TaskKey, Completion]:
            entries = self._segments.find(partition, keys)
            rows = self._completion_finder.find(partition, keys)
            if entries:
                rows.sort(key=row_key_of)
            return {key_of(row): _completion(row) for row in _standing(rows, entries)}

        return self._session.submit(work)

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Write attempts; of two with one key and number in one call the last counts."""
        at = packed_bigint(write_time)
        rows = (_packed_attempt(stored_attempt(each), at) for each in attempts)
        return self._write(self._insert_attempt, partition, rows)

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        def work() -> Sequence[AttemptRecord]:
            return [
                _attempt(row)
                for row in self._range(
                    self._attempt_hours, self._load_attempts, partition, after, up_to
                )
            ]

        return self._session.submit(work)

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        def work() -> Sequence[AttemptRecord]:
            found = [_attempt(row) for row in self._attempt_finder.find(partition, keys)]
            return sorted(found, key=lambda each: (each.key, each.attempt))

        return self._session.submit(work)

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours of completions, attempts, checkpoints and results, [first, end): the
        last ones, and those that hold any of them.
        """
        first_ms, end_ms = whole_hours(first_hour_ms, end_hour_ms)

        def work() -> int:
            attempted, done_ms = self._attempt_hours.to_delete(partition, first_ms, end_ms)
            completed, done_ms = self._completion_hours.to_delete(partition, first_ms, done_ms)
            segmented, done_ms = self._segments.hours.to_delete(partition, first_ms, done_ms)
            noted, done_ms = self._checkpoint_hours.to_delete(partition, first_ms, done_ms)
            returned, done_ms = self._result_hours.to_delete(partition, first_ms, done_ms)
            hours = {*attempted, *completed, *segmented, *noted, *returned}
            hours = {each for each in hours if each < done_ms}
            for delete in self._deletes:
                self._session.execute_all(
                    [delete.bind((write_time, partition, hour)) for hour in sorted(hours)]
                )
            return done_ms

        return self._session.submit(work)

    def turn_segments_into_rows(self) -> int:
        """Write the entries of all segments as rows with the segments' write times; waits.

        Returns the number of segments. Rows are written before segments are deleted, so a reader
        misses nothing meanwhile; a row that a later delete covers stays deleted. Raises
        StoreUnavailable, and InstallationBusy if further segments were written meanwhile.
        """
        turned = 0
        for bucket, segments in self._segments.pages():
            written = [
                self._write(
                    self._insert_completion,
                    bucket.partition,
                    [
                        _packed_completion(_completion(row), packed_bigint(row[-1]))
                        for row in entries_in(segment)
                    ],
                )
                for segment in segments
            ]
            for each in written:
                each.result()
            self._segments.delete(bucket, segments)
            turned += len(segments)
        if next(self._segments.pages(), None) is not None:
            raise InstallationBusy(
                f"{turned} segments became rows, but nodes wrote further ones meanwhile: set"
                " cassandra.completion_segments to 'off' for all of them, restart them, and run"
                " 'hourhand migrate' once more"
            )
        return turned

    def _range(
        self, walk: HourWalk, reads: HourReads, partition: int, after: TaskKey, up_to: TaskKey
    ) -> list[Row]:
        if after >= up_to:
            return []
        found: list[Row] = []
        end_ms = hour_of(up_to.scheduled_ms) + HOUR_MS
        for hours in walk.groups(partition, hour_of(after.scheduled_ms), end_ms):
            found += self._session.execute(reads.bind(partition, hours, (*after, *up_to)))
        return found

    def _write(
        self,
        prepared: Any,
        partition: int,
        rows: Iterable[PackedRow],
        segments: Iterable[PackedBatch] = (),
    ) -> "Future[None]":
        limit_bytes = self._session.settings.batch_bytes
        return self._session.write(chain(batches(prepared, partition, rows, limit_bytes), segments))


def _standing(rows: Sequence[Row], entries: Sequence[Row]) -> Iterable[Row]:
    """Return, from rows and entries in key order, the version of each key that counts."""
    return merged(rows, entries, row_key_of) if entries else rows


def _packed_completion(completion: Completion, write_time: bytes) -> PackedRow:
    detail = _NO_DETAIL
    for_good = completion.is_stored_for_good
    if completion.reason is not None or for_good or completion.moved_to_ms is not None:
        fields = _Detail(completion.moved_to_ms, for_good, completion.reason)
        detail = packed_bytes(_detail_encoder.encode(fields))
    values = (
        _COMPLETION_RESULTS[completion.result],
        packed_bigint(completion.offset),
        packed_int(completion.attempts),
        packed_bigint(completion.started_ms),
        packed_bigint(completion.finished_ms),
        detail,
        write_time,
    )
    return completion.key, packed_key(completion.key), b"".join(values)


def _completion(row: Row) -> Completion:
    completion = Completion(
        key=key_of(row),
        result=_COMPLETION_RESULT_OF[row[3]],
        offset=row[4],
        attempts=row[5],
        started_ms=row[6],
        finished_ms=row[7],
    )
    if not row[8]:
        return completion
    detail = _detail_decoder.decode(row[8])
    result, for_good = read_result(completion.result, for_good=detail.for_good)
    return msgspec.structs.replace(
        completion,
        result=result,
        moved_to_ms=detail.moved_to_ms,
        for_good=for_good,
        reason=detail.reason,
    )


def _packed_attempt(attempt: AttemptRecord, write_time: bytes) -> PackedRow:
    values = (
        _ATTEMPT_RESULTS[attempt.result],
        packed_bigint(attempt.started_ms),
        packed_bigint(attempt.finished_ms),
        packed_bigint(attempt.next_attempt_ms),
        packed_int(attempt.used),
        PACKED_BOOLEANS[attempt.suspect],
        packed_text(attempt.error_class),
        packed_text(attempt.error_message),
        packed_text(attempt.error_stack),
        packed_bigint(attempt.fence),
        write_time,
    )
    clustering = packed_key(attempt.key) + packed_int(attempt.attempt)
    return attempt.key, clustering, b"".join(values)


def _attempt(row: Row) -> AttemptRecord:
    return read_attempt(
        AttemptRecord(
            key=key_of(row),
            attempt=row[3],
            result=_ATTEMPT_RESULT_OF[row[4]],
            started_ms=row[5],
            finished_ms=row[6],
            next_attempt_ms=row[7],
            used=row[8],
            suspect=row[9],
            error_class=row[10],
            error_message=row[11],
            error_stack=row[12],
            fence=row[13],
        )
    )
