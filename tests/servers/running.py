"""Starts a real server for a fixture, or skips what needs it where there is none.

It decides that a missing program is not a failure, and nothing about the server itself.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.once_a_run import alone, run_folder
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.postgres import PostgresServer

AnyServer = TypeVar("AnyServer", KafkaServer, CassandraServer, PostgresServer)

_running_on: list[object] = []
"""Servers that outlive the process that started them: an object of a running process that is freed
warns that nobody waits for it."""


def running(make: Callable[[], AnyServer]) -> Iterator[AnyServer]:
    """Make, start and in the end stop a server; skip, saying why, without its programs."""
    server = _started(make)
    try:
        yield server
    finally:
        server.stop()


def shared(name: str, make: Callable[[Path], AnyServer]) -> AnyServer:
    """Start a server for all processes of the run, or take up the one that runs already.

    ``make`` takes its folder. The end of the run stops it.
    """
    with alone(name):
        server = _started(lambda: make(run_folder() / name))
    _running_on.append(server)
    return server


def _started(make: Callable[[], AnyServer]) -> AnyServer:
    try:
        server = make()
        server.start()
    except (ToolMissing, FetchFailed) as error:
        pytest.skip(f"no real server: {error}")
    return server
