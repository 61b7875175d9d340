"""A node that notes when it starts each task; what it does besides is named in its order.

``noop`` does nothing, ``wait`` blocks for five milliseconds, and with ``failing`` every task of an
ordering id that begins so fails for ever.  With ``mixed`` a task fails once where its data says so,
and those of the async kind have an executor of their own.  With ``insert`` each task inserts a row
into a PostgreSQL, with ``insert_many`` a hundred do in one call.  With ``limited`` the cluster has
a limit.  With ``fair`` tenants share the node, with ``priority`` tasks may have one of their own;
each blocks for twenty milliseconds.  With ``computing`` every task of an ordering id that begins so
computes until the node stops.  With ``occurring`` tasks are occurrences of schedules, whose data
says when the first was due.  With ``process_work.`` and the name of a class of that module tasks
may run in processes.  It decides nothing about figures.
"""

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.loads import (
    ASYNC_KIND,
    CALL_S,
    IN_PROCESSES,
    LIMIT_BURST,
    LIMIT_PER_S,
    OCCURRING,
)
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s

_READY_POLL_S = 0.005
_WORK_S = 0.005
_RETRY_S = 0.1
_stopping = threading.Event()


def main() -> None:
    """Run until told to stop."""
    began_s = wall_s()
    spec = told()
    # Part of what starting a node takes.
    from hourhand import Scheduler, Settings

    records = Records(Path(spec["records"]), spec["slots"])
    scheduler = Scheduler(Settings(**spec["settings"]), **_executors(spec, records.note))
    tell("starting")
    scheduler.start()
    pause = threading.Event()
    while not scheduler.is_ready:
        pause.wait(_READY_POLL_S)
    tell("ready", seconds=wall_s() - began_s)
    wait_for_command("stop")
    _stopping.set()
    scheduler.stop()
    scheduler.wait()
    tell("stopped")


def _executors(spec: dict[str, Any], note: Callable[[int], None]) -> dict[str, Any]:
    """Return which executors a node of such work is given."""
    work = spec.get("work", "noop")
    if work == "mixed":
        return _mixed(note)
    if work.startswith("insert"):
        return _inserting(note, spec["database"], work)
    if work in {"fair", "priority"}:
        return _calling(note, work)
    if work.startswith((OCCURRING, IN_PROCESSES)):
        return _occurring(note) if work == OCCURRING else _of_process_work(spec)
    from hourhand import Limit, Task, TaskExecutor

    class NoOp(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))

    class Limited(NoOp):
        limits = Limit(rate=LIMIT_PER_S, burst=LIMIT_BURST)

    class Waiting(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))
            time.sleep(_WORK_S)

    class Failing(TaskExecutor):
        def execute(self, task: Task) -> None:
            if task.ordering_id.startswith("failing"):
                raise RuntimeError("this ordering id fails for ever")
            note(int(task.uniqueness_key))

    class Computing(NoOp):
        def execute(self, task: Task) -> None:
            super().execute(task)
            if task.ordering_id.startswith("computing"):
                while not _stopping.is_set():
                    sum(range(1_000))

    works = {"noop": NoOp, "limited": Limited, "wait": Waiting, "failing": Failing}
    works["computing"] = Computing
    return {"executor": works[work]}


def _occurring(note: Callable[[int], None]) -> dict[str, Any]:
    from benchmarks.loads import SCHEDULES
    from hourhand import Task, TaskExecutor

    class Occurring(TaskExecutor):
        def execute(self, task: Task) -> None:
            data: Any = task.data
            turn = (task.key.scheduled_ms - data["first_ms"]) // data["every_ms"]
            note(turn * SCHEDULES + data["number"])

    return {"executor": Occurring}


def _of_process_work(spec: dict[str, Any]) -> dict[str, Any]:
    from benchmarks.programs import process_work

    name = spec["work"].removeprefix(IN_PROCESSES)
    return process_work.executors(name, Path(spec["records"]), spec["slots"])


def _calling(note: Callable[[int], None], work: str) -> dict[str, Any]:
    from hourhand import FairShare, Task, TaskExecutor

    class Calling(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))
            time.sleep(CALL_S)

    class Fair(Calling):
        fair = FairShare(key="tenant")

    class Prioritized(Calling):
        # A rule: without one no node looks at the priority of a task.
        priority = 0

    return {"executor": {"fair": Fair, "priority": Prioritized}[work]}


def _mixed(note: Callable[[int], None]) -> dict[str, Any]:
    from tenacity import wait_fixed

    from hourhand import RetryPolicy, Task, TaskExecutor

    class FailingOnce(TaskExecutor):
        retry = RetryPolicy(wait=wait_fixed(_RETRY_S))

        def execute(self, task: Task) -> None:
            if task.data.get("fails") and self.attempt == 1:
                raise RuntimeError("this task fails once")
            note(int(task.uniqueness_key))

    class Async(TaskExecutor):
        async def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))

    return {"executor": FailingOnce, "executors": {ASYNC_KIND: Async}}


def _inserting(note: Callable[[int], None], database: str, work: str) -> dict[str, Any]:
    from hourhand import BatchExecutor, Task, TaskExecutor

    # Only the benchmark's own environment has it.
    psycopg = importlib.import_module("psycopg")
    insert = "INSERT INTO row VALUES (%s, %s)"
    own = threading.local()

    class Insert(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))
            if not hasattr(own, "connection"):
                own.connection = psycopg.connect(database, autocommit=True)
            own.connection.execute(insert, (int(task.uniqueness_key), task.data["note"]))

    class InsertMany(BatchExecutor):
        def __init__(self) -> None:
            self._connection = psycopg.connect(database)

        def execute_many(self, tasks: Sequence[Task]) -> None:
            for task in tasks:
                note(int(task.uniqueness_key))
            rows = [(int(task.uniqueness_key), task.data["note"]) for task in tasks]
            with self._connection.transaction():
                self._connection.cursor().executemany(insert, rows)

    return {"executor": {"insert": Insert, "insert_many": InsertMany}[work]}


if __name__ == "__main__":
    main()
