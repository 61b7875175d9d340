"""Makes a thing once a run, however many processes run the tests: a server, the wheel.

Decides where it lies, which process makes it, and that every server is stopped when the run ends.
Never decides what it is.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess

_VARIABLE = "TEST_RUN_FOLDER"
"""Tells the processes of a run which folder is theirs."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder before other processes start, which inherit its name."""
    if not _is_one_of_several(config):
        folder = Path(tempfile.mkdtemp(prefix="hourhand-run-"))
        # PostgreSQL runs as a user of its own, who has to get to its folder.
        folder.chmod(0o755)
        os.environ[_VARIABLE] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers, whichever process started them, and remove the folder."""
    if not _is_one_of_several(config):
        folder = run_folder()
        for noted in folder.rglob("process.json"):
            # Their data goes too, so they need no time to save it.
            ServerProcess(noted.parent.name, noted.parent).kill()
        shutil.rmtree(folder, ignore_errors=True)


def run_folder() -> Path:
    """Return the folder that all processes of this run share."""
    return Path(os.environ[_VARIABLE])


def once_a_run(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of that name; the first process that asks has ``make`` fill it.

    The others wait meanwhile. Where ``make`` raises, the next process tries again.
    """
    folder = run_folder() / name
    made = run_folder() / f"{name}.made"
    with alone(name):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let one process of the run at a time into the block of that name."""
    with (run_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_one_of_several(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
