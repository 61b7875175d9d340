"""``OutboxTable`` in a PostgreSQL database of the user's.

A claim is one transaction that holds the locks of some lanes, which PostgreSQL releases with the
connection, at any end of the mover. Rows are read after the locks are held, by a separate
statement: only then does it see the deletes of the previous mover. Notifications report new rows,
but are not required.
"""

import contextlib
import logging
import random
import re
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hourhand.actors.model.values.errors import OutboxUnavailable, SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.outbox.ports import ROWS_COUNTED_MAX, ClaimedRows, OutboxLag, OutboxRow
from hourhand.scheduler.outbox.sqlite import table_missing
from hourhand.scheduler.outbox.table import LANES, SCHEMA_VERSION, Dialect, migration_statements

logger = logging.getLogger("hourhand.outbox")

_CONNECT_TIMEOUT_S = 10
_LANES_CLAIMED_MAX = 8
"""Limit so that several movers find lanes; a single one needs four rounds to see all."""
_CLAIM_MS = 30_000
"""Time after the begin of a claim for which its rows may be sent."""
_CLAIM_MARGIN_MS = 15_000
_LISTEN_TIMEOUT_S = 0.25
"""Longest wait of a stop for the listening thread, in seconds."""

_CLAIM_LANES = """
WITH waiting AS MATERIALIZED (
    SELECT lane FROM generate_series(0, {lanes} - 1) AS lane
    WHERE EXISTS (
        SELECT 1 FROM {table} AS row WHERE row.lane = lane.lane AND row.id <> ALL(%s::bigint[])
    )
    ORDER BY (lane - %s + {lanes}) %% {lanes}
)
SELECT lane FROM waiting WHERE pg_try_advisory_xact_lock(%s, lane) LIMIT {claimed}
"""
_READ_ROWS = """
SELECT id, record, written_ms FROM {table}
WHERE lane = ANY(%s) AND id <> ALL(%s::bigint[])
ORDER BY id LIMIT %s
"""
_READ_NEWEST = """
SELECT DISTINCT ON (key_hash) id, record, written_ms FROM {table}
WHERE lane = ANY(%s) AND id <> ALL(%s::bigint[]) AND id > %s
    AND key_hash IN (SELECT key_hash FROM {table} WHERE id = ANY(%s))
ORDER BY key_hash, id DESC
"""
_LAG = """
SELECT count(*), min(written_ms)
FROM (SELECT written_ms FROM {table} ORDER BY id LIMIT {counted}) AS waiting
"""


def require_readable(url: str) -> str:
    """Return the URL; SettingsInvalid if part of a password could be taken for another part.

    The driver's errors quote unreadable parts, and the host or port, so such a URL never reaches a
    connection. The refusal quotes nothing of it.
    """
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, UnicodeError):
        parts = None
    if parts is not None:
        is_split_well = "@" not in parts.get("host", "") + parts.get("dbname", "")
        if is_split_well and re.fullmatch("[0-9,]*", parts.get("port", ""), re.ASCII):
            return url
    # Outside of the handler: otherwise a trace would show the driver's error as its context.
    raise SettingsInvalid(
        "outbox.url cannot be read as postgresql://user:password@host:port/database. Write special"
        " characters of the user and the password percent-encoded: % is %25, a space %20, @ %40,"
        " / %2F, ? %3F, [ %5B, ] %5D. Or leave the password out, and name it in PGPASSWORD or in"
        " PostgreSQL's password file"
    )


