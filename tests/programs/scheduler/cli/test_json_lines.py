"""A node whose log is JSON writes nothing else to standard error, from start to stop."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.source import ROOT

TASKS = """
import threading, time, warnings
from hourhand import Hourhand, RetryPolicy

app = Hourhand()

@app.task("charge", retry=RetryPolicy(attempts_max=1))
def charge(of: dict) -> None:
    warnings.warn("an old way")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    raise ConnectionError("the bank\\ndoes not answer")
"""


def _command(folder: Path, *words: str, **files: str) -> subprocess.Popen[str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOURHAND_OBSERVE__LOG_FORMAT": "json"}
    return subprocess.Popen(
        [sys.executable, "-m", "hourhand", *words],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _objects(lines: list[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines]
    assert all(isinstance(each, dict) and each["level"] and each["time"] for each in found)
    return found


def test_every_line_of_a_node_is_json(tmp_path: Path) -> None:
    """Its own, those of user code, of Python, of a thread that dies, and of a signal."""
    scheduled = _command(
        tmp_path,
        "schedule",
        "--ordering-id",
        "a",
        "--in",
        "0s",
        "--kind",
        "charge",
        tasks=TASKS,
    )
    scheduled.communicate(timeout=120)
    assert scheduled.returncode == 0
    node = _command(tmp_path, "run", "--executor", "tasks:app")
    lines: list[str] = []
    try:
        assert node.stderr is not None
        for line in node.stderr:
            lines.append(line)
            if "AttemptFailed" in line:
                break
        node.send_signal(signal.SIGTERM)
        lines += node.stderr.readlines()
        node.wait(120)
    finally:
        node.kill()
        node.communicate()
    found = _objects(lines)

    assert node.returncode == 0
    messages = [each["message"] for each in found]
    assert any("the node runs" in each for each in messages)
    assert any("an old way" in each for each in messages)
    assert messages[-1] == "the node has stopped"
    [thread] = [each for each in found if each.get("error") == "ZeroDivisionError"]
    assert "Traceback" in thread["stack"]
    [failed] = [each for each in found if each.get("event") == "AttemptFailed"]
    assert failed["error_message"] == "the bank\ndoes not answer"


def test_every_line_of_the_dashboard_is_json_and_none_is_its_servers(tmp_path: Path) -> None:
    """What the HTTP server says of its start and stop, the command says as well."""
    scheduled = _command(tmp_path, "schedule", "--ordering-id", "a", "--in", "1h")
    scheduled.communicate(timeout=120)
    admin = _command(tmp_path, "admin", "--port", "0")
    lines: list[str] = []
    try:
        assert admin.stderr is not None
        for line in admin.stderr:
            lines.append(line)
            if "served on" in line:
                break
        admin.send_signal(signal.SIGTERM)
        lines += admin.stderr.readlines()
        admin.wait(120)
    finally:
        admin.kill()
        admin.communicate()

    loggers = {each["logger"] for each in _objects(lines)}
    assert "hourhand.cli" in loggers
    assert not [each for each in loggers if each.startswith("uvicorn")]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--executor", "nothing:Here"], "invalid-executor"),
        (["run", "--executor", "nothing:Here", "--debug"], "invalid-executor"),
        (["run", "--no-such-option"], "usage"),
        (["timers", "--set", "tree.execution.wrkers=1"], "settings-invalid"),
    ],
)
def test_what_is_wrong_at_the_start_is_json_too(
    tmp_path: Path, words: list[str], code: str
) -> None:
    """Before there are settings; a trace is a part of its line."""
    done = _command(tmp_path, *words)
    _, errors = done.communicate(timeout=120)

    [line] = _objects(errors.splitlines())
    assert (line["code"], line["level"]) == (code, "ERROR")
    assert line["exit_code"] == done.returncode != 0
    assert ("stack" in line) == ("--debug" in words)
