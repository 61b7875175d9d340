"""The outbox's table: its migrations, the statement that writes a row, and the lane of a row.

Decides the columns of a row, the lanes, and the order in which rows of one ordering id are
numbered; it executes nothing. In PostgreSQL a transaction that writes a row holds a lock of the
row's ordering id until it ends, so rows of one id are numbered in the order of their commits.
SQLite has one writer at a time, so there all rows are. Rows of one key are found by the key's hash.
"""

from collections.abc import Callable
from enum import StrEnum
from hashlib import blake2b

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import SettingsInvalid

SCHEMA_VERSION = 2
"""Version of the table that this version reads and writes."""
LANES = 32
"""Movers share rows by lane: all rows of an ordering id are in one lane."""


class Dialect(StrEnum):
    """The databases that may hold an outbox."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


_POSTGRESQL_1 = """CREATE TABLE IF NOT EXISTS {table} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane smallint NOT NULL,
    key_hash bigint NOT NULL DEFAULT 0,
    record bytea NOT NULL,
    written_ms bigint NOT NULL
)"""
_SQLITE_1 = """CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    key_hash INTEGER NOT NULL DEFAULT 0,
    record BLOB NOT NULL,
    written_ms INTEGER NOT NULL
)"""
# Existing rows are not checked, so none of them stops the migration.
_POSTGRESQL_2 = """ALTER TABLE {table}
    DROP CONSTRAINT IF EXISTS {table}_lane_exists,
    ADD CONSTRAINT {table}_lane_exists CHECK (lane BETWEEN 0 AND {last_lane}) NOT VALID"""
# SQLite cannot add a CHECK to an existing table.
_SQLITE_2 = """CREATE TRIGGER IF NOT EXISTS {table}_lane_exists_{event}
BEFORE {event} ON {table} WHEN NEW.lane NOT BETWEEN 0 AND {last_lane}
BEGIN
    SELECT RAISE(ABORT, 'lane of {table} must be 0 to {last_lane}');
END"""
_MIGRATIONS: dict[Dialect, tuple[tuple[str, ...], ...]] = {
    Dialect.POSTGRESQL: (
        (
            _POSTGRESQL_1,
            "CREATE INDEX IF NOT EXISTS {table}_lane ON {table} (lane, id)",
            "CREATE INDEX IF NOT EXISTS {table}_key ON {table} (key_hash, id)",
            "CREATE TABLE IF NOT EXISTS {table}_version (version integer PRIMARY KEY)",
            "INSERT INTO {table}_version VALUES (1) ON CONFLICT DO NOTHING",
        ),
        (
            _POSTGRESQL_2,
            # No mover claims an unknown lane. A row in one was not written by an outbox, so it has
            # no order to keep, and may go to any lane.
            "UPDATE {table} SET lane = 0 WHERE lane NOT BETWEEN 0 AND {last_lane}",
            "INSERT INTO {table}_version VALUES (2) ON CONFLICT DO NOTHING",
        ),
    ),
    Dialect.SQLITE: (
        (
            _SQLITE_1,
            "CREATE INDEX IF NOT EXISTS {table}_key ON {table} (key_hash, id)",
            "CREATE TABLE IF NOT EXISTS {table}_version (version INTEGER PRIMARY KEY)",
            "INSERT OR IGNORE INTO {table}_version VALUES (1)",
        ),
        (
            *(_SQLITE_2.replace("{event}", each) for each in ("INSERT", "UPDATE")),
            "INSERT OR IGNORE INTO {table}_version VALUES (2)",
        ),
    ),
}
"""For each version the statements that lead to it from the previous one; each may run twice."""

_INSERT = {
    # The lock is taken before the row gets its number, because the row is made from the lock's
    # result.
    Dialect.POSTGRESQL: (
        "WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock({lock}::bigint)),"
        " told AS MATERIALIZED (SELECT pg_notify('{table}', ''))"
        " INSERT INTO {table} (lane, key_hash, record, written_ms)"
        " SELECT {lane}::smallint, {key_hash}::bigint, {record}::bytea, {written_ms}::bigint"
        " FROM held, told"
    ),
    Dialect.SQLITE: (
        "INSERT INTO {table} (lane, key_hash, record, written_ms)"
        " VALUES ({lane}, {key_hash}, {record}, {written_ms})"
    ),
}
_MARKS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _number: "?",
    "format": lambda _number: "%s",
    "pyformat": lambda _number: "%s",
    "numeric": lambda number: f":{number}",
    "numeric_dollar": lambda number: f"${number}",
}
"""A driver's placeholders, by their name in PEP 249 or SQLAlchemy."""


def dialect_of(name: str) -> Dialect:
    """Return the dialect of this name; raises SettingsInvalid for an unknown one."""
    try:
        return Dialect(name)
    except ValueError:
        raise SettingsInvalid(
            f"an outbox stands in postgresql or sqlite, got {shown(name)}: use one of them"
        ) from None


def migration_statements(
    dialect: Dialect, table: str, after_version: int = 0, version: int = SCHEMA_VERSION
) -> list[str]:
    """Return the statements that bring the table from one version to another, in order."""
    steps = _MIGRATIONS[dialect][after_version:version]
    names = {"table": table, "last_lane": LANES - 1}
    return [statement.format(**names) for step in steps for statement in step]


def insert_statement(dialect: Dialect, table: str, param_style: str) -> str:
    """Return the statement that writes a row; its values are those of ``row_values``."""
    names = ["lane", "key_hash", "record", "written_ms"]
    if dialect is Dialect.POSTGRESQL:
        names.insert(0, "lock")
    mark = _MARKS[param_style]
    marks = {name: mark(number) for number, name in enumerate(names, 1)}
    return _INSERT[dialect].format(table=table, **marks)


def row_values(
    dialect: Dialect, key: TaskKey, record: bytes, written_ms: int
) -> tuple[int | bytes, ...]:
    """Return the values of a row in the statement's order."""
    lock = lock_of(key.ordering_id)
    values = (lock % LANES, _hash_of(str(key)), record, written_ms)
    return values if dialect is Dialect.SQLITE else (lock, *values)


def lock_of(ordering_id: str) -> int:
    """Return the number of an ordering id's lock in PostgreSQL, a signed 64-bit integer."""
    return _hash_of(ordering_id)


def _hash_of(text: str) -> int:
    digest = blake2b(text.encode(), digest_size=8, person=b"hourhand").digest()
    return int.from_bytes(digest, "big", signed=True)
