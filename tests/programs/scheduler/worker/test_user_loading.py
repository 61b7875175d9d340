"""Processes find the user code of a program, however the program was started."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os
from datetime import timedelta

from hourhand import Hourhand, Scheduler, Settings, Task

{registry}

if __name__ == "__main__":
    with Scheduler(Settings(embedded={{"folder": "data"}}), executors=app) as scheduler:
        receipt = where.schedule({{}}, ordering_id="a", after=timedelta(0)).result(30)
        print(os.getpid(), scheduler.wait_task(receipt, 60).reason, flush=True)
"""
_REGISTRY = """
import os

from hourhand import Drop, Hourhand

app = Hourhand()


@app.task("where", run_in="process")
def where(payload: dict[str, str]) -> Drop:
    return Drop(str(os.getpid()))
"""
_FILES = {
    "program.py": _PROGRAM.format(registry=_REGISTRY),
    "kept/__init__.py": "",
    "kept/__main__.py": _PROGRAM.format(registry=_REGISTRY),
    "split/__init__.py": "",
    "split/work.py": _REGISTRY,
    "split/__main__.py": _PROGRAM.format(registry="from .work import app, where"),
}


@pytest.mark.parametrize(
    "command",
    [("program.py",), ("-m", "program"), ("-m", "kept"), ("-m", "split")],
    ids=["a file", "a module", "a package", "a package that imports its tasks"],
)
def test_a_program_runs_its_tasks_in_processes(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The task ran, and not in the program's own process."""
    for name, text in _FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    root = str(Path(__file__).parents[4])

    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env={"PYTHONPATH": root, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    own, there = done.stdout.split()
    assert int(there) > 0
    assert own != there
