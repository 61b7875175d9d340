"""Starts a real server for a fixture, or skips what needs it where there is none.

It decides that a missing program is not a failure, and nothing about the server itself.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.postgres import PostgresServer

AnyServer = TypeVar("AnyServer", KafkaServer, CassandraServer, PostgresServer)


def running(make: Callable[[], AnyServer]) -> Iterator[AnyServer]:
    """Make, start and in the end stop a server; skip, saying why, without its programs."""
    try:
        server = make()
        server.start()
    except (ToolMissing, FetchFailed) as error:
        pytest.skip(f"no real server: {error}")
    try:
        yield server
    finally:
        server.stop()
