"""The mover, between a real SQLite file and a log in memory that can be told to fail."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from actors.model.codec import Command, CommandKind, LogRecord, decode_record, encode_command
from actors.model.errors import LogUnavailable, NodeStopped, OutboxUnavailable
from actors.model.key import TaskKey
from actors.model.task import StoredTask
from actors.ports.log import LogWriter, Position
from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.configuration.settings import Settings
from scheduler.outbox.mover import Mover
from scheduler.outbox.ports import ClaimedRows, OutboxTable
from scheduler.outbox.scheduling import Outbox
from scheduler.outbox.sqlite import SqliteOutbox
from scheduler.payloads.aes_gcm import AesGcm
from scheduler.payloads.codecs import PayloadCodecs
from tests.builders import NOW_MS, a_key, a_task
from tests.unit.scheduler.client.client_world import HeldWriter, StandingClock

_RUN_NOW = encode_command(Command(CommandKind.RUN_NOW, a_key()))


class World:
    """A file with an outbox, a log, and a mover between them."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path)
        self.clock = StandingClock()
        self.outbox = Outbox(Settings(), self.clock)
        self.table = SqliteOutbox(path, "hourhand_outbox")
        self.table.migrate()
        self.broker = MemoryBroker(1, self.clock)
        self.writer = MemoryWriter(self.broker)
        self.mover = self.mover_to(self.writer)

    def mover_to(self, writer: LogWriter, table: OutboxTable | None = None) -> Mover:
        """Return a mover to another log, or from what another table claims."""
        return Mover(table or self.table, writer, self.clock, rows_max=100, poll_ms=10)

    def schedule(self, *names: str, ordering_id: str = "customer-7") -> list[TaskKey]:
        """Schedule tasks in a transaction, and commit it."""
        tasks = [a_task(uniqueness_key=name, ordering_id=ordering_id) for name in names]
        with self.database:
            return self.outbox.schedule_many(self.database, tasks)

    def insert(self, record: bytes) -> None:
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
    def claim(self, rows_max: int) -> Iterator[ClaimedRows]:
        with self._claimed.claim(rows_max) as claimed:
            yield replace(claimed, until_ms=-1.0)


class FailingLetters(MemoryWriter):
    """A log that takes tasks, and whose dead letters fail once they are on their way."""

    failing_record: bytes | None = None
    """The record whose dead letter fails; None for all."""

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        if self.failing_record not in (None, record.value):
            return super().dead_letter(record, reason)
        future: Future[Position] = Future()
        future.set_exception(LogUnavailable("the topic of dead letters is away"))
        return future


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
    """Good rows of the same claim are moved all the same."""
    for record in (_RUN_NOW, b"not a record"):
        world.insert(record)
    world.schedule("a")
    writer = FailingLetters(world.broker)
    writer.failing_record = failing
    mover = world.mover_to(writer)

    with pytest.raises(LogUnavailable, match="dead letters is away"):
        mover.move()

    have_letters = 0 if failing is None else 1
    assert len(world.letters()) == mover.refused_rows == have_letters
    assert (world.waiting(), mover.moved_rows) == (2 - have_letters, 1)
    assert world.mover.move() == 2 - have_letters
    assert [letter.value for letter in world.letters()] == [_RUN_NOW, b"not a record"]
    assert world.waiting() == 0


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
