"""The process whose writes are recorded: a node with its clients, an application and its mover.

Started as ``python -m tests.power_cut.doomed ROOT SEED RUN TASKS``.  It writes what it was told and
what ran into ``ROOT/journal``, and checks nothing; ``judging`` does, in another process.
"""

import itertools
import logging
import os
import random
import sqlite3
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from hourhand import Settings, Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded import connection, log
from hourhand.scheduler.configuration.door_settings import OutboxSettings
from hourhand.scheduler.outbox.mover import OutboxMover
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.payloads.claim_check import ClaimCheck
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.crash.journal import Key, Pen
from tests.crash.load import (
    NUMBERS_OF_A_RUN,
    Load,
    data_of,
    ordering_of,
    settings_of,
    uniqueness_of,
)

TABLE = "hourhand_outbox"
_CLAIMED_BYTES_MIN = 2_000
_POLL_MS = 20
_PAUSE_S = 0.005
_CHECKPOINT_PAGES = 40
_KEPT_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Places:
    """What lies where below the recorded folder; none of it is there at first."""

    root: Path

    @property
    def folder(self) -> Path:
        """The embedded folder, with two above it that are made as well."""
        return self.root / "var" / "lib" / "hourhand"

    @property
    def shop(self) -> Path:
        """The application's database, with the outbox."""
        return self.root / "shop.db"

    @property
    def journal(self) -> Path:
        """The one file that a power cut never touches."""
        return self.root / "journal"

    def settings(self) -> Settings:
        """Return the settings of node and mover."""
        outbox = OutboxSettings.model_validate(
            {"url": f"sqlite:///{self.shop}", "table": TABLE, "poll_ms": _POLL_MS}
        )
        return settings_of(self.folder).model_copy(update={"outbox": outbox})

    def payloads(self) -> PayloadCodecs:
        """Return what keeps large data beside the folder."""
        claims = self.root / "claims" / "of" / "tasks"
        return PayloadCodecs(ClaimCheck(f"file://{claims}", threshold_bytes=_CLAIMED_BYTES_MIN))


class Application:
    """Schedules in transactions of its own database, of which some are rolled back.

    With either journal of SQLite, at what makes a commit of it outlive a power cut.
    """

    def __init__(self, places: Places, pen: Pen, run: int, rng: random.Random) -> None:
        self._places = places
        self._pen = pen
        self._rng = rng
        self._clock = SystemClock()
        self._outbox = Outbox(places.settings(), payloads=places.payloads())
        self._numbers = itertools.count(run * NUMBERS_OF_A_RUN + NUMBERS_OF_A_RUN // 2)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def prepare(self) -> None:
        """Make the database where it is not there."""
        database = sqlite3.connect(self._places.shop)
        if self._rng.random() < 1 / 2:
            database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS invoice (number INTEGER PRIMARY KEY)")
        database.commit()
        database.close()
        table = SqliteOutbox(self._places.shop, TABLE)
        table.migrate()
        table.close()

    def start(self) -> None:
        """Work on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        database = sqlite3.connect(self._places.shop, timeout=10)
        # FULL leaves the name of a rollback journal, and after a power cut it undoes the commit.
        database.execute("PRAGMA synchronous=EXTRA")
        while not self._stopped.wait(_PAUSE_S):
            number = next(self._numbers)
            in_ms = self._rng.choice((0, 50, 500))
            key = Key(self._clock.now_ms() + in_ms, number)
            task = Task(
                ordering_id=ordering_of(number),
                scheduled_time=from_millis(key.scheduled_ms),
                uniqueness_key=uniqueness_of(number),
                data=data_of(number),
            )
            self._pen.note("offered", key)
            database.execute("INSERT INTO invoice VALUES (?)", (number,))
            self._outbox.schedule(database, task)
            if number % 10 == 0:
                self._pen.note("withdrawn", key)
                database.rollback()
            else:
                database.commit()
                self._pen.note("committed", key)
        database.close()


def _main(root: Path, seed: int, run: int, tasks_max: int) -> None:
    # What happens after hours of work happens within a moment.
    connection.CHECKPOINT_PAGES = _CHECKPOINT_PAGES
    log.KEPT_RECORDS = log.PRUNED_TOGETHER = _KEPT_RECORDS
    places = Places(root)
    pen = Pen(os.open(places.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), run)
    application = Application(places, pen, run, random.Random(f"{seed}/{run}"))
    application.prepare()
    load = Load(places.folder, pen, run, seed, places.payloads())
    with OutboxMover(places.settings()):
        application.start()
        load.work(tasks_max or None)
        application.stop()


if __name__ == "__main__":
    logging.getLogger("hourhand").setLevel(logging.ERROR)
    _main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
