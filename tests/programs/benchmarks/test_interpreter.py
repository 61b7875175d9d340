"""How make asks an interpreter whether it is one that figures may be taken with."""

import subprocess
import sys

from benchmarks import interpreter


def test_make_asks_each_interpreter_by_running_the_file() -> None:
    """With no package installed, and none of the folder's modules in the way."""
    asked = subprocess.run([sys.executable, "-I", interpreter.__file__], check=False)

    assert asked.returncode == (not interpreter.runs_optimized())
