"""The backend on each Django that it is for, and Django's own tests of backends against it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs.hourhand.django.environments import environment_of
from tests.tidy.source import ROOT


@pytest.mark.timeout(900)  # the first run on a machine asks an index
@pytest.mark.parametrize("django", ["5.2", "6.0", "6.1"])
def test_the_backend_keeps_its_promises(django: str, tmp_path: Path) -> None:
    """``run_suite.py`` says which of Django's tests do not apply, and why."""
    environment = environment_of(django)

    _run(environment.python)
    if environment.suite is not None:
        shutil.copytree(environment.suite, tmp_path / "suite/tasks")
        _run(environment.python, str(tmp_path / "suite"))


def _run(python: Path, *arguments: str) -> None:
    program = ("-W", "error", "-m", "tests.programs.hourhand.django.run_suite")
    run = subprocess.run(
        [python, *program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\nOK" in run.stderr
