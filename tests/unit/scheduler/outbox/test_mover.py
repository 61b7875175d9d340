"""The mover, between a real SQLite file and a log in memory that can be told to fail."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import (
    HourhandError,
    LogUnavailable,
    NodeStopped,
    OutboxUnavailable,
    TaskTooLarge,
)
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.mover import Mover
from hourhand.scheduler.outbox.ports import ClaimedRows, OutboxTable
from hourhand.scheduler.outbox.refused import AGAIN_MS
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime.future_group import FutureGroup
from tests.builders import NOW_MS, a_key, a_task
from tests.unit.scheduler.client.client_world import HeldWriter, StandingClock

_RUN_NOW = encode_command(Command(CommandKind.RUN_NOW, a_key()))
_CANCEL_BY_PAIR = encode_command(Command(CommandKind.CANCEL, a_key(), by_pair=True))


class MovedClock(StandingClock):
    """A clock that goes on where it is told to."""

    passed_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.passed_ms


class World:
    """A file with an outbox, a log, and a mover between them."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path)
        self.path = path
        self.clock = MovedClock()
        self.outbox = Outbox(Settings(), self.clock)
        self.table = SqliteOutbox(path, "hourhand_outbox")
        self.table.migrate()
        self.broker = MemoryBroker(1, self.clock)
        self.writer = MemoryWriter(self.broker)
        self.mover = self.mover_to(self.writer)

    def mover_to(
        self, writer: LogWriter, table: OutboxTable | None = None, rows_max: int = 100
    ) -> Mover:
        """Return a mover to another log, or from what another table claims."""
        return Mover(
            table or self.table,
            writer,
            self.clock,
            rows_max=rows_max,
            poll_ms=10,
            letter_patience_ms=0,
        )

    def schedule(self, *names: str, ordering_id: str = "customer-7") -> list[TaskKey]:
        """Schedule tasks in a transaction, and commit it."""
        tasks = [a_task(uniqueness_key=name, ordering_id=ordering_id) for name in names]
        with self.database:
            return self.outbox.schedule_many(self.database, tasks)

    def insert(self, record: bytes | str | float) -> None:
        """Write a row past the outbox."""
        with self.database:
            self.database.execute(
                "INSERT INTO hourhand_outbox (lane, record, written_ms) VALUES (0, ?, ?)",
                (record, NOW_MS),
            )

    def waiting(self) -> int:
        """Return how many rows wait."""
        return int(self.database.execute("SELECT count(*) FROM hourhand_outbox").fetchone()[0])

    def records(self) -> list[LogRecord]:
        """Return what the log has."""
        return self.broker.partitions[0].read(0, 1_000)[0]

    def letters(self) -> list[LogRecord]:
        """Return the dead letters."""
        return self.broker.dead_letters.read(0, 1_000)[0]

    def values(self) -> list[bytes]:
        """Return the values of what the log has."""
        return [record.value or b"" for record in self.records()]


class ExpiredClaims(SqliteOutbox):
    """A table whose claims have been held for too long."""

    def __init__(self, table: SqliteOutbox) -> None:
        self._claimed = table

    @contextmanager
    def claim(self, rows_max: int, passed_over: Collection[int] = ()) -> Iterator[ClaimedRows]:
        with self._claimed.claim(rows_max, passed_over) as claimed:
            yield replace(claimed, until_ms=-1.0)


class FailingLetters(MemoryWriter):
    """A log that takes tasks, and whose dead letters fail, or are never answered."""

    failing_record: bytes | None = None
    """The record whose dead letter fails; None for all."""
    answers = True
    failing = True
    letters_asked = 0

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        self.letters_asked += 1
        if not self.failing or self.failing_record not in (None, record.value):
            return super().dead_letter(record, reason)
        future: Future[Position] = Future()
        if self.answers:
            future.set_exception(LogUnavailable("the topic of dead letters is away"))
        return future


class BrokerOfBatches(MemoryWriter):
    """A log that gets records of a group as one batch, and refuses one that is too large."""

    batch_bytes_max = 1_000

    def begin_group(self) -> "BatchGroup":
        return BatchGroup(self)


