"""Gives records that no node has read their effect, in a store that no node works on yet.

Decides as a node does, by the same functions, and in the log's order; only offsets are those
the records have after the move.  So a record that had its effect before its offset was
committed changes nothing, and the new log begins empty.  It knows the ports and no Spark.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from actors.model.attempts import attempt_state
from actors.model.codec import Command, LogRecord, decode_record
from actors.model.commands import Decision, KnownTask, decide, split_runs
from actors.model.errors import PoisonRecord
from actors.model.key import TaskKey
from actors.model.partition import partition_of
from actors.model.status import Completion, RecordedOutcome
from actors.model.task import AttemptState, StoredTask
from actors.ports.log import LogWriter
from actors.ports.store import Stores
from scheduler.pipeline.answers import wait_for
from scheduler.pipeline.renumbering import moved_command, moved_task


class Place(NamedTuple):
    """Where an outcome is kept: at its record's old partition and renumbered offset."""

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
        """Return what a record says; None for poison, which the dead letters then hold."""
        try:
            return self._read(record)
        except PoisonRecord as error:
            wait_for(self._writer.dead_letter(record, str(error)))
            return None

    def peeked(self, record: LogRecord) -> StoredTask | Command | None:
        """Return what a record says; None for poison, which was put aside before."""
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
        """Make entries durable; ``partition`` is the old one, by which outcomes are kept."""
        moved = (
            moved_command(each) if isinstance(each, Command) else moved_task(each)
            for each in entries
        )
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
            found = wait_for(asked[owner])
            # A row that a later record made stays: this one had its effect before.
            newer = [t for t in rows if t.key not in found or found[t.key].offset < t.offset]
            self._note(owner, rows)
            if newer:
                at = self._next_write_time(owner)
                writes.append(self._stores.schedule.insert_tasks(owner, newer, at))
        for each in writes:
            wait_for(each)

    def _command(self, partition: int, command: Command) -> None:
        """Completion, then row, then outcome, as a node does."""
        stores = self._stores
        place = Place(partition, command.offset)
        if wait_for(stores.ownership.find_outcome(*place)) is not None:
            return
        owner = self._owner(command.key)
        known = self._known(owner, command.key)
        target = None
        if command.new_key is not None:
            found = wait_for(stores.status.find_completions(owner, [command.new_key]))
            target = found.get(command.new_key)
        decision = decide(command, known, target, self._now_ms())
        if decision.completion is not None:
            self._close(owner, decision.completion)
        if decision.row is not None:
            self._insert([decision.row])
        elif decision.resumed is not None:
            self._note(owner, [decision.resumed])
        self._record(place, owner, command.key, decision)

    def _known(self, owner: int, key: TaskKey) -> KnownTask:
        status = self._stores.status
        rows = self._stores.schedule.find_tasks(owner, [key])
        completing = status.find_completions(owner, [key])
        attempting = status.find_attempts(owner, [key])
        completion = wait_for(completing).get(key)
        attempts: AttemptState = attempt_state(wait_for(attempting), completion)
        return KnownTask(wait_for(rows).get(key), completion, attempts, running=False)

    def _close(self, owner: int, completion: Completion) -> None:
        at = self._next_write_time(owner)
        wait_for(self._stores.status.insert_completions(owner, [completion], at))

    def _record(self, place: Place, owner: int, key: TaskKey, decision: Decision) -> None:
        outcome = RecordedOutcome(decision.outcome, key, decision.new_key)
        at = self._next_write_time(owner)
        wait_for(self._stores.ownership.insert_outcome(*place, outcome, at))

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
