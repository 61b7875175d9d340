"""Opening a file of the folder, and saying in Hourhand's words what SQLite complains about.

Nothing here remembers anything.  Every connection commits by itself unless told otherwise,
in WAL mode with ``synchronous=FULL``: a COMMIT that returned is on the disk.
"""

import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from actors.model.errors import OperatorError, SchemaMissing
from scheduler.adapters.embedded.schema import Schema

BUSY_MS = 10_000
"""Longest wait for another process's transaction."""
_RETRY_MS = 5
_CACHE_KIB = 16_384
_CHECKPOINT_PAGES = 4_000
_WAL_BYTES_MAX = 67_108_864
_CAUSES = {
    "SQLITE_FULL": "the disk is full; free space on it",
    "SQLITE_BUSY": "another process keeps it locked; see who else has the folder open",
    "SQLITE_CORRUPT": "it is damaged; restore it from a backup",
    "SQLITE_NOTADB": "it is damaged, or no file of Hourhand's; restore it from a backup",
    "SQLITE_READONLY": "it may not be written; check owner and permissions",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and its permissions",
    "SQLITE_PERM": "it may not be accessed; check owner and permissions",
    "SQLITE_IOERR": "the disk reported an error; check the disk and its free space",
}


@dataclass(frozen=True, slots=True)
class File:
    """One database file, what belongs into it, and how its failures are called."""

    path: Path
    schema: Schema
    unavailable: type[OperatorError]

    def failure(self, error: Exception) -> OperatorError:
        """Return the error to raise for one of SQLite's or of the operating system's."""
        name = getattr(error, "sqlite_errorname", "")
        cause = next((text for known, text in _CAUSES.items() if name.startswith(known)), None)
        detail = f"{cause} ({error})" if cause else f"{error}"
        return self.unavailable(f"{self.path} is not available: {detail}")

    def closed(self) -> OperatorError:
        """Return the error of a request that came after ``close``."""
        return self.unavailable(f"{self.path} was closed; open a new client or node to go on")


def open_connection(file: File, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a file, made and brought to this version where needed.

    The connection may be used by any one thread at a time.  Raises ``file.unavailable``, and
    SchemaMissing where a newer version of Hourhand wrote the file.
    """
    try:
        _make_folder(file.path.parent)
        connection = sqlite3.connect(
            file.path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )
    except (sqlite3.Error, OSError) as error:
        raise file.failure(error) from error
    try:
        _prepare(connection, file)
        if read_only:
            connection.execute("PRAGMA query_only=ON")
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise file.failure(error) from error
    except OperatorError:
        connection.close()
        raise
    return connection


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new entry of a folder durable: syncing the file alone does not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prepare(connection: sqlite3.Connection, file: File) -> None:
    version = _checked_version(connection, file)
    _enter_wal_mode(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_MAX}")
    if version == len(file.schema.scripts):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have been faster.
    for script in file.schema.scripts[_checked_version(connection, file) :]:
        for statement in script:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={file.schema.application_id}")
    connection.execute(f"PRAGMA user_version={len(file.schema.scripts)}")
    connection.execute("COMMIT")
    _sync_folder(file.path.parent)


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Switch a new file over; SQLite does not wait here for others who do the same."""
    pause = threading.Event()
    for waited_ms in range(0, BUSY_MS, _RETRY_MS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            last = waited_ms + _RETRY_MS >= BUSY_MS
            if last or not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            pause.wait(_RETRY_MS / 1000)
        else:
            return


def _checked_version(connection: sqlite3.Connection, file: File) -> int:
    """Return the file's version, 0 where it is new; refuse what must not be touched."""
    # Tables first: another process may be making the file just now, all in one transaction,
    # so whoever sees a table sees the file's id as well, but not the other way round.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and application_id != file.schema.application_id:
        raise file.unavailable(
            f"{file.path} is a SQLite file, but not the one Hourhand keeps there; choose"
            " another embedded.folder"
        )
    known = len(file.schema.scripts)
    if version > known:
        raise SchemaMissing(
            f"{file.path} has schema version {version}, this version of Hourhand knows {known};"
            " upgrade Hourhand, or choose another embedded.folder"
        )
    return int(version)
