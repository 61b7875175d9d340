"""A node of whichever version ``PYTHONPATH`` names; it writes what it runs into a file.

Uses only names that both versions have.  Started as ``python node_program.py NAME NOTES
SETTINGS KINDS``: its own name, the file, the settings as JSON, and the kinds that it has executors
for, separated by commas.  Prints the file of the package that it uses once it is ready, and stops
when its input ends.
"""

import json
import os
import sys
from threading import Event
from typing import Any

import scheduler
from scheduler import Scheduler, Settings, Task, TaskExecutor


def _executor(node: str, kind: str, notes: int) -> type[TaskExecutor]:
    class Notes(TaskExecutor):
        def execute(self, task: Task) -> None:
            note = {
                "node": node,
                "executor": kind,
                "ordering_id": task.ordering_id,
                "key": task.uniqueness_key,
                "data": task.data,
            }
            os.write(notes, json.dumps(note).encode() + b"\n")

    return Notes


def _main() -> None:
    node, path, settings, kinds = sys.argv[1:]
    notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    named: Any = {kind: _executor(node, kind, notes) for kind in kinds.split(",") if kind}
    chosen: Any = json.loads(settings)
    executors = {"executors": named} if named else {}
    with Scheduler(Settings(**chosen), executor=_executor(node, "", notes), **executors) as running:
        pause = Event()
        while not running.is_ready:
            pause.wait(0.05)
        os.write(1, f"{scheduler.__file__}\n".encode())
        sys.stdin.read()


if __name__ == "__main__":
    _main()
