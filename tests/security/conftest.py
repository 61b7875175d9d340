"""Servers that let in only who proves it, one of each for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.security.authority import CLIENT, SECRET, Authority
from tests.security.cassandra_rights import forget_progress, locked_server, make_users
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.running import running

_JAAS = "org.apache.kafka.common.security"
_KAFKA_PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Whoever comes through the open door of the tests is the operator.
    "super.users": "User:ANONYMOUS",
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'{_JAAS}.plain.PlainLoginModule required user_{CLIENT}="{SECRET}";'
    ),
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": (
        f"{_JAAS}.scram.ScramLoginModule required;"
    ),
}


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom servers and clients trust; the client's key is encrypted with the secret."""
    return Authority(tmp_path_factory.mktemp("authority"), SECRET)


@pytest.fixture(scope="package")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), SECRET)


@pytest.fixture(scope="package")
def secure_kafka(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[KafkaServer]:
    """A broker with three locked doors, and an authorizer behind all of them."""
    yield from running(
        lambda: KafkaServer(
            tmp_path_factory.mktemp("secure-kafka"),
            listeners={"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_SSL"},
            properties={
                **_KAFKA_PROPERTIES,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.server_pem),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.ca_file),
            },
        )
    )


@pytest.fixture(scope="package")
def started_cassandra(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[CassandraServer]:
    """A node with TLS, logins and rights, its users and a keyspace made by one of them."""
    folder = tmp_path_factory.mktemp("locked-cassandra")
    for started in running(lambda: locked_server(folder, authority)):
        make_users(started, authority)
        yield started


@pytest.fixture
def locked_cassandra(started_cassandra: CassandraServer, authority: Authority) -> CassandraServer:
    """The same node; the keyspace, to which rights are granted, knows of no other test's log."""
    forget_progress(started_cassandra, authority)
    return started_cassandra
