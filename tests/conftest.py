"""Fixtures that several kinds of tests share: real servers, one of each per session."""

from collections.abc import Iterator

import pytest

from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.running import running


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One Kafka broker for the session; the tests are skipped, saying why, without Java."""
    yield from running(lambda: KafkaServer(tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def cassandra_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """One Cassandra node for the session; the tests are skipped, saying why, without Java."""
    yield from running(lambda: CassandraServer(tmp_path_factory.mktemp("cassandra")))
