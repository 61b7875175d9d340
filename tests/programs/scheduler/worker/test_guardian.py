"""Processes end with their node, however that ends or stands still."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until


@pytest.fixture
def node() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A node and the process that runs its only attempt."""
    command = [sys.executable, "-m", "tests.programs.scheduler.worker.held_node"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            yield started, int(started.stdout.readline())
        finally:
            started.kill()


def _runs(pid: int) -> bool:
    """True if a process runs: one that is dead and not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_node_that_is_killed_takes_its_processes_with_it(
    node: tuple[subprocess.Popen[str], int],
) -> None:
    """Nothing is left that runs user code."""
    started, pid = node
    assert _runs(pid)

    started.kill()

    until(lambda: not _runs(pid), "its process runs on", timeout_s=10)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_p26_nothing_runs_behind_the_lease_of_a_node_that_stands_still(
    node: tuple[subprocess.Popen[str], int],
) -> None:
    """The guardian looks at the lease, whatever the node does."""
    started, pid = node
    assert _runs(pid)

    os.kill(started.pid, signal.SIGSTOP)

    until(lambda: not _runs(pid), "its process runs on", timeout_s=20)
    assert Path(f"/proc/{started.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
