"""The true contents of log and store, whatever any node believes.

The simulation looks into the memory adapters directly.  Nothing here changes them.  Offsets are
those that are kept: of a topic that was recreated they lie above all of the ones before it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Generic, TypeVar

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT, Watermark
from hourhand.actors.model.task.codec import Command, CommandKind, LogRecord, decode_record
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import (
    PayloadSealed,
    PoisonRecord,
    TaskTooLarge,
    UnknownKind,
)
from hourhand.actors.model.values.instant import INSTANT_MIN_MS
from hourhand.actors.model.values.log_offset import era_of, kept_offset
from hourhand.scheduler.adapters.memory.broker import MemoryBroker, MemoryPartition
from hourhand.scheduler.adapters.memory.stores import MemoryStores
from hourhand.scheduler.adapters.memory.tables import Rows
from hourhand.scheduler.configuration.settings import Settings

_HOLDS = {UnknownKind.__name__, PayloadSealed.__name__}
"""Errors for which nodes hold tasks for others."""
_OUTBOX_REASON = re.compile(r"row \d+ of the outbox: ")

Key = TypeVar("Key")
Value = TypeVar("Value")


class WatchedRows(Rows[Value]):
    """Rows that tell of every write that took effect."""

    def __init__(
        self,
        stored: Callable[[int, TaskKey, Value, int], None],
        removed: Callable[[int, dict[TaskKey, tuple[int, Value]], int], None],
    ) -> None:
        """``removed`` is told of each delete: what went, and up to when hours were meant."""
        super().__init__()
        self._stored = stored
        self._removed = removed

    def insert(
        self, partition: int, key: TaskKey, value: Value, write_time: int, number: int = 0
    ) -> None:
        """Write a row, and tell where it did not lose against a later one."""
        super().insert(partition, key, value, write_time, number)
        if self._cells[partition].get((key, number)) == (write_time, value):
            self._stored(partition, key, value, write_time)

    def delete(
        self, partition: int, first_ms: int, end_ms: int, write_time: int, held: set[int]
    ) -> None:
        """Remove whole hours, and tell what was removed, with its write time."""
        first, end = first_key_at(first_ms), first_key_at(end_ms)
        before = {k: c for (k, _), c in self._cells[partition].items() if first <= k < end}
        super().delete(partition, first_ms, end_ms, write_time, held)
        cells = self._cells[partition]
        gone = {key: cell for key, cell in before.items() if (key, 0) not in cells}
        self._removed(partition, gone, end_ms)


class WatchedDict(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that tells of every write, with the value that stood there before."""

    def __init__(self, stored: Callable[[Key, Value, Value | None], None]) -> None:
        super().__init__()
        self._stored = stored

    def __setitem__(self, key: Key, value: Value) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        self._stored(key, value, before)

    def update(self, values: Mapping[Key, Value]) -> None:  # type: ignore[override]
        """Write each."""
        for key, value in values.items():
            self[key] = value


