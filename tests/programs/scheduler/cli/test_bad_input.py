"""Bad input, to the command as it is installed: one line, an exit code, nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", _BAD_INPUT)
def test_bad_input_is_one_line_and_an_exit_code(name: str, tmp_path: Path) -> None:
    """In a process of its own: no trace, nothing on standard output, nothing stored."""
    arguments, environment, code, error_code = _BAD_INPUT[name]
    (tmp_path / "large.json").write_text(json.dumps({"x": "y" * 2_000_000}))
    (tmp_path / "unknown.toml").write_text("[group]\nidd = 1\n")

    done = subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        cwd=tmp_path,
        env=_environment(**environment),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("hourhand: ")
    assert done.stderr.endswith(f"[{error_code}]\n")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1_000
    assert done.stdout == ""
