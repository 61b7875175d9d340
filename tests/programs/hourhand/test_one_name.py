"""An application whose own modules have the names of Hourhand's folders, and other distributions.

Hourhand installs one name at the top, so nothing of it is hidden or overwritten.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.tidy.outside import run
from tests.tidy.source import ROOT

_PROGRAM = """
import actors, scheduler
import hourhand.errors, hourhand.outbox, hourhand.payloads, hourhand.testing
from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor

print(scheduler.MINE, actors.MINE, Scheduler.__name__)
"""
_EXECUTOR = """
from hourhand import Task, TaskExecutor

MINE = "mine"

class Mail(TaskExecutor):
    def execute(self, task: Task) -> None:
        pass
"""


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


def _own_modules(folder: Path) -> None:
    (folder / "scheduler.py").write_text(_EXECUTOR)
    (folder / "actors").mkdir()
    (folder / "actors/__init__.py").write_text("MINE = 'mine too'\n")


def test_an_application_has_a_scheduler_and_actors_of_its_own(tmp_path: Path) -> None:
    """They come first on the path, and Hourhand needs neither name."""
    _own_modules(tmp_path)
    (tmp_path / "program.py").write_text(_PROGRAM)

    done = _python(tmp_path, "program.py")

    assert (done.stdout, done.stderr) == ("mine mine too Scheduler\n", "")


def test_the_command_loads_an_executor_of_a_scheduler_of_the_users(tmp_path: Path) -> None:
    """``module:Class`` is found in the working folder, whatever its name."""
    _own_modules(tmp_path)
    program = (
        "from hourhand.scheduler.executors.loading import load_executors;"
        " print(load_executors(['scheduler:Mail']).executor.__name__)"
    )

    done = _python(tmp_path, "-c", program)

    assert (done.stdout, done.stderr) == ("Mail\n", "")


def test_a_distribution_with_a_name_of_our_folders_comes_and_goes(
    built: Path, tmp_path: Path
) -> None:
    """``pip install scheduler`` overwrites nothing of ours, and removes nothing when it leaves."""
    (wheel,) = built.glob("hourhand-*.whl")
    target = tmp_path / "packages"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    other = _other_distribution(tmp_path)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(other) as theirs:
        assert not set(ours.namelist()) & set(theirs.namelist())
        tops = {name.partition("/")[0] for name in ours.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"hourhand"}

    run(*pip, "--no-deps", "--no-index", "--target", target, wheel, other, cwd=tmp_path)
    beside = f"import sys; sys.path.insert(0, {str(target)!r}); import scheduler, hourhand;"
    shown = " from hourhand import Scheduler; print(scheduler.__name__, hourhand.__file__)"
    printed = run(sys.executable, "-c", beside + shown, cwd=tmp_path)

    assert printed.split() == ["scheduler", str(target / "hourhand/__init__.py")]


def _other_distribution(folder: Path) -> Path:
    """Make a wheel of a distribution ``scheduler``, as an index has one."""
    path = folder / "scheduler-1.0-py3-none-any.whl"
    about = "scheduler-1.0.dist-info"
    files = {
        "scheduler/__init__.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: scheduler\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def test_the_command_line_runs_as_a_module(tmp_path: Path) -> None:
    """``python -m hourhand`` is the command, with whatever modules beside it."""
    _own_modules(tmp_path)

    done = _python(tmp_path, "-m", "hourhand", "version")

    assert done.returncode == 0, done.stderr
    assert "0." in done.stdout
