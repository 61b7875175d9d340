"""Movers of an outbox that are killed at random, while transactions commit and roll back.

A journal in the same database is written by the same transactions; it is what the log has to agree
with.  The log is a real one: embedded, or Kafka.
"""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hourhand.actors.model.task.codec import Command, LogRecord, decode_record
from hourhand.actors.model.task.task import Task
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings, TopicSettings
from hourhand.scheduler.outbox.opening import migrate_outbox
from hourhand.scheduler.outbox.scheduling import Outbox
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.waiting import until

pytestmark = pytest.mark.integration

_WRITERS = 3
_TRANSACTIONS = 100
"""Of each writer."""
_IDS = [f"customer-{number}" for number in range(5)]
_KILLS = 5
_MOVERS = 2
_DUE = datetime.now(UTC) + timedelta(days=1)


@dataclass(frozen=True)
class Database:
    """Where the outbox and the journal are."""

    url: str
    connect: Callable[[], Any]
    mark: str
    """How a statement marks the place of a value."""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Return a database with a journal, whose outbox is not made yet."""
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        found = Database(f"sqlite:///{path}", lambda: sqlite3.connect(path, timeout=60), "?")
        number = "INTEGER PRIMARY KEY AUTOINCREMENT"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.create(f"killed_{uuid.uuid4().hex[:12]}")
        found = Database(url, lambda: psycopg.connect(url), "%s")
        number = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    with closing(found.connect()) as connection:
        connection.execute(f"CREATE TABLE journal (number {number}, id text, entry text)")
        connection.commit()
    yield found
    if found.mark == "%s":
        server.drop(found.url.rpartition("/")[2])


class Writer:
    """Schedules, replaces and cancels in random transactions, a third of which are rolled back."""

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._number = number
        self._random = random.Random(number)
        self._outbox = Outbox(Settings())
        self._open: list[Task] = []
        self._made = 0

    def run(self) -> None:
        """Do all transactions."""
        with closing(self._database.connect()) as connection:
            for _ in range(_TRANSACTIONS):
                self._transact(connection)

    def _transact(self, connection: Any) -> None:
        kept = list(self._open)
        # One id a transaction, so that two never wait for each other.
        ordering_id = self._random.choice(_IDS)
        for _ in range(self._random.randint(1, 4)):
            self._step(connection, ordering_id)
        if self._random.random() < 1 / 3:
            connection.rollback()
            self._open = kept
        else:
            connection.commit()

    def _step(self, connection: Any, ordering_id: str) -> None:
        mine = [task for task in self._open if task.ordering_id == ordering_id]
        self._made += 1
        chosen = self._random.random()
        if mine and chosen < 0.25:
            task = mine[0]
            self._open.remove(task)
            self._outbox.cancel(connection, task.key)
            self._note(connection, ordering_id, f"cancel {task.uniqueness_key}")
            return
        name = mine[0].uniqueness_key if mine and chosen < 0.4 else f"{self._number}-{self._made}"
        task = Task(
            ordering_id=ordering_id,
            scheduled_time=_DUE,
            uniqueness_key=name,
            data={"version": f"{self._number}.{self._made}"},
        )
        self._open = [each for each in self._open if each.uniqueness_key != name] + [task]
        self._outbox.schedule(connection, task)
        self._note(connection, ordering_id, f"{name} {task.data['version']}")

    def _note(self, connection: Any, ordering_id: str, entry: str) -> None:
        # Behind the outbox's row, and so within its lock: numbers are in the order of commits.
        mark = self._database.mark
        query = f"INSERT INTO journal (id, entry) VALUES ({mark}, {mark})"  # noqa: S608
        connection.execute(query, (ordering_id, entry))


class Movers:
    """Movers in processes of their own."""

    def __init__(self, url: str, log: list[str], count: int = _MOVERS) -> None:
        self._command = [sys.executable, "-m", "hourhand", "outbox", "--url", url, *log]
        for chosen in ("outbox.batch_rows_max=10", "outbox.poll_ms=10"):
            self._command += ["--set", chosen]
        self.running = [self._start() for _ in range(count)]

    def kill(self, number: int) -> None:
        """Kill one, and start another in its place."""
        self.running[number].kill()
        self.running[number].communicate()
        self.running[number] = self._start()

    def stop(self) -> None:
        """Stop all; one that has just begun has nothing to finish."""
        for each in self.running:
            each.send_signal(signal.SIGTERM)
        for each in self.running:
            each.communicate(timeout=60)

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)


def _embedded(folder: Path) -> list[str]:
    """Return the options that name an embedded log."""
    return ["--set", f"embedded.folder={folder}", "--set", "topic.partitions=4"]


def _records(settings: Settings) -> list[LogRecord]:
    """Return all records of a log that nobody writes to any more."""
    found: list[LogRecord] = []
    with closing(wiring.open_tail(settings)) as tail:
        spans = tail.spans(dict.fromkeys(range(4)))
        for partition, span in spans.items():
            for piece in tail.read(partition, 0, span.end):
                found += piece
    # A tail may read the newest piece first.
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _entry(record: LogRecord) -> tuple[str, str]:
    read = decode_record(record)
    key = read.key
    if isinstance(read, Command):
        return key.ordering_id, f"cancel {key.uniqueness_key}"
    version = read.to_task().data["version"]
    return key.ordering_id, f"{key.uniqueness_key} {version}"


def _name(entry: str) -> str:
    first, second = entry.split()
    return second if first == "cancel" else first


def test_each_committed_task_reaches_the_log_in_order_and_no_other_does(
    database: Database, tmp_path: Path
) -> None:
    """Whatever moment a mover dies at: repeats are the same records, and the last one of a key is
    the one that was committed last.
    """
    folder = tmp_path / "data"
    settings = Settings(embedded=EmbeddedSettings(folder=folder), topic=TopicSettings(partitions=4))
    _write_and_kill(database, settings, _embedded(folder))

    _judge(database, _records(settings))


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_movers_to_kafka_keep_it_too(
    database: Database, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    """What a killed mover had on its way to the broker arrives once more, and in order."""
    name = f"killed_{uuid.uuid4().hex[:12]}"
    settings = Settings(
        log="kafka",
        kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 4},
        embedded={"folder": tmp_path / "data"},
    )
    wiring.migrate(settings)
    chosen = (
        "log=kafka",
        f"kafka.bootstrap_servers={kafka_server.bootstrap_servers}",
        f"topic.name={name}",
        f"topic.dead_letter={name}-dead-letter",
        "topic.partitions=4",
        f"embedded.folder={tmp_path / 'data'}",
    )
    _write_and_kill(database, settings, [word for each in chosen for word in ("--set", each)])

    _judge(database, _records(settings))


def _write_and_kill(database: Database, settings: Settings, log: list[str]) -> None:
    """Let writers commit and roll back while movers are killed, until no row waits."""
    _begin(database, settings)
    chance = random.Random(7)
    writers = [threading.Thread(target=Writer(database, number).run) for number in range(_WRITERS)]
    for each in writers:
        each.start()
    movers = Movers(database.url, log)
    try:
        for _ in range(_KILLS):
            _wait_for_records(database, settings, chance.randrange(1, 40))
            for number in chance.choice([[0], [1], [0, 1]]):
                movers.kill(number)
        for each in writers:
            each.join()
        until(lambda: not _waiting(database))
    finally:
        movers.stop()


def test_a_mover_that_is_asked_to_stop_ends_well(database: Database, tmp_path: Path) -> None:
    """It finishes what it has in hand, says so, and its exit code is 0."""
    folder = tmp_path / "data"
    settings = Settings(embedded=EmbeddedSettings(folder=folder), topic=TopicSettings(partitions=4))
    _begin(database, settings)
    with closing(database.connect()) as connection:
        task = Task(ordering_id="x", scheduled_time=_DUE, uniqueness_key="", data={"version": 1})
        Outbox(Settings()).schedule(connection, task)
        connection.commit()

    movers = Movers(database.url, _embedded(folder), count=1)
    until(lambda: not _waiting(database))
    (mover,) = movers.running
    mover.send_signal(signal.SIGTERM)
    _, said = mover.communicate(timeout=60)

    assert mover.returncode == 0, said
    assert "the mover of the outbox has stopped" in said
    assert len(_records(settings)) == 1


def _wait_for_records(database: Database, settings: Settings, count: int) -> None:
    """Wait until the log has so many more, or no row waits."""
    seen = _record_count(settings) + count
    until(lambda: _record_count(settings) >= seen or not _waiting(database), look_s=0.01)


def _record_count(settings: Settings) -> int:
    with closing(wiring.open_log_view(settings)) as view:
        return sum(end.end_offset for end in view.ends().values())


def _begin(database: Database, settings: Settings) -> None:
    """Make the outbox's table and the log."""
    named = Settings(outbox={"url": database.url})
    migrate_outbox(settings.model_copy(update={"outbox": named.outbox}), wiring.open_clock())
    wiring.open_writer(settings).close()


