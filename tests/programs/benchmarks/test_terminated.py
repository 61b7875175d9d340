"""A benchmark that is told to end leaves none of its servers running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 60.0
NAME = "a server that is slow to stop"
BENCHMARK = f"""
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

from benchmarks import __main__ as benchmark
from benchmarks import catalogue
from tests.servers.process import ServerProcess

folder = Path(sys.argv[1])
code = "trap 'touch stopping; sleep 1; exit' TERM; touch started; while :; do sleep 0.05; done"


def run(bench):
    server = ServerProcess({NAME!r}, folder / "server")
    bench.kept.callback(server.stop)
    server.start(["/bin/sh", "-c", code])
    threading.Event().wait()


benchmark.BUILD = folder
catalogue.FAMILIES = (SimpleNamespace(__name__="waits", MEASURES=("embedded",), run=run),)
sys.exit(benchmark.main(["run", "--only", "embedded", "--without-rivals"]))
"""
"""The benchmark, with one family alone, which waits for ever beside a server."""


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM, signal.SIGTERM)])
def test_a_benchmark_that_is_told_to_end_stops_its_servers(
    tmp_path: Path, numbers: tuple[signal.Signals, ...]
) -> None:
    """Also where ``timeout`` tells it twice: to the program, and to its group."""
    folder = tmp_path / "server"
    with (tmp_path / "benchmark.err").open("wb") as errors:
        benchmark = subprocess.Popen(
            [sys.executable, "-c", BENCHMARK, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=errors,
        )
    server = ServerProcess(NAME, folder)
    try:
        until((folder / "started").exists, timeout_s=WAIT_S)
        for number in numbers:
            benchmark.send_signal(number)
            until((folder / "stopping").exists, "its server was not stopped", timeout_s=WAIT_S)

        assert benchmark.wait(WAIT_S) == 130
        assert server.pid is None
    finally:
        benchmark.kill()
        benchmark.wait()
        left = server.pid
        server.kill()

    assert left is None
