"""What becomes of the other tests where one ends its process."""

import subprocess
import sys
from pathlib import Path

_FILE = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_passes(number):
    pass
"""

_CRASHES_ONCE = """
import os
from pathlib import Path

def test_passes():
    pass

def test_ends_its_process_at_the_first_try():
    first = Path(__file__).with_name("tried")
    if not first.exists():
        first.touch()
        os._exit(1)
"""

_FILES = 12
_CRASHES_AT = 6
_TIMEOUT_S = 200
"""Some seconds suffice; a crowded machine has taken 40."""


def test_a_process_that_crashed_is_replaced_and_every_test_is_run(tmp_path: Path) -> None:
    """Nothing waits for ever, and the test that ended it is named as one that was run again."""
    for number in range(_FILES):
        source = _CRASHES_ONCE if number == _CRASHES_AT else _FILE
        (tmp_path / f"test_{number:02}.py").write_text(source)
    (tmp_path / "none.ini").write_text("[pytest]")
    plugins = ["-p", "tests.reruns", "-p", "tests.several_processes", "-p", "no:cacheprovider"]

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--reruns", "1", *plugins, "-c", "none.ini"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )

    closing = ended.stdout.partition("run again: find the cause of each")[2]
    assert ended.returncode == 0, ended.stdout
    assert f"{4 * (_FILES - 1) + 2} passed" in ended.stdout
    assert "test_ends_its_process_at_the_first_try" in closing
    assert "crashed while running" in closing
