"""Opens a file of the folder, and turns SQLite's complaints into Hourhand's errors.

It keeps no state. Every connection commits by itself unless told otherwise, in WAL mode with
``synchronous=FULL``: a COMMIT that returned is on the disk.
"""

import contextlib
import os
import shutil
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hourhand.actors.model.values.errors import (
    FolderDamaged,
    OperatorError,
    SchemaMissing,
    UsedAfterFork,
)
from hourhand.scheduler.adapters.embedded.schema import Schema
from hourhand.scheduler.adapters.embedded.seal import Damage
from hourhand.scheduler.runtime import forking
from hourhand.scheduler.runtime.durable_names import sync_folder_and_above

FAILURES = (sqlite3.Error, Damage)
"""Errors of a request on a connection if the file cannot serve it; see ``File.failure``."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600
BUSY_MS = 10_000
"""Longest wait for another process's transaction."""
_RETRY_MS = 5
_CACHE_KIB = 16_384
CHECKPOINT_PAGES = 4_000
_WAL_BYTES_MAX = 67_108_864
_CAUSES = {
    "SQLITE_FULL": "the disk is full; free space on it, then work continues",
    "SQLITE_BUSY": "another process keeps it locked; find the process that has the folder open",
    "SQLITE_READONLY": "it may not be written; check owner and permissions",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and its permissions",
    "SQLITE_PERM": "it may not be accessed; check owner and permissions",
    "SQLITE_IOERR": "the disk reported an error; check the disk and its free space",
}
_SPACE_MATTERS = ("SQLITE_FULL", "SQLITE_IOERR")
_FOLDER_ERRORS = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)
# An offset that was given out twice: its counter went back.
_DAMAGES = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT_PRIMARYKEY")


_left_to_parent: set[tuple[int, int]] = set()
"""Device and inode of files that were open when this process was forked."""


class _ForkSafeConnection(sqlite3.Connection):
    """Does nothing in a forked child, where SQLite must not even close it."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self._process = forking.process.generation
        found = path.stat()
        self._file = found.st_dev, found.st_ino
        self._closed = False
        forking.bind(self)

    def after_fork(self) -> None:
        """Remember the file: SQLite does, and believes that it holds the parent's locks."""
        if not self._closed:
            _left_to_parent.add(self._file)

    def close(self) -> None:
        """Close it only in the process that opened it."""
        if self._process == forking.process.generation:
            self._closed = True
            super().close()


@dataclass(frozen=True, slots=True)
class File:
    """One database file, its schema, and the errors for its failures."""

    path: Path
    schema: Schema
    unavailable: type[OperatorError]

    def failure(self, error: Exception) -> OperatorError:
        """Return the error to raise for one of SQLite's or of the operating system's."""
        name = getattr(error, "sqlite_errorname", "")
        # The driver's own error about invalid text, which has no name.
        undecodable = not name and "decode to UTF-8" in str(error)
        if isinstance(error, Damage) or undecodable or name.startswith(_DAMAGES):
            return self.damaged(str(error))
        cause = next((text for known, text in _CAUSES.items() if name.startswith(known)), None)
        detail = f"{cause} ({error})" if cause else f"{error}"
        if name.startswith(_SPACE_MATTERS):
            detail += f"; {_free_space(self.path.parent)}"
        if isinstance(error, _FOLDER_ERRORS):
            detail += "; embedded.folder must name a folder that exists or can be made"
        return self.unavailable(f"{self.path} is not available: {detail}")

    def damaged(self, what: str) -> FolderDamaged:
        """Return the error to raise if the file's content is not what was written."""
        return FolderDamaged(
            f"{self.path} is damaged: {what}; stop every process that uses {self.path.parent},"
            " keep a copy of it, and restore the whole folder from a backup"
        )

    def closed(self) -> OperatorError:
        """Return the error of a request after ``close``."""
        return self.unavailable(f"{self.path} was closed; open a new client or node to go on")


def _free_space(folder: Path) -> str:
    try:
        return f"{folder} has {shutil.disk_usage(folder).free // 1024} KiB left"
    except OSError as error:
        return f"the free space of {folder} cannot be read: {error}"


