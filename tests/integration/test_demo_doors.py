"""The demonstrations of relay and timers on real servers, smaller: their checks hold."""

import os
import subprocess
import sys

import pytest

from tests.servers.__main__ import environment
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.maven import REPOSITORY

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.mark.parametrize(
    ("door", "arguments"),
    [("relay", ["--messages", "600"]), ("timers", ["--timers", "20"])],
)
def test_the_demo_of_a_door_holds(
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
    door: str,
    arguments: list[str],
) -> None:
    """Three nodes, one killed: exit code 0 only if every check holds."""
    done = subprocess.run(
        [sys.executable, "-m", f"examples.demo_doors.{door}", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment(kafka_server, cassandra_server)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL" in done.stdout
    assert "checks hold" in done.stdout
