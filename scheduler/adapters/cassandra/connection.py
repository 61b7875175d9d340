"""Opens a connection to the cluster within a bounded time, or explains the failure.

It decides how nodes are chosen (the replica of a row in the local datacenter first) and the
consistency of all statements. It never creates or changes anything, and a password never gets into
a message.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    ProtocolVersion,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    DefaultConnection,
    ExecutionProfile,
    NoHostAvailable,
)
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory

from hourhand.actors.model.values.errors import SettingsInvalid, StoreUnavailable
from hourhand.scheduler.adapters.cassandra.packing import PackedProtocol
from hourhand.scheduler.configuration.settings import CassandraSettings

_RECONNECT_FIRST_S = 0.5
_RECONNECT_MAX_S = 5.0
"""Pause between two tries to reach a server that is down. The driver's own pauses grow to ten
minutes, and every task would wait as long after an outage."""

_AT_ONCE = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""The driver sends a request in pieces of 4 KiB. Without this option the last piece waits for the
server's acknowledgement of the previous one, which a server without an answer delays for 40 ms; all
later requests on the connection wait too."""

_SILENT_S = 5.0
"""A connection that is silent for so long is asked whether it is alive, and closed if it is silent
for as long again. The driver by itself takes a minute and more, in which it loses each request over
a connection whose server has gone without a word."""

_PROTOCOL_VERSION = ProtocolVersion.V4
"""Version 5 adds a checksum to each frame, which the driver computes bit by bit in Python, and the
server pays for it too. TLS protects frames better, and nothing else of version 5 is needed."""


class Alarm:
    """A timer for the driver: it calls a function once, unless it is cancelled before."""

    __slots__ = ("_call", "timer")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call
        self.timer: Any = None
        """The driver's timer that calls ``ring``."""

    def ring(self) -> None:
        """Call the function; on the driver's event loop."""
        call = self._call
        self._call = self.timer = None
        if call is not None:
            call()

    def cancel(self) -> None:
        """Drop the function; the driver calls this on any thread."""
        timer = self.timer
        self._call = self.timer = None
        if timer is not None:
            timer.cancel()


class ForgettingConnection(DefaultConnection):  # type: ignore[misc]
    """The driver's connection; cancelled timers drop their references.

    The driver sets one timer for each request, against missing answers. A cancelled timer stays on
    its heap until its time, seconds later, and holds the request, its rows and the waiting caller.
    Request and timer refer to each other as well, so only Python's cyclic collector could free
    them, which stops the process meanwhile.
    """

    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> Alarm:
        """Call ``callback`` after ``timeout`` seconds; the driver calls this on any thread."""
        alarm = Alarm(callback)
        alarm.timer = super().create_timer(timeout, alarm.ring)
        return alarm


class Connection(NamedTuple):
    """The driver's two halves: the cluster owns threads and sockets, the session sends requests."""

    cluster: Any
    session: Any


def open_connection(settings: CassandraSettings) -> Connection:
    """Connect to the cluster; raises StoreUnavailable that names the contact points.

    Raises SettingsInvalid if a file of ``cassandra.tls`` or of a password cannot be used. Returns
    within ``connect_timeout_ms``.
    """
    timeout_s = settings.connect_timeout_ms / 1000
    cluster = cluster_of(settings, timeout_s)
    # The driver bounds the time for each host only, so the whole is bounded here.
    opener = ThreadPoolExecutor(1, thread_name_prefix="hourhand-cassandra-connect")
    opening = opener.submit(cluster.connect)
    try:
        session = opening.result(timeout_s)
    except (NoHostAvailable, DriverException, OSError, FutureTimeout) as error:
        if opening.done():
            cluster.shutdown()
        else:
            opening.add_done_callback(lambda _: cluster.shutdown())
        raise StoreUnavailable(_unreachable(settings, error)) from None
    finally:
        opener.shutdown(wait=False)
    return Connection(cluster, with_protocol(session, PackedProtocol))


def with_protocol(session: Any, protocol: Any) -> Any:
    """Return a session of the driver, whose requests one handler encodes and decodes."""
    session.client_protocol_handler = protocol
    # A write without a time of its own gets the server's. The driver would give it that of a clock
    # that was ahead once for as long as it was ahead, and complain each second.
    session.use_client_timestamp = False
    return session


def serial_level(settings: CassandraSettings) -> int:
    """Return the consistency of lightweight transactions that fits the one of plain writes."""
    local = settings.consistency.startswith("LOCAL_")
    level: int = ConsistencyLevel.LOCAL_SERIAL if local else ConsistencyLevel.SERIAL
    return level


