"""Binds the outbox's suite to a SQLite file, in both of its journal modes."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

import pytest

from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.outbox.table import Dialect
from tests.conformance.outbox_suite import OutboxSuite, OutboxWorld


class _Connection(sqlite3.Connection):
    """A connection that is closed at the end of its block, as psycopg's are."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        super().__exit__(kind, error, trace)
        self.close()
        return False


@contextmanager
def _world(path: Path, journal: str) -> Iterator[OutboxWorld]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")

    def migrate() -> list[str]:
        with closing(SqliteOutbox(path, "hourhand_outbox")) as table:
            return table.migrate()

    assert migrate()
    yield OutboxWorld(
        lambda: sqlite3.connect(path, factory=_Connection),
        lambda: SqliteOutbox(path, "hourhand_outbox"),
        migrate,
        dialect=Dialect.SQLITE,
        refusal=sqlite3.IntegrityError,
    )


class TestSqliteOutbox(OutboxSuite):
    """In a file whose readers and writers do not wait for each other."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[OutboxWorld]:
        """Return a file."""
        with _world(tmp_path / "shop.db", "WAL") as world:
            yield world


class TestSqliteOutboxWithRollbackJournal(OutboxSuite):
    """In a file as SQLite makes it."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[OutboxWorld]:
        """Return a file."""
        with _world(tmp_path / "shop.db", "DELETE") as world:
            yield world
