"""Runs programs as if the repository were not there."""

import os
import subprocess
from pathlib import Path


def run(*command: str | Path, cwd: Path, timeout_s: float = 300) -> str:
    """Run a command to its end and return what it printed; AssertionError where it fails."""
    # PYTHONPATH would find the repository again, which is what must not be needed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=environment,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()
