"""``hourhand run`` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from tests import command_line
from tests.waiting import until

ROOT = Path(__file__).parents[4]


_EXECUTOR = """
import os, pathlib, signal, time
from hourhand import TaskExecutor

class Printing(TaskExecutor):
    def execute(self, task):
        print("ran", task.data["n"], flush=True)

class Endless(TaskExecutor):
    def execute(self, task):
        print("began", flush=True)
        while True:
            time.sleep(1)

class EndlessInProcess(Endless):
    run_in = "process"

    def execute(self, task):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path("pid.new").write_text(str(os.getpid()))
        os.rename("pid.new", "pid")
        super().execute(task)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every command work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "executors.py").write_text(_EXECUTOR)
    return tmp_path


def hourhand(*arguments: str, stdin: str | None = None) -> Result:
    """Run a command in this process."""
    return command_line.run(*arguments, stdin=stdin)


def scheduled(*arguments: str) -> str:
    """Schedule a task and return its key."""
    done = hourhand("schedule", "--ordering-id", "c,7", "--uniqueness-key", "ü/1", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def _environment(**extra: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **extra}


class Node:
    """``hourhand run`` in a process of its own."""

    def __init__(self, folder: Path, executor: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hourhand", "run", "--executor", executor],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, text: str) -> None:
        """Wait until the node has said ``text`` on standard error."""
        assert self.process.stderr is not None
        assert any(text in line for line in self.process.stderr), f"never said {text!r}"

    def prints(self) -> str:
        """Wait for the next line of user code."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Collect the nodes a test starts, and end those that are left."""
    started: list[Node] = []
    yield started
    for node in started:
        node.process.kill()
        node.process.communicate(timeout=60)


def test_a_node_runs_what_was_scheduled_and_stops_when_asked(
    folder: Path, nodes: list[Node]
) -> None:
    """The whole way: schedule, run now, show, list, SIGTERM."""
    key = scheduled("--in", "1h", "--data", '{"n": 5}')
    nodes.append(Node(folder, "executors:Printing"))
    nodes[0].says("the node runs")

    moved = hourhand("run-now", key, "--wait", "20", "-o", "json")
    assert nodes[0].prints() == "ran 5\n"
    new_key = json.loads(moved.stdout)["newKey"]
    nodes[0].process.send_signal(signal.SIGTERM)
    nodes[0].says("the node has stopped")

    assert nodes[0].process.wait(timeout=60) == 0
    shown = json.loads(hourhand("show", new_key, "-o", "json").stdout)
    assert (shown["state"], shown["taskData"]) == ("success", {"n": 5})
    assert json.loads(hourhand("show", key, "-o", "json").stdout)["state"] == "moved"
    assert "success" in hourhand("list", "--ordering-id", "c,7").stdout


def test_a_second_signal_leaves_at_once(folder: Path, nodes: list[Node]) -> None:
    """User code that never ends cannot hold the process."""
    scheduled("--in", "0s")
    nodes.append(Node(folder, "executors:Endless"))
    assert nodes[0].prints() == "began\n"

    nodes[0].process.send_signal(signal.SIGINT)
    nodes[0].says("signal again to stop at once")
    nodes[0].process.send_signal(signal.SIGINT)

    assert nodes[0].process.wait(timeout=60) == 130


def test_a_second_signal_leaves_no_user_code_behind_in_a_process(
    folder: Path, nodes: list[Node]
) -> None:
    """Not even code that listens to nobody."""
    scheduled("--in", "0s")
    nodes.append(Node(folder, "executors:EndlessInProcess"))
    until((folder / "pid").exists, "user code began")
    pid = int((folder / "pid").read_text())

    nodes[0].process.send_signal(signal.SIGTERM)
    nodes[0].says("signal again to stop at once")
    nodes[0].process.send_signal(signal.SIGTERM)

    assert nodes[0].process.wait(timeout=60) == 130
    until(lambda: not Path(f"/proc/{pid}").exists(), "its process ended")
