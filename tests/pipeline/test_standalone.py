"""Jobs on a standalone Spark: one master and two workers, as processes of this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.installation import Installation, key_at, settings_of
from tests.servers.ports import free_ports
from tests.servers.process import SHORT_LIVED, ServerProcess, accepts_connections

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
ROOT = Path(__file__).parents[2]
START_S = 120.0
JOB_S = 600.0
TASKS = 40


class Standalone:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self._port, self._web_port = free_ports(2)
        self.url = f"spark://127.0.0.1:{self._port}"
        self.work_folders = [folder / f"work-{number}" for number in (1, 2)]
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(SHORT_LIVED),
        }
        self._master = ServerProcess("Spark master", folder / "master")
        self._workers = [
            ServerProcess(f"Spark worker {each.name}", folder / f"{each.name}-process")
            for each in self.work_folders
        ]

    def start(self) -> None:
        """Start them; a worker finds its master by itself, and a job waits for workers."""
        where = ["--host", "127.0.0.1", "--webui-port"]
        master = ["org.apache.spark.deploy.master.Master", *where, str(self._web_port)]
        self._master.start([SPARK_CLASS, *master, "--port", str(self._port)], self._environment)
        self._master.wait_until(lambda: accepts_connections("127.0.0.1", self._port), START_S)
        for process, folder in zip(self._workers, self.work_folders, strict=True):
            worker = ["org.apache.spark.deploy.worker.Worker", *where, "0", "--cores", "1"]
            size = ["--memory", "1g", "--work-dir", str(folder)]
            process.start([SPARK_CLASS, *worker, *size, self.url], self._environment)
            process.wait_until(partial(_registered, folder), START_S)

    def stop(self) -> None:
        """Stop what was started."""
        for process in (*self._workers, self._master):
            process.stop()


def _registered(work_folder: Path) -> bool:
    said = work_folder.parent / f"{work_folder.name}-process" / "process.out"
    return said.exists() and "Successfully registered with master" in said.read_text()


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    """A cluster of this test's own."""
    cluster = Standalone(tmp_path)
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        cluster.start()
        yield cluster


def test_a_read_and_an_audit_run_on_both_workers(standalone: Standalone, tmp_path: Path) -> None:
    """In executors of their own, and in the Python of whoever asked."""
    opened = Installation(settings_of(tmp_path / "data"))
    opened.add_tasks([key_at(24 * 3650 + hour, f"customer-{hour}") for hour in range(TASKS)])
    opened.close()

    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.pipeline.standalone_program",
            standalone.url,
            str(tmp_path / "data"),
        ],
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
        cwd=ROOT,
        # Executors run in folders of their own and must find the checkout as the driver does.
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert sum(each["rows"] for each in told["readers"]) == TASKS
    assert {each["python"] for each in told["readers"]} == {sys.executable}
    at_work = {Path(each["executor"]).parents[1].name for each in told["readers"]}
    assert at_work == {folder.name for folder in standalone.work_folders}
    assert (told["audit"]["tasks"], told["audit"]["found"]) == (TASKS, {})
