"""The demonstration of the outbox on real servers, smaller: its checks hold, and it is piped."""

import json
import os
import subprocess
import sys

import pytest

from tests.servers.__main__ import environment
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.maven import REPOSITORY
from tests.servers.postgres import PostgresServer

HUNG_AFTER_S = 420
pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(HUNG_AFTER_S + 120),
]


def test_the_fleet_demo_holds(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, postgres_server: PostgresServer
) -> None:
    """Movers and a node process are killed: exit code 0 only if every check holds.

    It starts a PostgreSQL of its own; the fixture says whether there is one here.
    """
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo_fleet", "--orders", "300", "--output", "json"],
        cwd=REPOSITORY,
        env={**os.environ, **environment(kafka_server, cassandra_server)},
        capture_output=True,
        text=True,
        timeout=HUNG_AFTER_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    assert told["holds"]
    assert len(told["checks"]) >= 24
