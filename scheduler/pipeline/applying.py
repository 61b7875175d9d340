"""Applies the records of a DataFrame to a target, each old partition in one task.

No node has read these records, and no node works on the target yet. Decides the order, which is the
log's; the effect of a record is decided as on a node, by the same functions, with offsets that are
the records' own after the move. So a record that took effect before its offset was committed
changes nothing, and the new log begins empty.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from hourhand.actors.model.execution.attempts import attempt_state
from hourhand.actors.model.execution.commands import (
    Decision,
    KnownTask,
    decide,
    replaces_in_vain,
    split_runs,
)
from hourhand.actors.model.execution.pair_search import PAIR_PAGE_ROWS, PairSearch
from hourhand.actors.model.task.codec import Command, CommandKind, LogRecord, decode_record
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CommandOutcome, Completion, RecordedOutcome
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.actors.ports.log import LogWriter
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.copying import Destination, attempt_number
from hourhand.scheduler.pipeline.state_tables import records_of
from hourhand.scheduler.pipeline.transform_move import moved_command, moved_task
from hourhand.scheduler.runtime.answers import JOB_S, answered

_PIECE_RECORDS = 1_000
_APPLIED = "partition int, earliest bigint, records bigint, poison bigint, elsewhere bigint"
_APPLIED_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("earliest", "records", "poison", "elsewhere")),
    ]
)


class OutcomePlace(NamedTuple):
    """The key of an outcome: its record's old partition and renumbered offset."""

    partition: int
    offset: int


