"""What the summary of a test run says of tests that were tried again, and which are."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FLAKY = """
from pathlib import Path

def test_passes_at_the_second_try():
    first = Path(__file__).with_name("tried")
    tried = first.exists()
    first.touch()
    assert tried
"""


def _run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_flaky.py").write_text(_FLAKY)
    (folder / "none.ini").write_text("[pytest]")
    plain = ["-p", "tests.reruns", "-p", "no:cacheprovider", "-c", "none.ini"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plain, "test_flaky.py"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_that_was_run_again_is_named(tmp_path: Path) -> None:
    """At the end, by its whole name, with what it failed with."""
    ended = _run(tmp_path, "--reruns", "1")

    closing = ended.stdout.partition("run again: find the cause of each")[2]
    assert ended.returncode == 0, ended.stdout
    assert "test_flaky.py::test_passes_at_the_second_try" in closing
    assert "assert tried" in closing


def test_ci_does_not_run_a_test_again_that_failed(tmp_path: Path) -> None:
    """With the options that ``make test`` gives there: a second try would hide a race."""
    asked = re.search(r"\$\(if \$\(CI\),(--reruns [^)]*)\)", (ROOT / "Makefile").read_text())
    assert asked is not None

    ended = _run(tmp_path, *asked[1].split())

    assert ended.returncode == 1, ended.stdout
    assert "1 failed" in ended.stdout
