"""Bad input to the command: one line, an exit code, nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import run

ROOT = Path(__file__).parents[4]


def _environment(**extra: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **extra}


_SCHEDULE = ("schedule", "--ordering-id", "a", "--in", "1h")
_BAD_INPUT = {
    "a time without a zone": (
        ("schedule", "--ordering-id", "a", "--at", "2999-01-01T00:00:00"),
        {},
        2,
        "invalid-task",
    ),
    "an empty ordering id": (
        ("schedule", "--ordering-id", "", "--in", "1h"),
        {},
        2,
        "invalid-task",
    ),
    "data that is not JSON": ((*_SCHEDULE, "--data", "{n: 1}"), {}, 2, "invalid-task"),
    "data that is not an object": ((*_SCHEDULE, "--data", "[1]"), {}, 2, "invalid-task"),
    "data from nowhere": ((*_SCHEDULE, "--data", "@nowhere.json"), {}, 2, "invalid-task"),
    "two megabytes": ((*_SCHEDULE, "--data", "@large.json"), {}, 2, "task-too-large"),
    "the past": (
        ("schedule", "--ordering-id", "a", "--at", "1999-01-01T00:00:00Z"),
        {},
        2,
        "task-in-the-past",
    ),
    "no time at all": (("schedule", "--ordering-id", "a"), {}, 2, "invalid-task"),
    "a key that is none": (("cancel", "nonsense"), {}, 2, "invalid-key"),
    "an executor from nowhere": (("run", "--executor", "nowhere:X"), {}, 2, "invalid-executor"),
    "an unknown setting by flag": (("list", "--set", "grupp.id=x"), {}, 3, "settings-invalid"),
    "a setting out of range": (
        ("list", "--set", "topic.partitions=0"),
        {},
        3,
        "settings-invalid",
    ),
    "an unknown group by environment": (
        ("list",),
        {"HOURHAND_GRUPP__ID": "x"},
        3,
        "settings-invalid",
    ),
    "an unknown name by environment": (
        ("list",),
        {"HOURHAND_GROUP__IDD": "x"},
        3,
        "settings-invalid",
    ),
    "a group that is not a group": (("list",), {"HOURHAND_GROUP": "x"}, 3, "settings-invalid"),
    "an unknown setting by file": (
        ("list", "--config", "unknown.toml"),
        {},
        3,
        "settings-invalid",
    ),
    "a file that is not TOML": (("list", "--config", "large.json"), {}, 3, "settings-invalid"),
    "a file that is not there": (("list", "--config", "gone.toml"), {}, 3, "settings-invalid"),
}


_IN_A_PROCESS = {
    "an executor from nowhere",
    "an unknown group by environment",
    "two megabytes",
}
"""One of each source of input; the command of the others is the same, and begins alike."""


@pytest.mark.parametrize("name", _BAD_INPUT)
def test_bad_input_is_one_line_and_an_exit_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trace, nothing on standard output, nothing stored."""
    arguments, environment, code, error_code = _BAD_INPUT[name]
    (tmp_path / "large.json").write_text(json.dumps({"x": "y" * 2_000_000}))
    (tmp_path / "unknown.toml").write_text("[group]\nidd = 1\n")

    if name in _IN_A_PROCESS:
        returned, shown, said = _started(tmp_path, arguments, environment)
    else:
        monkeypatch.chdir(tmp_path)
        for variable in [each for each in os.environ if each.startswith("HOURHAND_")]:
            monkeypatch.delenv(variable)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        ended = run(*arguments)
        returned, shown, said = ended.exit_code, ended.stdout, ended.stderr

    assert returned == code, said
    assert said.startswith("hourhand: ")
    assert said.endswith(f"[{error_code}]\n")
    assert said.count("\n") == 1
    assert len(said) < 1_000
    assert shown == ""


def _started(
    folder: Path, arguments: tuple[str, ...], environment: dict[str, str]
) -> tuple[int, str, str]:
    """Return exit code, output and errors of the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "hourhand", *arguments],
        cwd=folder,
        env=_environment(**environment),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
