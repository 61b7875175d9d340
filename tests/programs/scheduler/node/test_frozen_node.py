"""A node that stands still: what runs in its processes ends with its lease (P26)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.freezing import freeze, states_of, thaw
from tests.waiting import until

WAIT_S = 60.0
_NODE = """
import sys
from tests.programs.scheduler.node.process_bench import ProcessBench

with ProcessBench() as bench:
    bench.renew = lambda: bench.clock.monotonic_ms() + 3_000
    bench.start("notes", {"path": sys.argv[1]})
    print(bench.ended().ending.value)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks at threads in /proc")
def test_p26_what_runs_in_a_process_of_a_frozen_node_is_killed(tmp_path: Path) -> None:
    """By the guardian, while no thread of the node runs; the attempt counts for nothing."""
    note = tmp_path / "pid"
    command = [sys.executable, "-c", _NODE, str(note)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            until(note.exists, "nothing runs")
            pid = int(note.read_text())
            freeze(node.pid)
            until(lambda: not states_of(pid), "it runs on under a frozen node")
            assert set(states_of(node.pid)) == {"T"}
            thaw(node.pid)
            told, _ = node.communicate(timeout=WAIT_S)
        finally:
            node.kill()

    assert told.split() == ["not_started"]
