"""``OutboxTable`` in a SQLite file of the user's.

One mover at a time holds a lock beside the file; others stand by.  The file itself is locked only
while rows are deleted, so the user's transactions hardly wait.
"""

import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hourhand.actors.model.values.errors import OutboxUnavailable, SchemaMissing, SettingsInvalid
from hourhand.scheduler.outbox.ports import ROWS_COUNTED_MAX, ClaimedRows, OutboxLag, OutboxRow
from hourhand.scheduler.outbox.table import SCHEMA_VERSION, Dialect, migration_statements

logger = logging.getLogger("hourhand.outbox")

_BUSY_TIMEOUT_S = 10.0
_LOCK_MODE = 0o600

_OLDEST = "WHERE id NOT IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ?"
_NEWEST = """
WHERE id IN (
    SELECT max(id) FROM {table}
    WHERE id NOT IN (SELECT value FROM json_each(?))
        AND id > ? AND key_hash IN (SELECT key_hash FROM {table} WHERE id <= ?)
    GROUP BY key_hash
)
"""
# A column of SQLite may hold any type that another writer has put there.
_LAG = """
SELECT count(*), min(CASE WHEN typeof(written_ms) = 'integer' THEN written_ms END)
FROM (SELECT written_ms FROM {table} ORDER BY id LIMIT {counted})
"""


class SqliteOutbox:
    """The table of one file; SettingsInvalid if the file does not exist."""

    def __init__(self, path: Path, table: str) -> None:
        if not path.is_file():
            raise SettingsInvalid(
                f"outbox.url names the SQLite file {str(path)!r}, which is not there: create your"
                " database first, or correct the path"
            )
        self._path = path
        self._table = table
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._stands_by = False
        self._woken = threading.Event()

    def migrate(self) -> list[str]:
        """Bring the table to the newest version; return the changes, one line each."""
        with self._translated():
            connection = self._opened()
            version = _version(connection, self._table)
            if version >= SCHEMA_VERSION:
                return []
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in migration_statements(Dialect.SQLITE, self._table, version):
                    connection.execute(statement)
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
        return [f"brought table {self._table} of {self._path} to version {SCHEMA_VERSION}"]

    @contextmanager
    def claim(self, rows_max: int, passed_over: Collection[int] = ()) -> Iterator[ClaimedRows]:
        """Claim the oldest rows, as the one mover of the file."""
        deleted: list[int] = []
        rows: list[OutboxRow] = []
        newest: list[OutboxRow] = []
        if self._is_the_mover():
            with self._translated():
                passed = json.dumps(list(passed_over))
                rows = self._read(_OLDEST, passed, rows_max)
                if len(rows) == rows_max:
                    newest_of = _NEWEST.format(table=self._table)
                    newest = self._read(newest_of, passed, *[rows[-1].number] * 2)
        yield ClaimedRows(rows, newest, deleted.extend, float("inf"))
        if deleted:
            self._delete(deleted)

    def lag(self) -> OutboxLag:
        """Return the waiting rows."""
        with self._translated():
            query = _LAG.format(table=self._table, counted=ROWS_COUNTED_MAX)
            rows, oldest_ms = self._opened().execute(query).fetchone()
        return OutboxLag(rows, oldest_ms)

    def wait(self, timeout_ms: int) -> None:
        """Wait; SQLite signals no commits."""
        self._woken.wait(timeout_ms / 1000)
        self._woken.clear()

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def close(self) -> None:
        """Close the file, and unlock it for another mover."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _read(self, which: str, *values: int | str) -> list[OutboxRow]:
        query = f"SELECT id, record, written_ms FROM {self._table} {which}"
        return [_row(*each) for each in self._opened().execute(query, values).fetchall()]

    def _delete(self, numbers: Sequence[int]) -> None:
        with self._translated():
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(
                    f"DELETE FROM {self._table} WHERE id = ?", [(each,) for each in numbers]
                )
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            # Text that is not UTF-8 could not be read otherwise, nor any row behind it.
            self._connection.text_factory = bytes
        return self._connection

    def _is_the_mover(self) -> bool:
        if self._lock is not None:
            return True
        path = self._path.with_name(f"{self._path.name}.{self._table}-mover")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _LOCK_MODE)
        except OSError as error:
            raise OutboxUnavailable(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            if not self._stands_by:
                logger.info("another mover works on %s; this one stands by", self._path)
            self._stands_by = True
            return False
        self._lock, self._stands_by = descriptor, False
        return True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "no such table" in str(error):
                raise table_missing(self._table, str(self._path)) from error
            with contextlib.suppress(sqlite3.Error):
                self.close()
            raise OutboxUnavailable(f"the outbox in {self._path} failed: {error}") from error


def table_missing(table: str, where: str) -> SchemaMissing:
    """Return the error for a database without the table."""
    return SchemaMissing(
        f"there is no table {table} in {where}: run `hourhand outbox migrate`, or the migration of"
        " your framework"
    )


def _version(connection: sqlite3.Connection, table: str) -> int:
    try:
        found = connection.execute(f"SELECT max(version) FROM {table}_version").fetchone()
    except sqlite3.OperationalError:
        return 0
    return int(found[0] or 0)


def _row(number: int, record: object, written_ms: object) -> OutboxRow:
    # SQLite stores any type that another writer has put there.
    value = record if isinstance(record, bytes) else str(record).encode()
    return OutboxRow(number, value, written_ms if isinstance(written_ms, int) else 0)
