"""Work that processes of a node can find by the name of this module, and a rival's processes too.

Each process notes executions in a file of its own beside the node's.  It decides nothing about
figures.
"""

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.loads import CALL_S, COMPUTING_KIND
from benchmarks.records import Records
from hourhand import FairShare, Task, TaskExecutor

_TURNS = 10_000
"""Rounds of a computing task: about 0.1 s of processor time, in a thread or a process."""
_PATH, _SLOTS = "BENCHMARK_RECORDS", "BENCHMARK_SLOTS"


_kept: list[Records] = []
"""The file of this process, the last of them."""


def keep_records(path: Path, slots: int) -> None:
    """Let this process note executions in a file of its own, and so those that it starts."""
    os.environ[_PATH], os.environ[_SLOTS] = str(path), str(slots)
    # Here, before threads note anything: two of them would write into the same places.
    _kept.append(Records.of_process(path, slots))


if _PATH in os.environ:
    keep_records(Path(os.environ[_PATH]), int(os.environ[_SLOTS]))


def note(number: int) -> None:
    """Note that this process executes a task."""
    _kept[-1].note(number)


def compute() -> None:
    """Compute as much as a task of ``compute`` does."""
    for _ in range(_TURNS):
        sum(range(1_000))


class NoOp(TaskExecutor):
    """Does nothing."""

    def execute(self, task: Task) -> None:
        """Note the start."""
        note(int(task.uniqueness_key))


class Beside(NoOp):
    """Does nothing, beside tasks of the computing kind."""


class ProcessNoOp(NoOp):
    """Does nothing in a process."""

    run_in = "process"


class Compute(NoOp):
    """Computes for a while."""

    def execute(self, task: Task) -> None:
        """Note the start, and compute."""
        super().execute(task)
        compute()


class ProcessCompute(Compute):
    """Computes for a while in a process."""

    run_in = "process"


class ProcessEndless(ProcessNoOp):
    """Computes in a process until that is killed."""

    def execute(self, task: Task) -> None:
        """Note the start, and compute."""
        super().execute(task)
        while True:
            compute()


class ProcessCall(ProcessNoOp):
    """Blocks a process, as a call of a service does."""

    def execute(self, task: Task) -> None:
        """Note the start, and wait."""
        super().execute(task)
        time.sleep(CALL_S)


class ProcessFair(ProcessCall):
    """The same for tenants that share the node."""

    fair = FairShare(key="tenant")


class ProcessPriority(ProcessCall):
    """The same where tasks may have a priority of their own."""

    # A rule: without one no node looks at the priority of a task.
    priority = 0


def executors(name: str, path: Path, slots: int) -> dict[str, Any]:
    """Return what a node is given whose tasks are of the class ``name`` of this module."""
    keep_records(path, slots)
    found: dict[str, Any] = {"executor": globals()[name]}
    if name == Beside.__name__:
        found["executors"] = {COMPUTING_KIND: ProcessEndless}
    return found