class TailApplier:
    """Applies the records of one old partition, in order; used by one thread."""

    def __init__(
        self,
        stores: Stores,
        writer: LogWriter,
        *,
        new_count: int,
        next_write_time: Callable[[int], int],
        now_ms: Callable[[], int],
        row_bytes_max: int,
    ) -> None:
        self._stores = stores
        self._writer = writer
        self._new_count = new_count
        self._next_write_time = next_write_time
        self._now_ms = now_ms
        self._row_bytes_max = row_bytes_max
        self._earliest: dict[int, int] = {}

    @property
    def earliest(self) -> Mapping[int, int]:
        """The first time of a row that was written or left open, by new partition."""
        return self._earliest

    def decoded(self, record: LogRecord) -> StoredTask | Command | None:
        """Return the entry of a record; None for poison, which is then in the dead letters."""
        try:
            return self._read(record)
        except PoisonRecord as error:
            answered(self._writer.dead_letter(record, str(error)), JOB_S)
            return None

    def peeked(self, record: LogRecord) -> StoredTask | Command | None:
        """Return the entry of a record; None for poison, which was put aside before."""
        try:
            return self._read(record)
        except PoisonRecord:
            return None

    def _read(self, record: LogRecord) -> StoredTask | Command:
        size_bytes = len(record.value or b"")
        if size_bytes > self._row_bytes_max:
            raise PoisonRecord(f"{size_bytes} bytes, a row holds at most {self._row_bytes_max}")
        return decode_record(record)

    def apply(self, partition: int, entries: Sequence[StoredTask | Command]) -> None:
        """Make entries durable; ``partition`` is the old one, in which outcomes are stored."""
        moved = [
            moved_command(each) if isinstance(each, Command) else moved_task(each)
            for each in entries
        ]
        for run in split_runs(moved):
            if isinstance(run, Command):
                self._command(partition, run)
            else:
                self._insert(run)

    def _insert(self, tasks: Iterable[StoredTask]) -> None:
        by_owner: defaultdict[int, list[StoredTask]] = defaultdict(list)
        for task in tasks:
            by_owner[self._owner(task.key)].append(task)
        asked = {
            owner: self._stores.schedule.find_tasks(owner, [task.key for task in rows])
            for owner, rows in by_owner.items()
        }
        writes = []
        for owner, rows in by_owner.items():
            found = answered(asked[owner], JOB_S)
            # A row that a later record made stays: this record took effect before.
            newer = [t for t in rows if t.key not in found or found[t.key].offset < t.offset]
            self._note(owner, rows)
            if newer:
                at = self._next_write_time(owner)
                writes.append(self._stores.schedule.insert_tasks(owner, newer, at))
        for each in writes:
            answered(each, JOB_S)

    def _command(self, partition: int, command: Command) -> None:
        """Write completion, then row, then outcome, as a node does."""
        stores = self._stores
        place = OutcomePlace(partition, command.offset)
        recorded = answered(stores.ownership.find_outcome(*place), JOB_S)
        # As on a node: an outcome with another key is of a command of another topic.
        if recorded is not None and command.is_for(recorded.key):
            return
        owner = self._owner(command.key)
        if command.by_pair:
            named = self._named(owner, command)
            if isinstance(named, CommandOutcome):
                self._record(place, owner, command.key, Decision(named))
                return
            command = replace(command, key=named)
        target = None
        if command.new_key is not None:
            found = answered(stores.status.find_completions(owner, [command.new_key]), JOB_S)
            target = found.get(command.new_key)
        if command.kind is CommandKind.REPLACE and replaces_in_vain(command, target):
            in_vain = Decision(CommandOutcome.ALREADY_CLOSED, new_key=command.new_key)
            self._record(place, owner, command.key, in_vain)
            return
        known = self._known(owner, command.key)
        decision = decide(command, known, target, self._now_ms())
        if decision.completion is not None:
            self._close(owner, decision.completion)
        if decision.row is not None:
            self._insert([decision.row])
        elif decision.resumed is not None:
            self._note(owner, [decision.resumed])
        key = command.keys[-1] if decision.is_new else command.key
        self._record(place, owner, key, decision)

    def _named(self, owner: int, command: Command) -> TaskKey | CommandOutcome:
        """Return the key that a command by pair means, or the outcome if it means none."""
        search, after = PairSearch(command), first_key_at(INSTANT_MIN_MS)
        end = first_key_at(INSTANT_MAX_MS + 1)
        while True:
            reading = self._stores.schedule.load_ordering(
                owner, command.key.ordering_id, after, end, PAIR_PAGE_ROWS
            )
            page = answered(reading, JOB_S)
            rows = [row for row in page.tasks if search.concerns(row)]
            closing = self._stores.status.find_completions(owner, [row.key for row in rows])
            closed = answered(closing, JOB_S)
            for row in rows:
                search.add(row, closed.get(row.key))
            if page.complete:
                return search.found()
            after = page.tasks[-1].key

    def _known(self, owner: int, key: TaskKey) -> KnownTask:
        status = self._stores.status
        rows = self._stores.schedule.find_tasks(owner, [key])
        completing = status.find_completions(owner, [key])
        attempting = status.find_attempts(owner, [key])
        completion = answered(completing, JOB_S).get(key)
        attempts: AttemptState = attempt_state(answered(attempting, JOB_S), completion)
        return KnownTask(answered(rows, JOB_S).get(key), completion, attempts, running=False)

    def _close(self, owner: int, completion: Completion) -> None:
        at = self._next_write_time(owner)
        answered(self._stores.status.insert_completions(owner, [completion], at), JOB_S)

    def _record(self, place: OutcomePlace, owner: int, key: TaskKey, decision: Decision) -> None:
        outcome = RecordedOutcome(decision.outcome, key, decision.new_key)
        at = self._next_write_time(owner)
        answered(self._stores.ownership.insert_outcome(*place, outcome, at), JOB_S)

    def _note(self, owner: int, rows: Iterable[StoredTask]) -> None:
        first_ms = min(row.key.scheduled_ms for row in rows)
        self._earliest[owner] = min(first_ms, self._earliest.get(owner, first_ms))

    def _owner(self, key: TaskKey) -> int:
        return partition_of(key.ordering_id, self._new_count)


def in_pieces(
    entries: Iterable[StoredTask | Command], size: int
) -> Iterator[list[StoredTask | Command]]:
    """Cut entries into lists of at most ``size``."""
    piece: list[StoredTask | Command] = []
    for entry in entries:
        piece.append(entry)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece


class AppliedLog(NamedTuple):
    """The effects of the records that no node had read."""

    counts: dict[str, int]
    earliest: Mapping[int, int]
    """By new partition, the first time of a row that was written or left open."""


class _Share(NamedTuple):
    """The arguments of one Spark task; pickled to the workers."""

    destination: Destination
    ends: Mapping[int, int]
    new_count: int
    elsewhere: bool
    """True for records in a wrong partition, False for all others."""


