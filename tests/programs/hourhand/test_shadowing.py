"""A user's own ``scheduler.py`` or ``actors`` beside the program, where Python finds it first."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy.source import ROOT


def _python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a folder where Hourhand is installed, as far as the path tells."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _own_module(folder: Path) -> Path:
    own = folder / "scheduler.py"
    own.write_text("raise SystemExit('the code of the user ran')\n")
    return own


def _own_package(folder: Path) -> Path:
    own = folder / "actors"
    own.mkdir()
    (own / "__init__.py").write_text("")
    return own


@pytest.mark.parametrize(
    "statement",
    [
        "from hourhand import Scheduler",
        "import hourhand; hourhand.Task",
        "from hourhand.testing import VirtualScheduler",
    ],
)
@pytest.mark.parametrize("make", [_own_module, _own_package])
def test_the_error_names_what_hides_hourhand(
    tmp_path: Path, statement: str, make: Callable[[Path], Path]
) -> None:
    """And what to do; the code in it does not run."""
    own = make(tmp_path)

    done = _python(tmp_path, "-c", statement)

    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith(f"ImportError: {own} hides the package {own.stem!r} of Hourhand")
    assert "rename it" in last


def test_a_script_with_the_name_is_told_so_too(tmp_path: Path) -> None:
    """Its own folder comes first on the path."""
    script = tmp_path / "scheduler.py"
    script.write_text("from hourhand import Scheduler\n")

    done = _python(tmp_path, str(script))

    assert f"ImportError: {script} hides the package 'scheduler'" in done.stderr


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    """With the exit code of an installation with which something is wrong."""
    own = _own_module(tmp_path)

    done = _python(tmp_path, "-m", "hourhand", "version")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"hourhand: {own} hides the package 'scheduler' of Hourhand")
    assert len(done.stderr.splitlines()) == 1


def test_a_module_that_is_loaded_already_is_named(tmp_path: Path) -> None:
    """A program may have imported its own before it imports Hourhand."""
    own = tmp_path / "scheduler.py"
    own.write_text("")

    done = _python(tmp_path, "-c", "import scheduler; from hourhand import Task")

    assert f"ImportError: {own} hides the package 'scheduler'" in done.stderr


def test_a_folder_that_is_not_a_package_hides_nothing(tmp_path: Path) -> None:
    """Python prefers a real package that comes later on the path."""
    (tmp_path / "actors").mkdir()

    done = _python(tmp_path, "-c", "from hourhand import Task; print(Task.__name__)")

    assert (done.stdout, done.stderr) == ("Task\n", "")


def test_the_command_line_runs_as_a_module(tmp_path: Path) -> None:
    """Where nothing hides it."""
    done = _python(tmp_path, "-m", "hourhand", "version")

    assert done.returncode == 0, done.stderr
    assert "0." in done.stdout
