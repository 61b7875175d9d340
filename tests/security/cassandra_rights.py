"""A Cassandra that lets in only who proves it, its users, and the rights each holds."""

import ssl
from pathlib import Path
from typing import Any

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from hourhand import Settings
from hourhand.scheduler import wiring
from tests.security.authority import CLIENT, SECRET, SERVER, STORE_PASSWORD, Authority
from tests.security.clients import login
from tests.servers.cassandra import NEVER_KILLED, CassandraServer

SUPERUSER = "cassandra"
"""Name and password of the user that a new cluster comes with."""

NODE_GRANTS = ("SELECT", "MODIFY")
"""What docs/security.md lists for a node, on its keyspace."""
READER_GRANTS = ("SELECT",)
"""What it lists for commands that read, on the keyspace."""
MIGRATE_GRANTS = ("CREATE",)
"""What it lists for ``hourhand migrate``, on all keyspaces; whoever makes one owns it."""


def cassandra_settings(server: CassandraServer, folder: Path, **cassandra: Any) -> Settings:
    """Return settings for the server; the log is embedded, as only the store matters here."""
    chosen: Any = {
        "contact_points": tuple(server.addresses),
        "port": server.port,
        "keyspace": "secured",
        "connect_timeout_ms": 15_000,
        **cassandra,
    }
    return Settings(
        store="cassandra",
        topic={"partitions": 2},
        cassandra=chosen,
        embedded={"folder": folder},
    )


def encrypted(authority: Authority, *, mutual: bool) -> dict[str, object]:
    """Return the part of a node's configuration that lets in nobody without TLS."""
    return {
        "client_encryption_options": {
            "enabled": True,
            "optional": False,
            "require_client_auth": mutual,
            "keystore": str(authority.server_p12),
            "keystore_password": STORE_PASSWORD,
            "truststore": str(authority.trust_p12),
            "truststore_password": STORE_PASSWORD,
            "store_type": "PKCS12",
        }
    }


def a_context(authority: Authority) -> ssl.SSLContext:
    """Return a TLS context of the tests' own, with the client's certificate."""
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(authority.certificate_file, authority.key_file, SECRET)
    return context


def locked_server(folder: Path, authority: Authority) -> CassandraServer:
    """Return a node, not yet started, with TLS, logins and rights."""
    return CassandraServer(
        folder,
        client=_superuser(authority),
        java_options=NEVER_KILLED,
        configuration={
            **encrypted(authority, mutual=False),
            "rpc_address": "0.0.0.0",  # noqa: S104 - reached at an address it does not name
            "broadcast_rpc_address": SERVER,
            "authenticator": {"class_name": "PasswordAuthenticator"},
            "authorizer": {"class_name": "CassandraAuthorizer"},
        },
    )


def make_users(server: CassandraServer, authority: Authority) -> None:
    """Make the users of a node, a migrator, and one who may nothing, and the node's keyspace."""
    cluster = Cluster(server.addresses, port=server.port, **_superuser(authority))
    session = cluster.connect()
    try:
        for user in (CLIENT, "migrator", "reader", "powerless"):
            # A statement about roles takes no bound values; the names and password are ours.
            session.execute(f"CREATE ROLE {user} WITH LOGIN = true AND PASSWORD = '{SECRET}'")
        for grant in MIGRATE_GRANTS:
            session.execute(f"GRANT {grant} ON ALL KEYSPACES TO migrator")
        migrator = login(authority, username="migrator")
        wiring.migrate(cassandra_settings(server, Path("unused"), **migrator))
        for grant in NODE_GRANTS:
            session.execute(f"GRANT {grant} ON KEYSPACE secured TO {CLIENT}")
        for grant in READER_GRANTS:
            session.execute(f"GRANT {grant} ON KEYSPACE secured TO reader")
    finally:
        cluster.shutdown()


def forget_progress(server: CassandraServer, authority: Authority) -> None:
    """Let the next node begin every partition at the beginning of its own log."""
    cluster = Cluster(server.addresses, port=server.port, **_superuser(authority))
    try:
        cluster.connect().execute("TRUNCATE secured.partition_watermark")
    finally:
        cluster.shutdown()


def _superuser(authority: Authority) -> dict[str, Any]:
    return {
        "ssl_context": a_context(authority),
        "auth_provider": PlainTextAuthProvider(SUPERUSER, SUPERUSER),
    }
