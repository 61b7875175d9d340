"""Records that no node has read: their effect, and that it is had once; without servers."""

import itertools

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    encode_command,
    letter_of,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult, RecordedOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.pipeline.applying import TailApplier
from hourhand.scheduler.pipeline.transform_move import (
    moved_offset,
)
from tests.builders import NOW_MS, a_completion, a_key

WAIT_S = 60.0
OLD, NEW = 4, 6


class Unread:
    """A target, and the old partition's records applied to it."""

    def __init__(self) -> None:
        self.stores = open_memory_stores(MemoryStores())
        self.broker = MemoryBroker(NEW, VirtualClock(NOW_MS))
        self.records: list[LogRecord] = []
        self._numbers = itertools.count(1)
        self.applier = self.new_run()

    def new_run(self) -> TailApplier:
        """Return what another run of the job applies records with."""
        self.applier = TailApplier(
            self.stores,
            MemoryWriter(self.broker),
            new_count=NEW,
            next_write_time=lambda _partition: next(self._numbers),
            now_ms=lambda: NOW_MS,
            row_bytes_max=100_000,
        )
        return self.applier

    def schedule(self, key: TaskKey, data: bytes = b"{}") -> None:
        """Append a task."""
        value = letter_of(StoredTask(key, data, 0), 0, 0).value
        self._append(key, value)

    def command(
        self, kind: CommandKind, key: TaskKey, to_ms: int | None = None, *, by_pair: bool = False
    ) -> None:
        """Append a command."""
        self._append(key, encode_command(Command(kind, key, to_ms=to_ms, by_pair=by_pair)))

    def apply(self, first: int = 0) -> None:
        """Apply the records from an offset on."""
        entries = [self.applier.decoded(each) for each in self.records[first:]]
        self.applier.apply(OLD - 1, [each for each in entries if each is not None])

    def row(self, key: TaskKey) -> StoredTask | None:
        """Return a key's row."""
        owner = partition_of(key.ordering_id, NEW)
        return self.stores.schedule.find_tasks(owner, [key]).result(WAIT_S).get(key)

    def closed_by(self, key: TaskKey) -> CompletionResult | None:
        """Return what closes a key's row, if anything does."""
        owner = partition_of(key.ordering_id, NEW)
        found = self.stores.status.find_completions(owner, [key]).result(WAIT_S).get(key)
        row = self.row(key)
        offset = -(2**63) if row is None else row.offset
        return found.result if found is not None and found.closes(offset) else None

    def outcome(self, offset: int) -> RecordedOutcome | None:
        """Return what the command at an offset achieved."""
        place = (OLD - 1, moved_offset(offset))
        return self.stores.ownership.find_outcome(*place).result(WAIT_S)

    def complete(self, key: TaskKey, offset: int) -> None:
        """Close a key as done, as a node did that had read a record already."""
        owner = partition_of(key.ordering_id, NEW)
        done = a_completion(key=key, offset=moved_offset(offset))
        self.stores.status.insert_completions(owner, [done], next(self._numbers)).result(WAIT_S)

    def _append(self, key: TaskKey, value: bytes | None) -> None:
        offset = len(self.records)
        self.records.append(LogRecord(OLD - 1, offset, NOW_MS, key.ordering_id.encode(), value))


@pytest.fixture
def unread() -> Unread:
    """An empty target."""
    return Unread()


def test_records_have_their_effect_in_their_order(unread: Unread) -> None:
    """Tasks, commands, and what is not a record at all."""
    kept, gone, moved = (a_key(ordering_id=each) for each in ("kept", "gone", "moved"))
    for key in (kept, gone, moved):
        unread.schedule(key)
    unread.command(CommandKind.CANCEL, gone)
    unread.command(CommandKind.RESCHEDULE, moved, NOW_MS + 90_000)
    unread.schedule(kept, b'{"new":1}')
    unread.records.append(LogRecord(OLD - 1, 6, NOW_MS, b"x", b"no json"))

    unread.apply()

    row = unread.row(kept)
    assert row is not None
    assert (row.data, row.offset) == (b'{"new":1}', moved_offset(5))
    assert unread.closed_by(gone) is CompletionResult.CANCELLED
    assert unread.closed_by(moved) is CompletionResult.MOVED
    assert unread.row(moved._replace(scheduled_ms=NOW_MS + 90_000)) is not None
    assert unread.broker.dead_letters.end_offset == 1
    assert min(unread.applier.earliest.values()) == kept.scheduled_ms


def test_applying_again_changes_nothing(unread: Unread) -> None:
    """Not even where a task that was moved has run meanwhile: it would run twice."""
    old, new = a_key(ordering_id="moved"), a_key(ordering_id="moved", due_in_ms=90_000)
    unread.schedule(old)
    unread.command(CommandKind.RESCHEDULE, old, new.scheduled_ms)
    unread.apply()
    unread.complete(new, 1)

    unread.new_run()
    unread.apply()

    assert unread.closed_by(old) is CompletionResult.MOVED
    assert unread.closed_by(new) is CompletionResult.SUCCESS
    assert unread.outcome(1) == RecordedOutcome(CommandOutcome.APPLIED, old, new)


def test_a_command_by_pair_means_the_task_before_it(unread: Unread) -> None:
    """As on a node: none before its record, then one, then two; and once."""
    first, second = a_key(ordering_id="p"), a_key(ordering_id="p", due_in_ms=90_000)
    new = a_key(ordering_id="p", due_in_ms=120_000)
    unread.command(CommandKind.CANCEL, first, by_pair=True)
    unread.schedule(first)
    unread.command(CommandKind.RESCHEDULE, first, new.scheduled_ms, by_pair=True)
    unread.schedule(second)
    unread.command(CommandKind.DROP, first, by_pair=True)
    unread.apply()
    unread.new_run()
    unread.apply()

    (unknown, moved, several) = (unread.outcome(number) for number in (0, 2, 4))
    assert unknown is not None and unknown.outcome is CommandOutcome.UNKNOWN_PAIR
    assert moved == RecordedOutcome(CommandOutcome.APPLIED, first, new)
    assert several is not None and several.outcome is CommandOutcome.SEVERAL_TASKS
    assert unread.closed_by(first) is CompletionResult.MOVED
    assert unread.closed_by(new) is unread.closed_by(second) is None


def test_a_retry_that_was_read_before_opens_nothing_again(unread: Unread) -> None:
    """Its outcome says that it had its effect."""
    key = a_key()
    unread.schedule(key)
    unread.command(CommandKind.RETRY, key)
    unread.apply()
    unread.complete(key, 0)

    unread.new_run()
    unread.apply(first=1)

    assert unread.closed_by(key) is CompletionResult.SUCCESS


def test_an_older_record_does_not_undo_a_moved_row(unread: Unread) -> None:
    """The row was made by a later one, whose command is not executed twice."""
    target, source = a_key(due_in_ms=90_000), a_key()
    unread.schedule(target, b'{"old":1}')
    unread.schedule(source, b'{"moved":1}')
    unread.command(CommandKind.RESCHEDULE, source, target.scheduled_ms)
    unread.apply()

    unread.new_run()
    unread.apply()

    row = unread.row(target)
    assert row is not None
    assert row.data == b'{"moved":1}'
