"""Runs the doomed process under the recorder, and reads what it did to its files.

It decides which compiler makes the recorder, and that a trace which does not tell all is refused.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.power_cut.disk import Disk, differences
from tests.power_cut.trace import Event, read_trace

_SOURCE = Path(__file__).with_name("recorder.c")
_COMPILERS = ("cc", "gcc", "clang")
NOT_KEPT = "-shm"
"""SQLite's index of a write-ahead file: mapped memory, made anew by the first who opens it."""
_WAIT_S = 300.0


class NoRecorder(Exception):
    """This machine cannot record; the text says what it lacks."""


class NotRecorded(Exception):
    """The process ended as it should not, or changed files in a way that the recorder missed."""


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder into a folder and return the library; raises NoRecorder."""
    if sys.platform != "linux":
        raise NoRecorder(f"the recorder is for Linux, and this is {sys.platform}")
    library = folder / "recorder.so"
    flags = ["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-pthread", "-o", str(library)]
    done = subprocess.run(
        [*_compiler(), *flags, str(_SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoRecorder(f"the compiler refuses {_SOURCE.name}: {done.stderr.strip()}")
    return library


def _compiler() -> list[str]:
    for name in _COMPILERS:
        if (path := shutil.which(name)) is not None:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise NoRecorder(
        "no C compiler is there: install gcc or clang (Debian: gcc), or one in a wheel,"
        " pip install ziglang"
    )


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
