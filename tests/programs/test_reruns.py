"""What the summary of a test run says of tests that were tried again."""

import subprocess
import sys
from pathlib import Path

_FLAKY = """
from pathlib import Path

def test_passes_at_the_second_try(tmp_path_factory):
    first = Path(__file__).with_name("tried")
    tried = first.exists()
    first.touch()
    assert tried
"""


def test_a_test_that_was_run_again_is_named(tmp_path: Path) -> None:
    """At the end, by its whole name, with what it failed with."""
    (tmp_path / "test_flaky.py").write_text(_FLAKY)
    options = ["--reruns", "1", "-p", "tests.reruns", "-p", "no:cacheprovider", "-c", "none.ini"]
    (tmp_path / "none.ini").write_text("[pytest]")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_flaky.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    closing = ended.stdout.partition("run again: find the cause of each")[2]
    assert ended.returncode == 0, ended.stdout
    assert "test_flaky.py::test_passes_at_the_second_try" in closing
    assert "assert tried" in closing
