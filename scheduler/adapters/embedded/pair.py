"""The two files of a folder vouch for each other: one that was lost or set back is noticed.

It decides whether log and store belong together and neither is behind what the other has seen
of it, and never which of them is right.  A file that was never paired vouches for nothing.

- Both hold the same identity, drawn by the first to see both.  An empty log beside an old
  store would give out offsets again; an empty store beside an old log would know no task.
- The log keeps the store's count of transactions at its last commit of offsets.  A store that
  counts less lost rows of records that nobody will read again.
- The store keeps each partition's next offset.  A log that ends before it lost records.
"""

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator

from hourhand.scheduler.adapters.embedded.connection import (
    FAILURES,
    File,
    is_there,
    open_connection,
)
from hourhand.scheduler.adapters.embedded.folder import log_file, store_file
from hourhand.scheduler.configuration.settings import Settings

_IDENTITY_BITS = 62


def check_pair(settings: Settings) -> None:
    """Raise FolderDamaged if one file is missing, empty, too old, or not of the other.

    Does nothing if only one of log and store is embedded.
    """
    if not is_paired(settings):
        return
    log, store = log_file(settings.embedded.folder), store_file(settings.embedded.folder)
    if is_there(log) and is_there(store):
        _compare(log, store)
    for there, other in ((log, store), (store, log)):
        # Checked again at the end: another process may be making both just now.
        if is_there(there) and not is_there(other) and _identity(there) and not is_there(other):
            raise other.damaged(f"it is missing or empty, but {there.path.name} belongs to one")


def is_paired(settings: Settings) -> bool:
    """True if both files are used."""
    return settings.log == settings.store == "embedded"


class StoreTally:
    """Reads the number of transactions that the store has committed; 0 if it is not embedded."""

    def __init__(self, settings: Settings) -> None:
        self._file = store_file(settings.embedded.folder)
        self._connection = (
            open_connection(self._file, read_only=True) if is_paired(settings) else None
        )

    def read(self) -> int:
        """Return the count; raises StoreUnavailable and FolderDamaged."""
        if self._connection is None:
            return 0
        try:
            return _number(self._connection, "SELECT tally FROM pair")
        except FAILURES as error:
            raise self._file.failure(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()


def _compare(log: File, store: File) -> None:
    with _connected(log) as to_log, _connected(store) as to_store:
        _compare_identities(log, to_log, to_store)
        # Each recorded number is read before the one it is compared with, as both go on growing.
        seen = _number(to_log, "SELECT store_tally FROM pair")
        tally = _number(to_store, "SELECT tally FROM pair")
        if tally < seen:
            raise store.damaged(
                f"it has {tally} transactions, but {log.path.name} has seen {seen} of it: what"
                " it had acknowledged last is gone"
            )
        read = to_store.execute(
            "SELECT partition, next_offset FROM partition_watermark WHERE next_offset IS NOT NULL"
        ).fetchall()
        ends = dict(to_log.execute("SELECT partition, next_offset FROM log_end"))
        for partition, next_offset in read:
            end = ends.get(partition, 0)
            if end < next_offset:
                raise log.damaged(
                    f"partition {partition} ends at {end}, but {store.path.name} holds what"
                    f" stood up to {next_offset}: its last acknowledged data is lost"
                )


def _compare_identities(
    log: File, to_log: sqlite3.Connection, to_store: sqlite3.Connection
) -> None:
    """Compare the identities, or pair the files: the log first, so that it never lacks one that the
    store has.
    """
    of_store = _number(to_store, "SELECT identity FROM pair")
    if not of_store:
        drawn = 1 + secrets.randbits(_IDENTITY_BITS)
        _set_identity(to_log, drawn)
        _set_identity(to_store, _number(to_log, "SELECT identity FROM pair"))
        of_store = _number(to_store, "SELECT identity FROM pair")
    if _number(to_log, "SELECT identity FROM pair") != of_store:
        raise log.damaged("it does not belong to the store.db beside it, or was emptied")


def _set_identity(connection: sqlite3.Connection, identity: int) -> None:
    connection.execute("UPDATE pair SET identity = ? WHERE identity IS NULL", (identity,))


def _identity(file: File) -> int:
    with _connected(file) as connection:
        return _number(connection, "SELECT identity FROM pair")


def _number(connection: sqlite3.Connection, query: str) -> int:
    """Return the only number of the only row, 0 without a row."""
    row = connection.execute(query).fetchone()
    return int(row[0] or 0) if row else 0


@contextlib.contextmanager
def _connected(file: File) -> Iterator[sqlite3.Connection]:
    connection = open_connection(file)
    try:
        yield connection
    except FAILURES as error:
        raise file.failure(error) from error
    finally:
        connection.close()