def apply_log(
    log: DataFrame, destination: Destination, ends: Mapping[int, int], new_count: int
) -> AppliedLog:
    """Apply all records; those in a wrong partition last, in the order of a node's appends.

    ``ends`` has the ends of the old log, by all of its partitions.
    """
    share = _Share(destination, ends, new_count, elsewhere=False)
    applied = _collected(_in_order(log, "partition").mapInArrow(partial(_apply, share), _APPLIED))
    if not applied.counts["elsewhere"]:
        return applied
    # All in one task: their owners may be any, and their order is the log's.
    strays = log.repartition(1).sortWithinPartitions("partition", "log_offset")
    share = share._replace(elsewhere=True)
    late = _collected(strays.mapInArrow(partial(_apply, share), _APPLIED))
    earliest = {
        each: min(first.get(each, 2**62) for first in (applied.earliest, late.earliest))
        for each in applied.earliest.keys() | late.earliest.keys()
    }
    return AppliedLog(applied.counts, earliest)


def _in_order(log: DataFrame, column: str) -> DataFrame:
    return log.repartition(column).sortWithinPartitions(column, "log_offset")


def _collected(applied: DataFrame) -> AppliedLog:
    """Collect one row for each new partition on the driver."""
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in _APPLIED_ARROW.names[2:]]
    rows = applied.groupBy("partition").agg(f.min("earliest").alias("earliest"), *sums).collect()
    counts = {name: sum(row[name] for row in rows) for name in _APPLIED_ARROW.names[2:]}
    return AppliedLog(counts, {row.partition: row.earliest for row in rows if row.partition >= 0})


def _apply(share: _Share, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Apply the records of a Spark task and yield the counts."""
    first = next(batches, None)
    if first is None:
        return
    settings = share.destination.options.settings()
    stores, writer = wiring.open_stores(settings), wiring.open_writer(settings)
    try:
        applier = TailApplier(
            stores,
            writer,
            new_count=share.new_count,
            next_write_time=_write_times(share.destination),
            now_ms=wiring.open_clock().now_ms,
            row_bytes_max=settings.tree.execution.row_bytes_max,
        )
        counts = _Counts()
        batch: pa.RecordBatch | None = first
        while batch is not None:
            for old, entries in _entries(share, applier, counts, batch):
                for piece in in_pieces(entries, _PIECE_RECORDS):
                    applier.apply(old, piece)
            batch = next(batches, None)
        yield _told(applier.earliest, counts)
    finally:
        writer.close()
        stores.close()


class _Counts:
    """The counts of one Spark task."""

    def __init__(self) -> None:
        self.records = 0
        self.poison = 0
        self.elsewhere = 0
        self.late = count()
        """Numbers the records that are applied after the end of their own partition."""


def _entries(
    share: _Share, applier: TailApplier, counts: _Counts, batch: pa.RecordBatch
) -> Iterator[tuple[int, list[StoredTask | Command]]]:
    """Return a batch's entries by the old partition in which they are applied."""
    old_count = len(share.ends)
    by_old: dict[int, list[StoredTask | Command]] = {}
    for record in records_of(batch):
        entry = applier.decoded(record) if not share.elsewhere else applier.peeked(record)
        if entry is None:
            counts.poison += not share.elsewhere
            continue
        home = partition_of(entry.key.ordering_id, old_count)
        strayed = home != record.partition
        counts.elsewhere += strayed
        if strayed != share.elsewhere:
            continue
        if strayed:
            # In the order of a node's appends: behind all records of its own partition.
            entry = replace(entry, offset=share.ends[home] + next(counts.late))
        counts.records += 1
        by_old.setdefault(home, []).append(entry)
    yield from by_old.items()


def _write_times(destination: Destination) -> Callable[[int], int]:
    numbers = count(attempt_number())
    return lambda partition: destination.write_time(partition, next(numbers))


def _told(earliest: Mapping[int, int], counts: _Counts) -> pa.RecordBatch:
    # Partition -1 carries the counts of the task as a whole.
    rows = [(each, at, 0, 0, 0) for each, at in earliest.items()]
    rows.append((-1, 0, counts.records, counts.poison, counts.elsewhere))
    columns = [
        pa.array(values, field.type)
        for field, values in zip(_APPLIED_ARROW, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_APPLIED_ARROW)