class BatchGroup(FutureGroup):
    """Records that are stored or refused together."""

    def __init__(self, writer: BrokerOfBatches) -> None:
        super().__init__(writer.append, writer.partition_count())
        self._writer = writer
        self._records: list[tuple[str, bytes]] = []

    def append(self, ordering_id: str, value: bytes) -> None:
        """Take a record."""
        self._records.append((ordering_id, value))

    def settle(self) -> Mapping[int, HourhandError]:
        """Store all records or none."""
        size_bytes = sum(len(value) for _, value in self._records)
        if size_bytes > self._writer.batch_bytes_max:
            too_large = TaskTooLarge(f"the batch has {size_bytes} bytes")
            return dict.fromkeys(range(len(self._records)), too_large)
        for ordering_id, value in self._records:
            super().append(ordering_id, value)
        return super().settle()


class CountedWaits(SqliteOutbox):
    """A table that counts how often its mover found nothing to do, and never waits."""

    waits = 0

    def wait(self, timeout_ms: int) -> None:
        self.waits += 1


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a world of its own."""
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    world = World(path)
    with closing(world.database), closing(world.table):
        yield world


def test_rows_are_appended_in_order_and_deleted(world: World) -> None:
    """As the client would append them, with the ordering id as the record's key."""
    tasks = [a_task(uniqueness_key=name) for name in "abc"]
    world.schedule("a", "b", "c")

    assert world.mover.move() == 3

    records = world.records()
    assert [record.value for record in records] == [
        world.outbox._admission.admit(task)[1] for task in tasks
    ]
    assert {record.key for record in records} == {b"customer-7"}
    assert world.waiting() == 0
    assert world.mover.moved_rows == 3
    assert world.mover.move() == 0


def test_a_row_is_there_until_the_log_has_acknowledged_it(world: World) -> None:
    """Whoever dies in between leaves it to the next mover, with its bytes unchanged."""
    world.schedule("a", "b")
    waiting: list[int] = []

    def acknowledge(number: int, future: "Future[Position]") -> None:
        waiting.append(world.waiting())
        future.set_result(Position(0, number))

    assert world.mover_to(HeldWriter(acknowledge)).move() == 2

    assert waiting == [2, 2]
    assert world.waiting() == 0


def test_of_the_rows_of_a_key_only_the_last_is_sent(world: World) -> None:
    """A repeated schedule record would open again what its cancellation has closed."""
    key, _ = world.schedule("a", "b")
    with world.database:
        world.outbox.cancel(world.database, key)

    assert world.mover.move() == 3

    first, second = world.values()
    assert b'"b"' in first
    assert b'"command":"cancel"' in second
    assert world.waiting() == 0


def test_of_a_key_the_newest_row_is_sent_also_where_it_is_not_claimed(world: World) -> None:
    """A mover that died may have sent that one already; a row is deleted when it is claimed."""
    key, _ = world.schedule("a", "b")
    with world.database:
        world.outbox.cancel(world.database, key)
    world.mover = Mover(world.table, world.writer, world.clock, rows_max=1, poll_ms=10)

    assert [world.mover.move() for _ in range(4)] == [1, 1, 1, 0]

    first, second, third = world.values()
    assert b'"command":"cancel"' in first
    assert b'"b"' in second
    assert third == first


def test_what_the_log_did_not_take_stays_with_what_is_behind_it_of_its_id(world: World) -> None:
    """It is sent in order once the log answers again; other ids are not held up."""
    world.schedule("a", "b")
    world.schedule("c", ordering_id="customer-8")

    def fail_the_first(number: int, future: "Future[Position]") -> None:
        if number == 0:
            future.set_exception(LogUnavailable("the broker is away"))
        else:
            future.set_result(Position(0, number))

    world.mover = world.mover_to(HeldWriter(fail_the_first))
    with pytest.raises(LogUnavailable):
        world.mover.move()

    assert world.waiting() == 2
    assert world.mover.moved_rows == 1
    assert world.mover_to(world.writer).move() == 2
    assert [b'"a"' in value for value in world.values()] == [True, False]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"not a record", b"row 1 of the outbox: "),
        (_RUN_NOW, b"may not be sent twice"),
        (_CANCEL_BY_PAIR, b"a command by pair may not be sent twice: an outbox names a key"),
    ],
)
def test_a_row_that_cannot_be_moved_becomes_a_dead_letter_and_stops_nothing(
    world: World, record: bytes, reason: bytes
) -> None:
    """It is not of our making; what is behind it goes on."""
    world.insert(record)
    world.schedule("a")

    assert world.mover.move() == 2

    assert len(world.values()) == 1
    (letter,) = world.letters()
    assert letter.value == record
    assert reason in (dict(letter.headers)["hourhandReason"] or b"")
    assert (world.mover.moved_rows, world.mover.refused_rows) == (1, 1)
    assert world.waiting() == 0


