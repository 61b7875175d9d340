"""``hourhand run --processes 2`` on real servers: shared work, one port, a killed child, a stop.

What the supervisor decides is tried in test_supervising.py; here its children are nodes.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from hourhand import SchedulerClient, Settings, Task
from hourhand.scheduler import wiring
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings, set_options
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WAIT_S = 60.0
TASKS = 40
_RECORDING = """
import os
from hourhand import Task, TaskExecutor

class Recording(TaskExecutor):
    def execute(self, task: Task) -> None:
        line = f"{os.getpid()} {task.uniqueness_key}\\n".encode()
        file = os.open("ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)
"""


class Fleet:
    """Two nodes of one command, and what they wrote."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        (folder / "recording.py").write_text(textwrap.dedent(_RECORDING))
        self.log = folder / "log"
        options = [*set_options(settings, folder), "--metrics-port", "0"]
        options += [f"--set=group.{name}={value}" for name, value in QUICK_GROUP.items()]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "hourhand",
                    "run",
                    "--processes",
                    "2",
                    "--executor",
                    "recording:Recording",
                    *options,
                ],
                cwd=folder,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )

    def ran(self) -> list[tuple[int, str]]:
        """Return which process ran which task, in order."""
        file = self._folder / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(pid), key) for pid, key in (line.split() for line in lines)]

    def asked(self, path: str) -> httpx.Response | None:
        """Ask the one port; None before it is served."""
        found = re.search(r"all processes on port (\d+)", self.log.read_text())
        return found and httpx.get(f"http://127.0.0.1:{found[1]}{path}", timeout=60)

    def await_ready(self) -> None:
        """Wait until both nodes have partitions and work on them."""
        until(
            lambda: (answer := self.asked("/readyz")) and answer.status_code == 200,
            "both are never ready",
            timeout_s=WAIT_S,
            look_s=0.25,
        )

    def await_ran(self, prefix: str) -> set[int]:
        """Wait until all tasks of a round ran, and return which processes ran them."""
        until(
            lambda: len({key for _, key in self.ran() if key.startswith(prefix)}) == TASKS,
            f"not all of {prefix} ran",
            timeout_s=WAIT_S,
        )
        return {pid for pid, key in self.ran() if key.startswith(prefix)}


@pytest.fixture
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """Make topics and tables that no other test has."""
    made = own_settings(kafka_server, cassandra_server, "processes", group=QUICK_GROUP)
    wiring.migrate(made)
    return made


def schedule(client: SchedulerClient, prefix: str) -> None:
    """Schedule a round of tasks that are due now, each of an ordering id of its own."""
    due = datetime.now(UTC)
    tasks = [
        Task(
            ordering_id=f"{prefix}-{number}",
            scheduled_time=due,
            uniqueness_key=f"{prefix}-{number}",
            data={},
        )
        for number in range(TASKS)
    ]
    for future in [client.schedule_task(task) for task in tasks]:
        future.result(WAIT_S)


def test_two_processes_share_the_work_and_one_is_killed(settings: Settings, tmp_path: Path) -> None:
    """It comes back, everything runs, and one signal lets both drain."""
    fleet = Fleet(tmp_path, settings)
    try:
        with SchedulerClient(settings) as client:
            fleet.await_ready()
            schedule(client, "before")
            both = fleet.await_ran("before")
            assert len(both) == 2
            assert fleet.process.pid not in both

            os.kill(min(both), signal.SIGKILL)
            schedule(client, "after")
            after = fleet.await_ran("after")
            assert max(both) in after

            fleet.await_ready()
            metrics = fleet.asked("/metrics")
            assert metrics is not None
            restarts = re.findall(
                r'^hourhand_process_restarts_total\{process="\d"\} (\d)', metrics.text, re.MULTILINE
            )
            assert sorted(restarts) == ["0", "1"]

        fleet.process.send_signal(signal.SIGTERM)

        assert fleet.process.wait(WAIT_S) == 0
        log = fleet.log.read_text()
        assert "was ended by SIGKILL; it is started again" in log
        assert {"[1]", "[2]"} <= set(re.findall(r"\[\d\]", log))
    finally:
        fleet.process.kill()
        fleet.process.wait(WAIT_S)
