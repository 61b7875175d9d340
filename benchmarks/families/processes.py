"""processes: what ``hourhand run --processes`` brings, with tasks that block for 5 ms."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from itertools import chain
from pathlib import Path

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Line
from benchmarks.loads import Load
from benchmarks.program import ROOT
from benchmarks.programs.blocking import FOLDER_VARIABLE, SLOTS_VARIABLE
from benchmarks.records import Execution, Records, exactly_once, middle_rate_per_s, wall_s
from hourhand import Settings
from tests.servers.own_settings import set_options
from tests.servers.ports import free_ports

MEASURES = ("processes",)
_COUNTS = (1, 2, 4)
_WORKERS = 4
_TASKS_A_SECOND = 800
"""Capacity of one process: four workers, five milliseconds a task.  Cores stay idle."""
_STOPPED_S = 60.0
_LOOK_S = 0.5


def run(bench: Bench) -> list[Line]:
    """Take the measure if it is wanted."""
    if "processes" not in bench.wanted:
        return []
    rates = {count: _rate(bench, count) for count in _COUNTS}
    return [
        Line(
            "processes",
            Figure.of([rates[2 * count]]),
            f"tasks/s, {2 * count} processes",
            f"{count} process{'es' if count > 1 else ''}",
            Figure.of([rates[count]]),
        )
        for count in _COUNTS[:-1]
    ]


def _rate(bench: Bench, processes: int) -> float:
    """Return executions per second of one command with so many processes."""
    count = int(_TASKS_A_SECOND * processes * bench.sizes.scale_s)
    folder = bench.folder / bench.servers.name("processes")
    with (
        bench.servers.installation("processes") as settings,
        _commanded(settings, processes, folder, count) as kept,
    ):
        load = Load(count, count, due_s=wall_s() + bench.sizes.ahead_s)
        bench.schedule(settings, load)
        executions: list[Execution] = []
        ends_s = wall_s() + RUN_S
        while len(executions) < count and wall_s() < ends_s:
            # Looking costs time that the nodes need.
            time.sleep(_LOOK_S)
            executions = [each for records in kept for each in records]
        exactly_once(executions, count)
    rate = middle_rate_per_s(executions)
    bench.say(f"{processes} processes: {rate:,.0f} tasks/s")
    return rate


def _command(processes: int, port: int) -> list[str]:
    options = {
        "--log-level": "warning",
        "--executor": "benchmarks.programs.blocking:Blocking",
        "--processes": str(processes),
        "--metrics-port": str(port),
        "--set": f"tree.execution.workers={_WORKERS}",
    }
    return [sys.executable, "-m", "hourhand", "run", *chain(*options.items())]


@contextlib.contextmanager
def _commanded(
    settings: Settings, processes: int, folder: Path, slots: int
) -> Iterator[list[Records]]:
    """Run the command until the block ends; it is ready, and has its records, in between."""
    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    with (folder / "errors").open("wb") as errors:
        command = subprocess.Popen(
            [*_command(processes, port), *set_options(settings, folder / "embedded")],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                FOLDER_VARIABLE: str(folder / "records"),
                SLOTS_VARIABLE: str(slots),
            },
        )
    try:
        _await_ready(port)
        kept = [Records(path, slots) for path in sorted((folder / "records").iterdir())]
        if len(kept) != processes:
            raise RuntimeError(f"{processes} processes were asked for, {len(kept)} keep records")
        yield kept
    finally:
        command.terminate()
        try:
            command.wait(_STOPPED_S)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()


def _await_ready(port: int) -> None:
    ends_s = wall_s() + READY_S
    while wall_s() < ends_s:
        time.sleep(_LOOK_S)
        with (
            contextlib.suppress(OSError, HTTPException),
            contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=READY_S)) as connection,
        ):
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
    raise TimeoutError(f"the processes are not ready after {READY_S:.0f} s")
