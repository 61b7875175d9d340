"""Runs the doomed process under the recorder, and reads what it did to its files.

It decides that a trace which does not tell all is refused.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.power_cut.disk import Disk, differences
from tests.power_cut.trace import Event, read_trace
from tests.servers.preload import compile_library

_SOURCE = Path(__file__).with_name("recorder.c")
NOT_KEPT = "-shm"
"""SQLite's index of a write-ahead file: mapped memory, recreated by the first who opens it."""
_WAIT_S = 300.0


class NotRecorded(Exception):
    """The process ended as it should not, or changed files in a way that the recorder missed."""


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder into a folder and return the library; raises CannotPreload."""
    return compile_library(_SOURCE, folder)


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder as it was before a run, and all that the run did to it, in order."""

    before: Disk
    events: list[Event]


def record(
    root: Path, library: Path, *, seed: int, run: int, events_max: int = 0, tasks_max: int = 0
) -> Recording:
    """Record a run over a folder: killed after ``events_max`` changes of its files, or stopped once
    ``tasks_max`` tasks were scheduled.

    Raises NotRecorded, also where the files are not what the trace says.
    """
    before, seen = Disk(root), Disk(root)
    trace = root.with_name(f"{root.name}.trace")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "RECORDER_ROOT": str(root),
        "RECORDER_TRACE": str(trace),
    }
    if events_max:
        environment["RECORDER_EVENTS_MAX"] = str(events_max)
    command = [sys.executable, "-m", "tests.power_cut.doomed", str(root)]
    done = subprocess.run(
        [*command, str(seed), str(run), str(tasks_max)],
        env=environment,
        timeout=_WAIT_S,
        check=False,
    )
    expected = -signal.SIGKILL if events_max else 0
    if done.returncode != expected:
        raise NotRecorded(f"run {run} of seed {seed} ended with {done.returncode}")
    events = list(read_trace(trace, root))
    trace.unlink()
    for event in events:
        seen.take(event)
    missed = differences(seen, root, NOT_KEPT)
    if missed:
        raise NotRecorded(f"the recorder missed changes of {', '.join(missed)}")
    return Recording(before, events)
