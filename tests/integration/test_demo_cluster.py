"""The demonstration on real servers, smaller: its checks hold, and its output can be piped."""

import json
import os
import subprocess
import sys

import pytest

from tests.servers.__main__ import environment
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.maven import REPOSITORY

pytestmark = [pytest.mark.integration, pytest.mark.long]

TASKS = 2_000
HUNG_AFTER_S = 280
"""Its checks judge the promises; how long they take on a busy machine is none of them."""


def test_the_cluster_demo_holds(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """One node stopped, one killed, one started: exit code 0 only if every check holds."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo_cluster", "--tasks", str(TASKS), "--output", "json"],
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
    assert all(check["holds"] for check in told["checks"])
    assert told["figures"]["tasks"] > TASKS
    assert told["figures"]["burst_tasks_per_s"] > 0
    # Nobody can take over before the session of the killed node has ended; a partition that moved
    # by itself just before the kill looks taken over sooner.
    assert told["figures"]["last_takeover_s"] > 4