def _waiting(database: Database) -> int:
    with closing(database.connect()) as connection:
        return int(connection.execute("SELECT count(*) FROM hourhand_outbox").fetchone()[0])


def _judge(database: Database, records: list[LogRecord]) -> None:
    with closing(database.connect()) as connection:
        journal = connection.execute("SELECT id, entry FROM journal ORDER BY number").fetchall()
    committed: defaultdict[str, list[str]] = defaultdict(list)
    for ordering_id, entry in journal:
        committed[ordering_id].append(entry)
    moved: defaultdict[str, list[str]] = defaultdict(list)
    for ordering_id, entry in map(_entry, records):
        moved[ordering_id].append(entry)

    assert len(journal) > _TRANSACTIONS
    assert moved.keys() == committed.keys()
    for ordering_id, entries in committed.items():
        places = {entry: place for place, entry in enumerate(entries)}
        assert set(moved[ordering_id]) <= places.keys(), "what was rolled back is in the log"
        # Of a key that is written again while its rows wait, the newest takes the first's place.
        written = Counter(map(_name, entries))
        first = [places[e] for e in dict.fromkeys(moved[ordering_id]) if written[_name(e)] == 1]
        assert first == sorted(first), "a record stands before one that was committed earlier"
        reached: dict[str, int] = {}
        for entry in moved[ordering_id]:
            assert reached.get(_name(entry), -1) <= places[entry], "a key went back"
            reached[_name(entry)] = places[entry]
        last_committed = {_name(entry): entry for entry in entries}
        last_moved = {_name(entry): entry for entry in moved[ordering_id]}
        assert last_moved == last_committed