def named(settings: CassandraSettings) -> str:
    """Return the contact points as text."""
    return ", ".join(f"{host}:{settings.port}" for host in settings.contact_points)


def without_rights(settings: CassandraSettings, error: Exception, needed: str) -> StoreUnavailable:
    """Return the error for a user without rights; ``needed`` is the right to grant."""
    return StoreUnavailable(
        f"Cassandra at {named(settings)} refuses user {settings.username!r} access to keyspace"
        f" {settings.keyspace!r} ({error}): grant it {needed}"
    )


def cluster_of(settings: CassandraSettings, timeout_s: float) -> Any:
    """Return the driver, configured but not connected; raises SettingsInvalid."""
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(
            DCAwareRoundRobinPolicy(local_dc=settings.datacenter or "")
        ),
        consistency_level=getattr(ConsistencyLevel, settings.consistency),
        serial_consistency_level=serial_level(settings),
        request_timeout=settings.request_timeout_ms / 1000,
        row_factory=tuple_factory,
    )
    login = None
    if settings.username is not None:
        password = settings.password_text("cassandra") or ""
        login = PlainTextAuthProvider(settings.username, password)
    return Cluster(
        settings.contact_points,
        port=settings.port,
        connection_class=ForgettingConnection,
        auth_provider=login,
        ssl_context=_tls_context(settings),
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ExponentialReconnectionPolicy(_RECONNECT_FIRST_S, _RECONNECT_MAX_S),
        protocol_version=_PROTOCOL_VERSION,
        sockopts=_AT_ONCE,
        connect_timeout=timeout_s,
        control_connection_timeout=timeout_s,
        idle_heartbeat_interval=_SILENT_S,
        idle_heartbeat_timeout=_SILENT_S,
    )


def _tls_context(settings: CassandraSettings) -> ssl.SSLContext | None:
    """Return a context that verifies the nodes' certificates, and their addresses."""
    tls = settings.tls
    if not tls.enabled:
        return None
    files = tls.checked_files("cassandra.tls")
    password = tls.key_password_text("cassandra.tls")
    try:
        context = ssl.create_default_context(cafile=files.get("ca_file"))
    except ssl.SSLError as error:
        raise SettingsInvalid(
            f"cassandra.tls.ca_file names {tls.ca_file}, which holds no certificate in PEM"
            f" ({error.reason or error})"
        ) from None
    if "certificate_file" in files:
        try:
            # Without a function for the password Python would ask for it on the terminal.
            context.load_cert_chain(
                files["certificate_file"], files["key_file"], lambda: password or ""
            )
        except ssl.SSLError as error:
            raise SettingsInvalid(
                f"cassandra.tls.certificate_file {tls.certificate_file} and key_file"
                f" {tls.key_file} are not a pair in PEM that key_password opens"
                f" ({error.reason or error})"
            ) from None
    return context


def _unreachable(settings: CassandraSettings, error: BaseException) -> str:
    asked = named(settings)
    causes: list[BaseException] = [error]
    if isinstance(error, FutureTimeout):
        reason = f"no answer within {settings.connect_timeout_ms} ms"
    elif isinstance(error, NoHostAvailable) and isinstance(error.errors, Mapping):
        causes += error.errors.values()
        reason = "; ".join(f"{host}: {each}" for host, each in error.errors.items()) or str(error)
    else:
        reason = str(error) or type(error).__name__
    if any(isinstance(each, AuthenticationFailed) for each in causes):
        return (
            f"Cassandra at {asked} refuses user {settings.username!r} ({reason}): check"
            " cassandra.username and its password"
        )
    if any("Rejecting Protocol Version" in str(each) for each in causes):
        return (
            f"Cassandra at {asked} does not speak version {_PROTOCOL_VERSION} of its protocol"
            f" ({reason}): set native_transport_allow_older_protocols to true in its"
            " cassandra.yaml"
        )
    # The driver wraps the error with the reason about a certificate in a plain OSError.
    if any(isinstance(each, OSError) and "_ssl.c" in str(each) for each in causes):
        return (
            f"there is no TLS with Cassandra at {asked} ({reason}): check cassandra.tls, that"
            " ca_file holds the authority of the nodes' certificates, that they name these"
            " addresses, that this port speaks TLS, and certificate_file where nodes ask for one"
        )
    return (
        f"Cassandra does not answer at {asked} ({reason}): check that it runs, and"
        " cassandra.contact_points, port, datacenter, tls, username and password"
    )