class PostgresOutbox:
    """The table of one database; connects at its first use, and again after a failure.

    ``delivery_ms`` is the time for which the log may try to deliver a record after it was appended.
    Raises SettingsInvalid for a URL that cannot be read.
    """

    def __init__(self, url: str, table: str, clock: Clock, delivery_ms: int) -> None:
        self._url = require_readable(url)
        self._table = table
        self._clock = clock
        # A mover that pauses keeps its lanes until no record of its claim can be delivered.
        self._idle_ms = _CLAIM_MS + delivery_ms + _CLAIM_MARGIN_MS
        self._lock_class = zlib.crc32(f"hourhand {table}".encode()) - 2**31
        self._connection: psycopg.Connection[Any] | None = None
        self._first_lane = random.randrange(LANES)  # noqa: S311 - several movers begin apart
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    def migrate(self) -> list[str]:
        """Bring the table to the newest version; return the changes, one line each."""
        with self._translated():
            connection = self._opened()
            with connection.transaction():
                # Two migrations at once would both create the table, and one would fail.
                connection.execute("SELECT pg_advisory_xact_lock(%s, -1)", (self._lock_class,))
                version = self._version(connection)
                if version >= SCHEMA_VERSION:
                    return []
                for statement in migration_statements(Dialect.POSTGRESQL, self._table, version):
                    connection.execute(statement.encode())
        return [f"brought table {self._table} to version {SCHEMA_VERSION}"]

    @contextmanager
    def claim(self, rows_max: int, passed_over: Collection[int] = ()) -> Iterator[ClaimedRows]:
        """Claim the oldest rows of free lanes."""
        with self._translated():
            connection = self._opened()
            self._listen()
            until_ms = self._clock.monotonic_ms() + _CLAIM_MS
            with connection.transaction():
                connection.execute(
                    f"SET LOCAL idle_in_transaction_session_timeout = {self._idle_ms}".encode()
                )
                passed = list(passed_over)
                lanes = self._claim_lanes(connection, passed)
                rows = self._read(_READ_ROWS, lanes, passed, rows_max) if lanes else []
                newest: list[OutboxRow] = []
                if len(rows) == rows_max:
                    numbers = [row.number for row in rows]
                    newest = self._read(_READ_NEWEST, lanes, passed, numbers[-1], numbers)
                yield ClaimedRows(rows, newest, self._delete, until_ms)

    def lag(self) -> OutboxLag:
        """Return the waiting rows."""
        query = _LAG.format(table=self._table, counted=ROWS_COUNTED_MAX).encode()
        with self._translated():
            found = self._opened().execute(query).fetchone()
        assert found is not None, "an aggregate has one row"
        return OutboxLag(*found)

    def wait(self, timeout_ms: int) -> None:
        """Wait for a notification."""
        self._woken.wait(timeout_ms / 1000)
        self._woken.clear()

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def close(self) -> None:
        """Close the connections, which releases claims."""
        self._closed.set()
        self._disconnect()
        if self._listener is not None:
            self._listener.join(_LISTEN_TIMEOUT_S * 4)

    def _claim_lanes(
        self, connection: "psycopg.Connection[Any]", passed_over: list[int]
    ) -> list[int]:
        query = _CLAIM_LANES.format(table=self._table, lanes=LANES, claimed=_LANES_CLAIMED_MAX)
        places = (passed_over, self._first_lane, self._lock_class)
        lanes = [lane for (lane,) in connection.execute(query.encode(), places).fetchall()]
        if lanes:
            self._first_lane = (lanes[-1] + 1) % LANES
        return lanes

    def _read(self, query: str, *values: object) -> list[OutboxRow]:
        found = self._opened().execute(query.format(table=self._table).encode(), values)
        return [OutboxRow(*each) for each in found.fetchall()]

    def _delete(self, numbers: Sequence[int]) -> None:
        if numbers:
            query = f"DELETE FROM {self._table} WHERE id = ANY(%s)".encode()
            self._opened().execute(query, (list(numbers),))

    def _version(self, connection: "psycopg.Connection[Any]") -> int:
        query = "SELECT to_regclass(%s)"
        if connection.execute(query, (f"{self._table}_version",)).fetchone() == (None,):
            return 0
        query = f"SELECT max(version) FROM {self._table}_version"
        found = connection.execute(query.encode()).fetchone()
        return int(found[0] or 0) if found is not None else 0

    def _opened(self) -> "psycopg.Connection[Any]":
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> "psycopg.Connection[Any]":
        # Prepared statements would not survive a pooler that shares connections.
        return psycopg.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name="hourhand outbox",
        )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _listen(self) -> None:
        """Begin to listen, on a connection and a thread of its own, unless it already does."""
        if self._listener is None or not self._listener.is_alive():
            self._listener = threading.Thread(
                target=self._hear, name="hourhand-outbox-listener", daemon=True
            )
            self._listener.start()

    def _hear(self) -> None:
        """Wake the mover when rows were committed; end when the connection fails."""
        with contextlib.suppress(psycopg.Error), self._connect() as connection:
            connection.execute(f"LISTEN {self._table}".encode())
            while not self._closed.is_set():
                # A notification that arrives between two loops is kept for the next call.
                for _ in connection.notifies(timeout=_LISTEN_TIMEOUT_S, stop_after=1):
                    self._woken.set()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UndefinedTable as error:
            raise table_missing(self._table, "the database of outbox.url") from error
        except psycopg.Error as error:
            self._disconnect()
            raise OutboxUnavailable(
                f"the outbox's database failed: {type(error).__name__}: {str(error).strip()}"
            ) from error
