"""``hourhand demo`` where it is interrupted or fails; tests/tidy/test_wheel.py runs it whole."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hourhand.scheduler.demo.demo import TASKS_MIN

_COMMAND = (sys.executable, "-m", "hourhand", "demo")
_WAIT_S = 60.0
_T = TypeVar("_T")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    """Neither its node nor its folder."""
    demo = subprocess.Popen(
        [*_COMMAND, "--tasks", "600"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        lock = _until(lambda: next(tmp_path.glob("*/data/node.lock"), None))
        pid = _until(lambda: _holder(lock))
        demo.send_signal(number)
        assert demo.wait(_WAIT_S) == 130
    finally:
        demo.kill()
        demo.wait()

    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("tasks", [0, TASKS_MIN - 1, 1_000_000])
def test_a_number_of_tasks_that_shows_nothing_is_refused(tasks: int) -> None:
    """With the numbers that are allowed."""
    done = subprocess.run(
        [*_COMMAND, "--tasks", str(tasks)],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )

    assert done.returncode == 2
    assert str(TASKS_MIN) in done.stderr


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    """It may be somebody's installation."""
    (tmp_path / "mine").touch()
    done = subprocess.run(
        [*_COMMAND, "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )

    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def _holder(lock: Path) -> int | None:
    with contextlib.suppress(IndexError, ValueError, OSError):
        return int(lock.read_text().split()[1])
    return None


def _until(found: Callable[[], _T | None]) -> _T:
    moment = threading.Event()
    for _ in range(round(_WAIT_S / 0.05)):
        value = found()
        if value is not None:
            return value
        moment.wait(0.05)
    raise AssertionError("it did not happen in time")
