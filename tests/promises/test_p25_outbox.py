"""P25: each committed row of an outbox becomes its task; nothing that was rolled back does."""

import random
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hourhand import Scheduler, Settings
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.log import AppendGroup, LogWriter
from hourhand.scheduler import wiring
from hourhand.scheduler.outbox.mover import Mover
from hourhand.scheduler.outbox.opening import migrate_outbox, open_outbox
from hourhand.scheduler.outbox.scheduling import Outbox
from tests.servers.postgres import PostgresServer
from tests.waiting import until

_IDS = [f"customer-{number}" for number in range(4)]
_TRANSACTIONS = 60


@dataclass
class Shop:
    """An application with a database of its own, and what it committed there."""

    url: str
    connect: Callable[[], Any]
    due: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(seconds=10))
    """When every task is due: once all is moved."""
    open: dict[TaskKey, int] = field(default_factory=dict)
    """What was scheduled and not cancelled, with its newest version."""
    cancelled: set[TaskKey] = field(default_factory=set)

    def transact(self, connection: Any, outbox: Outbox, chance: random.Random) -> None:
        """Schedule, schedule again and cancel; commit or roll back."""
        scheduled, cancelled = dict(self.open), set(self.cancelled)
        for _ in range(chance.randint(1, 3)):
            lot, known = chance.random(), sorted(scheduled)
            if known and lot < 0.2:
                key = chance.choice(known)
                outbox.cancel(connection, key)
                del scheduled[key]
                cancelled.add(key)
                continue
            version = chance.getrandbits(50)
            again = chance.choice(known) if known and lot < 0.4 else None
            task = Task(
                ordering_id=again.ordering_id if again else chance.choice(_IDS),
                scheduled_time=self.due,
                uniqueness_key=again.uniqueness_key if again else str(version),
                data={"version": version},
            )
            scheduled[outbox.schedule(connection, task)] = version
        if chance.random() < 1 / 3:
            connection.rollback()
        else:
            connection.commit()
            self.open, self.cancelled = scheduled, cancelled


class MoverDied(BaseException):
    """The process of a mover ended."""


class MortalWriter:
    """A log for a mover that dies after so many appends, or with the answers in its hands."""

    def __init__(self, writer: LogWriter, appends: int, *, has_answers: bool) -> None:
        self._writer = writer
        self._appends = appends
        self._has_answers = has_answers

    def begin_group(self) -> "MortalGroup":
        """Return a group that ends its process."""
        return MortalGroup(self._writer.begin_group(), self._appends, self._has_answers)


class MortalGroup:
    """The group of a mortal writer."""

    def __init__(self, group: AppendGroup, appends: int, has_answers: bool) -> None:
        self._group = group
        self._appends = appends
        self._has_answers = has_answers

    def append(self, ordering_id: str, value: bytes) -> None:
        """Append a record, or die."""
        if self._appends == 0 and not self._has_answers:
            raise MoverDied
        self._appends -= 1
        self._group.append(ordering_id, value)

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait for the answers, or die with them."""
        failures = self._group.settle()
        if self._has_answers:
            raise MoverDied
        return failures


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Return an application with a real database."""
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        sqlite3.connect(path).close()
        yield Shop(f"sqlite:///{path}", lambda: sqlite3.connect(path))
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"promise_{uuid.uuid4().hex[:12]}"
    url = server.create(name)
    yield Shop(url, lambda: psycopg.connect(url))
    server.drop(name)


def _move_all(settings: Settings, writer: LogWriter, chance: random.Random) -> None:
    """Move what waits, by movers that die before, among and behind their appends, and a last one
    that does not.
    """
    for _ in range(6):
        appends, has_answers = chance.randrange(3), chance.random() < 0.5
        mortal: Any = MortalWriter(writer, appends, has_answers=has_answers)
        _move(settings, mortal, rows_max=chance.choice((1, 3, 50)))
    _move(settings, writer, rows_max=50)


def _move(settings: Settings, writer: LogWriter, rows_max: int) -> None:
    clock = wiring.open_clock()
    with closing(open_outbox(settings, clock)) as table:
        mover = Mover(table, writer, clock, rows_max=rows_max, poll_ms=10)
        try:
            while mover.move():
                pass
        except MoverDied:
            pass


def test_p25_what_was_committed_runs_once_and_nothing_else_does(shop: Shop, tmp_path: Path) -> None:
    """Whatever moment movers die at: rolled back, cancelled and replaced versions never run."""
    folder = tmp_path / "data"
    settings = Settings(
        embedded={"folder": folder}, topic={"partitions": 4}, outbox={"url": shop.url}
    )
    clock, chance, ran = wiring.open_clock(), random.Random(25), Counter[tuple[TaskKey, int]]()
    migrate_outbox(settings, clock)

    class Noting(TaskExecutor):
        def execute(self, task: Task) -> None:
            version = task.data["version"]
            assert isinstance(version, int)
            ran[task.key, version] += 1

    with closing(wiring.open_writer(settings)) as writer, closing(shop.connect()) as connection:
        for number in range(_TRANSACTIONS):
            shop.transact(connection, Outbox(settings), chance)
            if number % 20 == 19:
                _move_all(settings, writer, chance)
    with Scheduler(settings, executor=Noting):
        until(lambda: len(ran) >= len(shop.open))
        until(lambda: datetime.now(UTC) > shop.due + timedelta(seconds=2))

    assert len(shop.open) > 20 and len(shop.cancelled) > 5
    assert ran == Counter(dict.fromkeys(shop.open.items(), 1))