def test_a_record_that_the_log_finds_too_large_becomes_a_dead_letter(world: World) -> None:
    """Its limit may have been lowered since the row was written."""
    mover = world.mover_to(MemoryWriter(world.broker, record_bytes_max=1_000))
    with world.database:
        task = a_task(uniqueness_key="large", data={"text": "x" * 2_000})
        world.outbox.schedule(world.database, task)
    world.schedule("small")

    assert mover.move() == 2

    assert len(world.letters()) == 1
    assert len(world.values()) == 1


@pytest.mark.parametrize("failing", [b"not a record", None], ids=["the second", "all"])
def test_p25_a_row_whose_dead_letter_failed_stays_until_there_is_one(
    world: World, failing: bytes | None
) -> None:
    """Good rows of the same claim are moved anyway."""
    for record in (_RUN_NOW, b"not a record"):
        world.insert(record)
    world.schedule("a")
    writer = FailingLetters(world.broker)
    writer.failing_record = failing
    mover = world.mover_to(writer)

    mover.run_round()

    assert mover.failure is not None and "dead letters is away" in mover.failure
    have_letters = 0 if failing is None else 1
    assert len(world.letters()) == mover.refused_rows == have_letters
    assert (world.waiting(), mover.moved_rows) == (2 - have_letters, 1)
    assert world.mover.move() == 2 - have_letters
    assert [letter.value for letter in world.letters()] == [_RUN_NOW, b"not a record"]
    assert world.waiting() == 0


@pytest.mark.parametrize("answers", [True, False], ids=["fail", "are never answered"])
@pytest.mark.parametrize("rows_max", [1, 3])
def test_p25_good_rows_pass_more_refused_ones_than_a_claim_holds(
    world: World, rows_max: int, answers: bool
) -> None:
    """While dead letters fail: nothing of those is deleted, and no round waits."""
    for number in range(7):
        world.insert(b"not a record %d" % number)
    world.schedule("a", "b")
    table, writer = CountedWaits(world.path, "hourhand_outbox"), FailingLetters(world.broker)
    writer.answers = answers
    mover = world.mover_to(writer, table, rows_max)

    with closing(table):
        while not table.waits:
            mover.run_round()

    assert [b"uniquenessKey" in value for value in world.values()] == [True, True]
    assert (mover.moved_rows, mover.refused_rows, world.waiting()) == (2, 0, 7)
    assert writer.letters_asked == 7


def test_p25_dead_letters_that_failed_are_tried_again(world: World) -> None:
    """After a pause; then the rows leave the table, and all is well."""
    for number in range(5):
        world.insert(b"not a record %d" % number)
    writer = FailingLetters(world.broker)
    mover = world.mover_to(writer, rows_max=4)
    while not world.waiting() == mover.move() == 5:
        if writer.letters_asked == 5:
            break
    writer.failing = False
    assert mover.move() == 0 and mover._refused.failure

    world.clock.passed_ms += AGAIN_MS
    assert [mover.move() for _ in range(4)] == [2, 2, 1, 0]

    assert len(world.letters()) == mover.refused_rows == 5
    assert world.waiting() == 0
    assert mover._refused.failure is None


def test_a_mover_is_well_again_when_another_one_wrote_the_dead_letter(world: World) -> None:
    """The row is not there any more, so nothing of it can succeed here."""
    world.insert(b"not a record")
    table = CountedWaits(world.path, "hourhand_outbox")
    mover = world.mover_to(FailingLetters(world.broker), table)
    with closing(table):
        mover.run_round()
        failed = mover.failure
        table.close()
        assert world.mover.move() == 1
        world.table.close()

        world.clock.passed_ms += AGAIN_MS
        mover.run_round()

    assert failed is not None and mover.failure is None


def test_p25_hundreds_of_refused_rows_become_dead_letters_once_each(world: World) -> None:
    """Also those for which there is no room at first."""
    for number in range(350):
        world.insert(b"not a record %d" % number)
    world.schedule("a")
    mover = world.mover_to(world.writer, rows_max=1_000)

    while mover.move():
        pass

    assert (len(world.letters()), mover.refused_rows) == (350, 350)
    assert (world.waiting(), len(world.values())) == (0, 1)


