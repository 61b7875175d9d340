"""A node of whichever version ``PYTHONPATH`` names; it writes what it runs into a file.

Uses only names that both versions have.  Started as ``python node_program.py NAME NOTES
SETTINGS KINDS PACKAGE``: its own name, the file, the settings as JSON, the kinds that it has
executors for, separated by commas, and the package that the version is imported by.  Prints the
file of the package that it uses once it is ready, and stops when its input ends.
"""

import importlib
import json
import os
import sys
from threading import Event
from typing import Any


def _executor(base: Any, node: str, kind: str, notes: int) -> Any:
    class Notes(base):  # type: ignore[misc]
        def execute(self, task: Any) -> None:
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
    node, path, settings, kinds, package = sys.argv[1:]
    version = importlib.import_module(package)
    base = version.TaskExecutor
    notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    named: Any = {kind: _executor(base, node, kind, notes) for kind in kinds.split(",") if kind}
    chosen: Any = json.loads(settings)
    executors = {"executors": named} if named else {}
    default = _executor(base, node, "", notes)
    with version.Scheduler(version.Settings(**chosen), executor=default, **executors) as running:
        pause = Event()
        while not running.is_ready:
            pause.wait(0.05)
        os.write(1, f"{version.__file__}\n".encode())
        sys.stdin.read()


if __name__ == "__main__":
    _main()