def examine(file: File) -> None:
    """Read the whole file and raise FolderDamaged if its structure is broken.

    Takes about a second for each GB that is cached in memory.
    """
    connection = open_connection(file, read_only=True)
    try:
        complaints = connection.execute("PRAGMA integrity_check(3)").fetchall()
    except sqlite3.Error as error:
        raise file.failure(error) from error
    finally:
        connection.close()
    if complaints != [("ok",)]:
        raise file.damaged("; ".join(str(text) for (text,) in complaints).replace("\n", " "))


def open_connection(file: File, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a file; create or upgrade it if necessary.

    The connection may be used by any one thread at a time. Raises ``file.unavailable``,
    FolderDamaged, and SchemaMissing if a newer version of Hourhand wrote the file.
    """
    try:
        _make_folder(file.path.parent)
        _refuse_emptied(file)
        _make_private(file.path)
        _refuse_inherited(file)
        connection = sqlite3.connect(
            file.path,
            timeout=BUSY_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            factory=_ForkSafeConnection,
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
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def _make_private(path: Path) -> None:
    """Make an empty file for its owner alone; SQLite gives its other files the same rights.

    An existing file keeps its rights: its owner may share the folder with a group.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))


def _refuse_emptied(file: File) -> None:
    """Raise FolderDamaged if the file is gone and its write-ahead file is not.

    SQLite makes the file first, and would delete the old write-ahead file.
    """
    ahead = file.path.with_name(f"{file.path.name}-wal")
    if _held_bytes(ahead) and not is_there(file):
        raise file.damaged(f"it is missing or empty, but {ahead.name} is not")


def _refuse_inherited(file: File) -> None:
    """Raise an error if the parent had the file open when this process was forked.

    SQLite then takes the parent's locks for this process's own. The parent would not see that the
    file is in use here, and remove the write-ahead file with acknowledged data in it.
    """
    with contextlib.suppress(FileNotFoundError):
        found = file.path.stat()
        if (found.st_dev, found.st_ino) in _left_to_parent:
            raise UsedAfterFork(
                f"{file.path} was open when this process, {os.getpid()}, was forked, so SQLite"
                " cannot use it here without losing records: close every client and node of that"
                f" folder before the fork, and {forking.ADVICE}"
            )


def is_there(file: File) -> bool:
    """True if the file exists and is not empty."""
    return _held_bytes(file.path) > 0


def _held_bytes(path: Path) -> int:
    """Return the size of a file, 0 if it is missing: others may remove it at any moment."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _prepare(connection: sqlite3.Connection, file: File) -> None:
    version = _checked_version(connection, file)
    _enter_wal_mode(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_MAX}")
    if version < file.schema.version:
        _bring_up_to_date(connection, file)
    for statement in (*file.schema.unversioned, *file.schema.overlooked):
        connection.execute(statement)


def _bring_up_to_date(connection: sqlite3.Connection, file: File) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Read again under the lock: another process may have been faster.
    version = _checked_version(connection, file)
    for script in file.schema.scripts[version:]:
        for statement in script:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={file.schema.application_id}")
    set_version(connection, max(version, file.schema.version))
    # Before any process sees the version: one that does writes at once, and reports durable data.
    sync_folder_and_above(file.path.parent)
    connection.execute("COMMIT")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the file's content."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def set_version(connection: sqlite3.Connection, version: int) -> None:
    """Set the version within the transaction."""
    connection.execute(f"PRAGMA user_version={version}")


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Switch a new file to WAL mode; SQLite does not wait here for others that do the same."""
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
    """Return the file's version, 0 for a new one; refuse files of other programs and newer
    versions.
    """
    # Tables first: another process may be making the file just now, in one transaction, so a
    # process that sees a table sees the file's id as well, but not the other way round.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    version = version_of(connection)
    if tables and application_id != file.schema.application_id:
        raise file.unavailable(
            f"{file.path} is a SQLite file, but not the one Hourhand keeps there; choose"
            " another embedded.folder"
        )
    known = file.schema.version_max
    if version > known:
        raise SchemaMissing(
            f"{file.path} has schema version {version}, this version of Hourhand knows {known};"
            " upgrade Hourhand, or choose another embedded.folder"
        )
    return version
