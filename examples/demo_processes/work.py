"""The user code of the demonstration: six kinds in processes and one in a thread.

Each start is a line of the file ``STARTS``, written before anything else happens.
"""

import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import tenacity

from hourhand import Hourhand, RetryPolicy, Task

FOLDER = "PROCESSES_FOLDER"
"""The environment's variable that names the folder."""
STARTS = "starts.jsonl"
COMPUTE_S = 1.5
"""Processor seconds of a computing task."""
TIMEOUT_S = 1.0
LEAK_BYTES = 1 << 20
CRASHES_MAX = 3

_ONCE = RetryPolicy(attempts_max=1, on_exhausted="skip")
_THRICE = RetryPolicy(
    attempts_max=CRASHES_MAX,
    wait=tenacity.wait_fixed(timedelta(milliseconds=200)),
    on_exhausted="skip",
)

app = Hourhand()


def _note(kind: str, task: Task) -> None:
    found = {"kind": kind, "key": str(task.key), "pid": os.getpid(), "at_s": time.monotonic()}
    descriptor = os.open(
        Path(os.environ[FOLDER], STARTS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
    )
    try:
        # One write to a file opened for appending is whole, whatever other processes write.
        os.write(descriptor, f"{json.dumps(found)}\n".encode())
    finally:
        os.close(descriptor)


@app.task("plain", run_in="thread")
def plain(payload: dict[str, Any], task: Task) -> None:
    """Do next to nothing, in a thread of the node, and be on time."""
    del payload
    _note("plain", task)


@app.task("behave", run_in="process")
def behave(payload: dict[str, Any], task: Task) -> None:
    """Do next to nothing in a process."""
    del payload
    _note("behave", task)


@app.task("compute", run_in="process")
def compute(payload: dict[str, Any], task: Task) -> None:
    """Use a core for a while."""
    del payload
    _note("compute", task)
    end_s = time.process_time() + COMPUTE_S
    while time.process_time() < end_s:
        sum(range(1_000))


@app.task("hang", run_in="process", retry=_ONCE, timeout=timedelta(seconds=TIMEOUT_S))
def hang(payload: dict[str, Any], task: Task) -> None:
    """Never end, and listen to nobody."""
    del payload
    _note("hang", task)
    while True:
        pass


@app.task("leak", run_in="process", retry=_ONCE)
def leak(payload: dict[str, Any], task: Task) -> None:
    """Hold more and more memory."""
    del payload
    _note("leak", task)
    held = []
    while True:
        held.append(b"x" * LEAK_BYTES)
        time.sleep(0.002)


@app.task("crash", run_in="process", retry=_THRICE)
def crash(payload: dict[str, Any], task: Task) -> None:
    """Die of a segmentation fault, at each attempt."""
    del payload
    _note("crash", task)
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task("exit", run_in="process", retry=_ONCE)
def leave(payload: dict[str, Any], task: Task) -> None:
    """End the process without a signal."""
    del payload
    _note("exit", task)
    os._exit(7)
