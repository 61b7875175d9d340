"""Opens a connection to the cluster, within a bound, or says why there is none.

It decides how nodes are chosen (the replica of a row in the local datacenter first) and at
which consistency everything runs.  It never creates or changes anything, and a password
never gets into a message.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from cassandra import ConsistencyLevel, DriverException, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
)
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import tuple_factory

from actors.model.errors import StoreUnavailable
from scheduler.settings import CassandraSettings


class Connection(NamedTuple):
    """The driver's two halves: the cluster owns threads and sockets, the session talks."""

    cluster: Any
    session: Any


def open_connection(settings: CassandraSettings) -> Connection:
    """Connect to the cluster; raises StoreUnavailable naming the contact points.

    Returns within ``connect_timeout_ms``, whatever the network does meanwhile.
    """
    timeout_s = settings.connect_timeout_ms / 1000
    cluster = _cluster(settings, timeout_s)
    # The driver bounds each host, not the whole, so the whole is bounded from outside.
    opener = ThreadPoolExecutor(1, thread_name_prefix="hourhand-cassandra-connect")
    opening = opener.submit(cluster.connect)
    try:
        return Connection(cluster, opening.result(timeout_s))
    except (NoHostAvailable, DriverException, OSError, FutureTimeout) as error:
        if opening.done():
            cluster.shutdown()
        else:
            opening.add_done_callback(lambda _: cluster.shutdown())
        raise StoreUnavailable(_unreachable(settings, error)) from None
    finally:
        opener.shutdown(wait=False)


def serial_level(settings: CassandraSettings) -> int:
    """Return the consistency of lightweight transactions that fits the one of plain writes."""
    local = settings.consistency.startswith("LOCAL_")
    level: int = ConsistencyLevel.LOCAL_SERIAL if local else ConsistencyLevel.SERIAL
    return level


def named(settings: CassandraSettings) -> str:
    """Return the contact points as people write them."""
    return ", ".join(f"{host}:{settings.port}" for host in settings.contact_points)


def _cluster(settings: CassandraSettings, timeout_s: float) -> Any:
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
        password = settings.password.get_secret_value() if settings.password else ""
        login = PlainTextAuthProvider(settings.username, password)
    return Cluster(
        settings.contact_points,
        port=settings.port,
        auth_provider=login,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # Spoken by Cassandra 4.0 and newer; finding it out costs two refused connections.
        protocol_version=ProtocolVersion.V5,
        connect_timeout=timeout_s,
        control_connection_timeout=timeout_s,
    )


def _unreachable(settings: CassandraSettings, error: BaseException) -> str:
    asked = named(settings)
    if isinstance(error, FutureTimeout):
        reason = f"no answer within {settings.connect_timeout_ms} ms"
    elif isinstance(error, NoHostAvailable) and isinstance(error.errors, Mapping):
        reason = "; ".join(f"{host}: {each}" for host, each in error.errors.items()) or str(error)
    else:
        reason = str(error) or type(error).__name__
    return (
        f"Cassandra does not answer at {asked} ({reason}): check that it runs, and"
        " cassandra.contact_points, port, datacenter, username and password"
    )
