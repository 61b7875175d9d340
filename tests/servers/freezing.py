"""Stops a process and lets it go on; both are true of every thread when the call returns.

A signal tells one thread, which tells the others, and each stops when it next runs: on a busy
machine a server answers requests for a good while after SIGSTOP was sent.
Never decides whose process it is.
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from tests.waiting import until

_STANDS = frozenset("TtZXx")
"""States of a thread that is stopped, is traced, or has ended."""
_LOOK_S = 0.01


def freeze(pid: int) -> None:
    """Stop a process; returns when none of its threads runs.  Nothing where it has ended.

    Raises AssertionError where one still runs after a minute.
    """
    _send(pid, signal.SIGSTOP)
    until(lambda: _STANDS.issuperset(states_of(pid)), f"{pid} does not stop", look_s=_LOOK_S)


def thaw(pid: int) -> None:
    """Let a process go on; returns when none of its threads is stopped, as ``freeze`` does."""
    _send(pid, signal.SIGCONT)
    until(lambda: "T" not in states_of(pid), f"{pid} does not go on", look_s=_LOOK_S)


def states_of(pid: int) -> list[str]:
    """Return the state of each thread as one letter; empty where the process has ended.

    Where the system does not show threads, as macOS, it is the state of the process.
    """
    if not Path("/proc/self/task").exists():
        asked = ["ps", "-o", "state=", "-p", str(pid)]
        shown = subprocess.run(asked, capture_output=True, text=True, check=False)
        return [shown.stdout.strip()[:1]] if shown.stdout.strip() else []
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        # A thread may end while the others are looked at.
        with contextlib.suppress(OSError):
            # The name before it, in brackets, may hold anything.
            states.append(stat.read_text(errors="replace").rpartition(")")[2].split()[0])
    return states


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