def test_p25_large_dead_letters_are_sent_a_few_at_a_time(world: World) -> None:
    """So that they leave room in the driver's queue."""
    for _ in range(4):
        world.insert(b"x" * 5_000_000)
    writer = FailingLetters(world.broker)
    writer.answers = False
    mover = world.mover_to(writer)

    mover.move()
    mover.move()

    assert writer.letters_asked == 1


def test_p25_an_older_row_of_a_key_is_sent_where_the_newest_is_refused(world: World) -> None:
    """As the client would have refused the second call, and kept the first task."""
    task = a_task(uniqueness_key="a")
    large = task.model_copy(update={"data": {"text": "x" * 2_000}})
    with world.database:
        world.outbox.schedule_many(world.database, [task, large])
    world.schedule("b")
    mover = world.mover_to(MemoryWriter(world.broker, record_bytes_max=1_000))

    assert [mover.move() for _ in range(3)] == [2, 1, 0]

    assert [b'"b"' in value for value in world.values()] == [True, False]
    (letter,) = world.letters()
    assert letter.value is not None and len(letter.value) > 2_000
    assert world.waiting() == 0


def test_p25_good_rows_of_a_batch_that_the_broker_refuses_are_sent_one_by_one(
    world: World,
) -> None:
    """The one that is too large alone becomes a dead letter; ids keep their order."""
    world.schedule(*"abcdefgh")
    with world.database:
        task = a_task(uniqueness_key="large", data={"text": "x" * 2_000})
        world.outbox.schedule(world.database, task)
    world.schedule("i")
    mover = world.mover_to(BrokerOfBatches(world.broker))

    assert mover.move() == 10

    names = [decode_record(record).key.uniqueness_key for record in world.records()]
    assert names == [*"abcdefghi"]
    assert len(world.letters()) == 1
    assert world.waiting() == 0


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("CAST(? AS TEXT)", b"\xc3("),
        ("?", 3.25),
        ("?", "text"),
        ("?", b""),
        ("?", 2**63 - 1),
    ],
)
def test_p25_whatever_stands_in_a_column_of_sqlite_keeps_no_row_waiting(
    world: World, cell: str, value: object
) -> None:
    """It takes every type in every column; a record has to be there."""
    insert = "INSERT INTO hourhand_outbox (lane, key_hash, record, written_ms) VALUES"
    with world.database:
        world.database.execute(f"{insert} (0, {cell}, {cell}, {cell})", [value] * 3)
    with pytest.raises(sqlite3.IntegrityError), world.database:
        world.database.execute(f"{insert} (0, 0, NULL, 0)")
    world.schedule("a")

    assert world.table.lag().rows == 2
    world.mover.run_round()

    assert world.waiting() == world.mover.oldest_age_ms() == 0
    assert (len(world.letters()), len(world.values())) == (1, 1)


def test_a_claim_that_was_held_for_too_long_sends_nothing(world: World) -> None:
    """Another mover may have its rows."""
    world.schedule("a")

    mover = world.mover_to(world.writer, ExpiredClaims(world.table))
    with pytest.raises(OutboxUnavailable, match="held for too long"):
        mover.move()

    assert world.values() == []
    assert world.waiting() == 1


def test_the_numbers_of_a_round_tell_what_waits_and_what_fails(world: World) -> None:
    """As the metrics show them."""
    world.schedule("a")
    world.schedule("b", ordering_id="customer-8")
    world.writer.close()

    with pytest.raises(NodeStopped):
        world.mover.run_round()
    assert "NodeStopped" in (world.mover.failure or "")

    mover = world.mover_to(MemoryWriter(world.broker))
    mover.run_round()
    assert mover.failure is None
    assert (mover.lag.rows, mover.oldest_age_ms()) == (0, 0)


def test_sealed_data_is_sealed_in_the_table_and_moved_as_it_is(world: World) -> None:
    """The mover has no key, and neither has who may read the user's database."""
    payloads = PayloadCodecs(AesGcm({"k1": bytes(32)}))
    sealing = Outbox(Settings(), world.clock, payloads=payloads)
    task = a_task(data={"card": "4111-1111"}, kind="pay")
    with world.database:
        sealing.schedule(world.database, task)
    (row,) = world.database.execute("SELECT record FROM hourhand_outbox").fetchone()
    world.mover.move()
    (record,) = world.records()

    assert b"4111" not in row and record.value == row
    moved = decode_record(record)
    assert isinstance(moved, StoredTask) and payloads.opened(moved.to_task()) == task