class Truth:
    """Log and store of one run."""

    def __init__(self, broker: MemoryBroker, data: MemoryStores, settings: Settings) -> None:
        self._broker = broker
        self._data = data
        self._row_bytes_max = settings.tree.execution.row_bytes_max
        self._record_bytes_max = settings.client.record_bytes_max
        self._decoded: dict[tuple[int, int], StoredTask | Command | str] = {}
        self._swept: dict[tuple[int, TaskKey], tuple[int, Completion]] = {}
        """Completions whose retention was over."""
        self._decided: set[tuple[int, int]] = set()
        """Places of commands that ever had an outcome."""
        self._letters_read, self._lettered = 0, set[TaskKey]()
        self._outside: dict[TaskKey, int] = {}
        """Keys of rows that were written beside the log, and their partition."""
        self._gone: dict[str, Sequence[MemoryPartition]] = {}
        """The topics of this name that were deleted, the oldest first."""
        self._noted: defaultdict[int, list[str]] = defaultdict(list)
        """By partition: the topics that an owner noted in the store, the oldest first."""

    # The topic, and those that were deleted before it.

    def keep_topic(self) -> None:
        """Remember the topic, which is about to be deleted."""
        topic_id = self._broker.topic_id
        self._gone[topic_id] = self._broker.partitions
        # If nobody noted it, the next one has its place.
        self._decoded = {
            place: entry
            for place, entry in self._decoded.items()
            if era_of(place[1]) < len(self._noted[place[0]])
        }

    def note_topic(self, partition: int, topic_id: str) -> None:
        """Remember that the owner of a partition noted the topic in the store."""
        if topic_id and topic_id not in self._noted[partition]:
            self._noted[partition].append(topic_id)

    def kept(self, partition: int, topic_id: str, offset: int) -> int | None:
        """Return how an offset of a topic is kept; None where nobody ever read that topic."""
        topics = self._topics(partition)
        return kept_offset(topics.index(topic_id), offset) if topic_id in topics else None

    def _topics(self, partition: int) -> list[str]:
        """Return the topics that a partition's owners read, and the present one."""
        noted, present = self._noted[partition], self._broker.topic_id
        return noted if present in noted else [*noted, present]

    def _is_gone(self, partition: int, offset: int) -> bool:
        """True if an offset is of a topic that was deleted."""
        return bool(self._gone) and self._topics(partition)[era_of(offset)] in self._gone

    def counted(self, partition: int) -> Iterator[tuple[int, StoredTask | Command | str]]:
        """Yield offset and entry of every record except for those that were deleted unread."""
        for record in self.records(partition):
            if not self._is_gone(partition, record.offset) or self._is_durable(record):
                yield record.offset, self.entry(record)

    def at_broker_offset(self, partition: int, offset: int) -> Iterator[StoredTask | Command | str]:
        """Yield what stands, or stood, at an offset of the broker's, in each topic."""
        for topic in (*self._gone.values(), self._broker.partitions):
            for record in topic[partition].read(offset, 1)[0]:
                if record.offset == offset:
                    yield self._decode(record)

    def records(self, partition: int, first: int = 0) -> Iterator[LogRecord]:
        """Yield the records of a partition, those of deleted topics that somebody read first."""
        for era, topic_id in enumerate(self._topics(partition)):
            stored = self._gone.get(topic_id, self._broker.partitions)[partition]
            shift = kept_offset(era, 0)
            found = stored.read(max(0, first - shift), stored.end_offset + 1)[0]
            if shift:
                found = [replace(each, offset=shift + each.offset) for each in found]
            yield from found

    def appended_ms(self, partition: int, offset: int) -> int:
        """Return the wall time at which a record was appended."""
        return next(self.records(partition, offset)).timestamp_ms

    def entry(self, record: LogRecord) -> StoredTask | Command | str:
        """Return what a record says: an entry, ``poison`` or ``misplaced``."""
        place = (record.partition, record.offset)
        found = self._decoded.get(place)
        if found is None:
            found = self._decoded[place] = self._decode(record)
        return found

    def entries(self, partition: int) -> Iterator[tuple[int, StoredTask | Command | str]]:
        """Yield offset and entry of every record of a partition."""
        return ((record.offset, self.entry(record)) for record in self.records(partition))

    def _decode(self, record: LogRecord) -> StoredTask | Command | str:
        if len(record.value or b"") > self._row_bytes_max:
            return "poison"
        try:
            entry = decode_record(record)
        except PoisonRecord:
            return "poison"
        own = partition_of(entry.key.ordering_id, len(self._broker.partitions))
        return entry if own == record.partition else "misplaced"

    def undurable(
        self, partition: int, first: int, end: int, *, own: bool = False
    ) -> tuple[int, ...]:
        """Return the offsets in [first, end) whose record had no durable effect yet; with
        ``own``, of records that concern this partition.
        """
        # Unread records of an earlier topic are gone.
        first = max(first, kept_offset(era_of(end), 0))
        return tuple(
            record.offset
            for record in self.records(partition, first)
            if record.offset < end
            and not (own and isinstance(self.entry(record), str))
            and not self._is_durable(record)
        )

    def _is_durable(self, record: LogRecord) -> bool:
        match self.entry(record):
            case "poison":
                return (record.partition, record.offset) in self.dead_letters()
            case "misplaced":
                if self._is_homeless(record):
                    place = (record.partition, record.offset)
                    if place in self.dead_letters():
                        return True
                return any(
                    other.value == record.value and list(other.headers) == list(record.headers)
                    for partition in range(len(self._broker.partitions))
                    for other in self.records(partition)
                    if self.entry(other) != "misplaced"
                )
            case Command():
                return (record.partition, record.offset) in self._decided
            case StoredTask(key=key, offset=offset):
                row = self.row(record.partition, key)
                completion = self.last_completion(record.partition, key)
                return (row is not None and row.offset >= offset) or (
                    completion is not None and self._closes(record.partition, completion[1], offset)
                )
            case other:
                raise AssertionError(f"{other} is not an entry")

    def poison(self, partition: int) -> list[int]:
        """Return the offsets of records that can never be a row."""
        return [offset for offset, entry in self.entries(partition) if entry == "poison"]

    def homeless(self, partition: int) -> set[int]:
        """Return the offsets of misplaced records that may be refused where they belong."""
        return {
            record.offset
            for record in self.records(partition)
            if self.entry(record) == "misplaced" and self._is_homeless(record)
        }

    def _is_homeless(self, record: LogRecord) -> bool:
        if len(record.key or b"") + len(record.value or b"") > self._record_bytes_max:
            return True
        try:
            self._broker.check_size(record.key, record.value, record.headers)
        except TaskTooLarge:
            return True
        return False

    def dead_letters(self) -> dict[tuple[int, int], str]:
        """Return the reason of every dead letter of the log, by partition and offset."""
        found = {}
        for letter, reason in self._letters():
            headers = dict(letter.headers)
            partition, offset = headers["hourhandPartition"], headers["hourhandOffset"]
            if not _OUTBOX_REASON.match(reason):
                number, broker_offset = int(partition or b"-1"), int(offset or b"-1")
                found[number, self._kept_of_letter(letter, number, broker_offset)] = reason
        return found

    def _kept_of_letter(self, letter: LogRecord, partition: int, offset: int) -> int:
        """Return the kept offset of what a letter tells of, which says the broker's."""
        eras = len(self._topics(partition)) if partition >= 0 else 1
        if eras == 1:
            return offset
        places = [kept_offset(era, offset) for era in range(eras)]
        stood = {
            record.offset: record
            for place in places
            for record in islice(self.records(partition, place), 1)
            if record.offset == place
        }
        same = [at for at, record in stood.items() if record.value == letter.value]
        alike = [at for at, record in stood.items() if record.key == letter.key]
        return [offset, *stood, *alike, *same][-1]

    def has_letter(self, key: TaskKey) -> bool:
        """True if the dead letters have a task or command of a key."""
        letters = self._broker.dead_letters
        for letter in letters.read(self._letters_read, letters.end_offset + 1)[0]:
            self._letters_read = letter.offset + 1
            with suppress(PoisonRecord):
                self._lettered.add(decode_record(letter).key)
        return key in self._lettered

    def outbox_letters(self) -> set[bytes]:
        """Return what stands in the dead letters of an outbox."""
        letters = self._letters()
        return {letter.value or b"" for letter, reason in letters if _OUTBOX_REASON.match(reason)}

    def _letters(self) -> list[tuple[LogRecord, str]]:
        letters = self._broker.dead_letters
        found = letters.read(0, letters.end_offset + 1)[0]
        return [(each, (dict(each.headers)["hourhandReason"] or b"").decode()) for each in found]

    def row(self, partition: int, key: TaskKey) -> StoredTask | None:
        """Return a key's row."""
        cell = self._data.tasks._cells[partition].get((key, 0))
        return None if cell is None else cell[1]

    def rows_of_pair(self, partition: int, named: TaskKey) -> list[StoredTask]:
        """Return the rows that have both ids of a key."""
        cells = self._data.tasks._cells[partition].items()
        return [row for (key, _), (_, row) in cells if key[1:] == named[1:]]

    def completion(self, partition: int, key: TaskKey) -> tuple[int, Completion] | None:
        """Return the epoch that wrote a key's completion, and the completion."""
        cell = self._data.completions._cells[partition].get((key, 0))
        return None if cell is None else (cell[0] >> EPOCH_SHIFT, cell[1])

    def failures(self, partition: int) -> Counter[TaskKey]:
        """Count the failed attempts that history keeps of each key; a hold is not an attempt."""
        cells = self._data.attempts._cells[partition].items()
        return Counter(
            key
            for (key, _), (_, row) in cells
            if row.finished_ms is not None and row.error_class not in _HOLDS
        )

    def last_counted_start_ms(self, partition: int, key: TaskKey) -> int | None:
        """Return when the last start began that counts as an attempt and has no end, if any."""
        cells = self._data.attempts._cells[partition].items()
        started = (
            row.started_ms
            for (of, _), (_, row) in cells
            if of == key and row.suspect and row.finished_ms is None
        )
        return max(started, default=None)

    def last_completion(self, partition: int, key: TaskKey) -> tuple[int, Completion] | None:
        """Return a key's completion, or the last one that its retention outlived."""
        return self.completion(partition, key) or self._swept.get((partition, key))

    def note_swept(self, partition: int, gone: Mapping[TaskKey, tuple[int, Completion]]) -> None:
        """Remember completions that were deleted."""
        for key, (write_time, completion) in gone.items():
            self._swept[partition, key] = (write_time >> EPOCH_SHIFT, completion)

    def note_decided(self, partition: int, offset: int) -> None:
        """Remember that a command had an outcome, which goes with its key's completion."""
        self._decided.add((partition, offset))

    def note_outside(self, partition: int, key: TaskKey) -> None:
        """Expect a row that was written beside the log to run, as if a record had made it."""
        self._outside[key] = partition

    def is_closed(self, partition: int, row: StoredTask) -> bool:
        """True if the store says that a row is closed."""
        completion = self.last_completion(partition, row.key)
        return completion is not None and self._closes(partition, completion[1], row.offset)

    def _closes(self, partition: int, completion: Completion, offset: int) -> bool:
        """True if a completion closes a row made by that record: the rule of promises P5 and P6,
        said again without the engine's own words for it.
        """
        match completion.result:
            case CompletionResult.SUCCESS | CompletionResult.FAILURE:
                return True
            case CompletionResult.DROPPED | CompletionResult.EXPIRED:
                return True
            case CompletionResult.CANCELLED | CompletionResult.MOVED:
                return offset <= completion.offset or self._is_run_now(partition, completion)
            case _:
                return False

    def _is_run_now(self, partition: int, completion: Completion) -> bool:
        entry = self.entry(next(self.records(partition, completion.offset)))
        return isinstance(entry, Command) and entry.kind is CommandKind.RUN_NOW

    def brings_data(self, partition: int, offset: int) -> bool:
        """True if the record there is a command with the data of a dead letter."""
        entry = self.entry(next(self.records(partition, offset)))
        return isinstance(entry, Command) and entry.body is not None

    def orphans(self, partition: int, mark: Watermark, durable: int) -> tuple[TaskKey, ...]:
        """Return the open tasks, made by records below ``durable``, a restart would not load.

        A row that was written beside the log counts when its record is durable.
        """
        firsts = {each.ordering_id: each.first_ms for each in mark.stragglers}
        rows = self._data.tasks.before(partition, first_key_at(INSTANT_MIN_MS), mark.watermark_ms)
        return tuple(row.key for row in self._unlisted(partition, rows, firsts, durable))

    def _unlisted(
        self, partition: int, rows: Iterable[StoredTask], firsts: Mapping[str, int], durable: int
    ) -> Iterator[StoredTask]:
        for row in rows:
            listed_ms = firsts.get(row.key.ordering_id)
            if not 0 <= row.offset < durable or self.is_closed(partition, row):
                continue
            if listed_ms is not None and listed_ms <= row.key.scheduled_ms:
                continue
            completion = self.last_completion(partition, row.key)
            reopened = completion is not None and (
                completion[1].result is CompletionResult.REOPENED
                and completion[1].offset >= durable
            )
            if not reopened:
                yield row

    def unfinished(self) -> Iterator[str]:
        """Yield what is still to be done, for a person to read; nothing where all is closed."""
        for partition in range(len(self._broker.partitions)):
            latest = {key: -1 for key, place in self._outside.items() if place == partition}
            for offset, entry in self.counted(partition):
                if isinstance(entry, StoredTask):
                    latest[entry.key] = offset
                elif isinstance(entry, Command) and (partition, offset) not in self._decided:
                    yield f"{entry.kind} of {entry.key} has no outcome"
            for key, recorded in latest.items():
                row = self.row(partition, key)
                completion = self.last_completion(partition, key)
                offset = max(recorded, row.offset if row else -1)
                if completion is None or not self._closes(partition, completion[1], offset):
                    yield f"{key} is open"
            rows = self._data.tasks.before(partition, first_key_at(INSTANT_MIN_MS), 10**15)
            for row in rows:
                if row.key not in latest and not self.is_closed(partition, row):
                    yield f"{row.key} is open"
