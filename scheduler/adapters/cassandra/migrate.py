"""Creates keyspace and tables, and brings them up to date.

Any number of nodes may do this at once: all send schema changes to the same server, which takes
them one after another, and a lock row that expires lets one work while the others wait. It never
drops or empties a table.
"""

import contextlib
import threading
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple
from uuid import uuid4

import tenacity
from cassandra import (
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    Timeout,
    Unauthorized,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.protocol import ErrorMessage

from hourhand.actors.model.values.errors import SettingsInvalid, StoreUnavailable
from hourhand.scheduler.adapters.cassandra.connection import named, open_connection, without_rights
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings

LOCK = "migration_lock"
LOCK_TTL_S = 60
"""Seconds after which the lock of a dead migration expires."""
_LOCK_WAIT_S = 3 * LOCK_TTL_S
_LOCK_POLL_S = 0.5
_STATEMENT_TIMEOUT_S = 15.0
_CHANGE_WAIT_S = 20.0
"""A change begins no later than this; with its timeout and the wait for agreement it ends before
the lock expires."""
_AGREEMENT_WAIT_S = 20.0
_META_PREFIX = "migration:"


class Script(NamedTuple):
    """One file under ``schema/cassandra``."""

    number: int
    name: str
    statements: tuple[str, ...]

    @property
    def meta_name(self) -> str:
        """The row of ``schedule_meta`` that marks this file as applied."""
        return f"{_META_PREFIX}{self.number:03d}"


def schema_scripts() -> list[Script]:
    """Return all files in order; raises ValueError if their numbers have a gap."""
    scripts = sorted(_script(each) for each in _folder().iterdir() if each.name.endswith(".cql"))
    numbers = [script.number for script in scripts]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise ValueError(f"the files of schema/cassandra are numbered {numbers}, not 1, 2, 3, …")
    return scripts


def statements_of(text: str) -> tuple[str, ...]:
    """Cut CQL into statements at each semicolon; comments are lines that begin with ``--``."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    pieces = (piece.strip() for piece in "\n".join(lines).split(";"))
    return tuple(piece for piece in pieces if piece)


def _script(file: Traversable) -> Script:
    return Script(int(file.name[:3]), file.name, statements_of(file.read_text(encoding="utf-8")))


def _folder() -> Traversable:
    return files("hourhand.scheduler.schema") / "cassandra"


def migrate(settings: Settings) -> list[str]:
    """Apply missing files and return their names, in order.

    Raises StoreUnavailable, and SettingsInvalid if the replication names an unknown datacenter.
    """
    connection = open_connection(settings.cassandra)
    try:
        return _Migration(connection.session, settings.cassandra).run()
    except Unauthorized as error:
        raise without_rights(
            settings.cassandra, error, "CREATE on all keyspaces, or on that one where it is made"
        ) from None
    except (DriverException, ErrorMessage, NoHostAvailable) as error:
        raise StoreUnavailable(
            f"Cassandra at {named(settings.cassandra)} did not take a schema change"
            f" ({type(error).__name__}: {error}): run it again, which is safe"
        ) from error
    finally:
        connection.cluster.shutdown()


class _Migration:
    """One run, on one session, through one server."""

    def __init__(self, session: Any, settings: CassandraSettings) -> None:
        self._session = session
        self._settings = settings
        self._token = str(uuid4())

    def run(self) -> list[str]:
        """Apply missing files."""
        scripts = schema_scripts()
        self._change(self._keyspace_statement())
        _retrying(InvalidRequest)(self._session.set_keyspace, self._settings.keyspace)
        for statement in scripts[0].statements:
            self._change(statement)
        with self._lock():
            missing = [script for script in scripts if not self._is_applied(script)]
            for script in missing:
                self._apply(script)
        return [script.name for script in missing]

    def _apply(self, script: Script) -> None:
        for statement in script.statements:
            self._extend_lock()
            self._change(statement)
        self._ask(
            "INSERT INTO schedule_meta (name, value) VALUES (%s, %s) IF NOT EXISTS",
            script.meta_name,
            script.name,
        )

    def _is_applied(self, script: Script) -> bool:
        return bool(self._ask("SELECT value FROM schedule_meta WHERE name = %s", script.meta_name))

    def _keyspace_statement(self) -> str:
        hosts = self._session.cluster.metadata.all_hosts()
        known = sorted({host.datacenter for host in hosts if host.datacenter})
        local = self._session.cluster.get_control_connection_host()
        named_dc = self._settings.datacenter or (local.datacenter if local else known[0])
        replication = self._settings.replication or {named_dc: 1}
        unknown = sorted(set(replication) - set(known))
        if unknown:
            raise SettingsInvalid(
                f"cassandra.replication or datacenter names {', '.join(map(repr, unknown))}, but"
                f" the cluster has the datacenters {', '.join(map(repr, known))}"
            )
        replicas = "".join(
            f", '{name.replace(chr(39), 2 * chr(39))}': {number}"
            for name, number in sorted(replication.items())
        )
        return (
            f"CREATE KEYSPACE IF NOT EXISTS {self._settings.keyspace} WITH replication ="
            f" {{'class': 'NetworkTopologyStrategy'{replicas}}}"
        )

    def _change_once(self, cql: str) -> None:
        # Two servers that create one table at the same time give it two identities, so every run
        # sends its changes to the same one: the lowest address that is up. Just after connecting
        # the driver may not have reached it yet, and a retry helps.
        hosts = [host for host in self._session.cluster.metadata.all_hosts() if host.is_up]
        server = min(hosts, key=lambda host: str(host.endpoint), default=None)
        self._session.execute(cql, timeout=_STATEMENT_TIMEOUT_S, host=server)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda won: not won),
            stop=tenacity.stop_after_delay(_LOCK_WAIT_S),
            wait=tenacity.wait_fixed(_LOCK_POLL_S) + tenacity.wait_random(0, _LOCK_POLL_S),
            sleep=tenacity.sleep_using_event(threading.Event()),
            retry_error_callback=lambda _: False,
        )
        if not waiting(self._try_lock):
            raise StoreUnavailable(
                f"another migration of keyspace {self._settings.keyspace!r} holds the lock for"
                f" more than {_LOCK_WAIT_S} s: see whether it still runs, then try again"
            )
        try:
            yield
        finally:
            # If this fails the lock expires; the migration itself is done or has reported its
            # failure.
            with contextlib.suppress(DriverException, ErrorMessage, NoHostAvailable):
                self._ask(
                    "DELETE FROM schedule_meta WHERE name = %s IF value = %s", LOCK, self._token
                )

    def _try_lock(self) -> bool:
        taken = self._ask(
            "INSERT INTO schedule_meta (name, value) VALUES (%s, %s) IF NOT EXISTS"
            f" USING TTL {LOCK_TTL_S}",
            LOCK,
            self._token,
        )
        # It was not applied but is ours: the answer of an earlier try was lost.
        return bool(taken[0][0]) or self._token in taken[0]

    def _extend_lock(self) -> None:
        kept = self._ask(
            f"UPDATE schedule_meta USING TTL {LOCK_TTL_S} SET value = %s WHERE name = %s"
            " IF value = %s",
            self._token,
            LOCK,
            self._token,
        )
        if not kept[0][0]:
            raise StoreUnavailable("the migration lost its lock by being slow: run it again")

    def _ask(self, cql: str, *values: str) -> list[tuple[Any, ...]]:
        # Every request may be repeated: its change names its token, or is the same. A node may
        # refuse it because it does not know a table yet: agreement covers only the nodes that the
        # driver has reached so far.
        trying = _retrying(InvalidRequest)
        return list(trying(self._session.execute, cql, values, timeout=_STATEMENT_TIMEOUT_S))

    def _change(self, cql: str) -> None:
        """Run a schema change on one server, and wait until all servers agree on it.

        Each change creates only missing objects, so one of unknown outcome is repeated.
        """
        _retrying()(self._change_once, cql)
        # The driver waits only for its own changes, not if another run was faster; a node that does
        # not know the keyspace yet would fail the next statement.
        try:
            # Only this keyspace: a cluster may have hundreds, and each change reads it again.
            self._session.cluster.refresh_keyspace_metadata(
                self._settings.keyspace, max_schema_agreement_wait=_AGREEMENT_WAIT_S
            )
        except DriverException as error:
            raise StoreUnavailable(
                f"the nodes of Cassandra at {named(self._settings)} do not agree on the schema"
                f" ({error}): wait until all are up, then run it again"
            ) from error


def _retrying(*also: type[Exception]) -> tenacity.Retrying:
    # ErrorMessage: errors without a class of the driver, such as a lightweight transaction of
    # unknown result. Each of ours may be repeated. ConnectionException: a node that does not know
    # the new keyspace yet refuses to use it.
    passing = (
        ConnectionException,
        ErrorMessage,
        NoHostAvailable,
        OperationTimedOut,
        Timeout,
        Unavailable,
        *also,
    )
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(passing),
        stop=tenacity.stop_after_delay(_CHANGE_WAIT_S),
        wait=tenacity.wait_fixed(_LOCK_POLL_S) + tenacity.wait_random(0, _LOCK_POLL_S),
        sleep=tenacity.sleep_using_event(threading.Event()),
        reraise=True,
    )
