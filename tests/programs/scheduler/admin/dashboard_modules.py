"""The dashboard's own modules, run by Node against an API with a node behind it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hourhand.scheduler.admin
from hourhand import Scheduler, Task, TaskExecutor
from hourhand.scheduler.admin.app import create_app
from hourhand.scheduler.cli.http_running import HttpServer
from tests.unit.scheduler.cli.commands import settings_of

_NODE = shutil.which("node")
NEEDS_NODE = pytest.mark.skipif(_NODE is None, reason="Node.js is not installed")
_MODULES = Path(hourhand.scheduler.admin.__path__[0]) / "dashboard" / "js"


class _Run(TaskExecutor):
    def execute(self, task: Task) -> None:
        pass


def copied(folder: Path) -> Path:
    """Copy the modules into a new folder in which Node takes them for modules; return it."""
    shutil.copytree(_MODULES, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def ran(modules: Path, program: str, *arguments: str) -> Any:
    """Return what a program beside the modules prints."""
    assert _NODE is not None
    path = modules / "program.js"
    path.write_text(program)
    done = subprocess.run(
        [_NODE, str(path), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(folder: Path) -> Iterator[tuple[Scheduler, str]]:
    """Run a node in a folder, and its API on a port; return the node and the API's URL."""
    settings = settings_of(folder)
    with Scheduler(settings, executor=_Run) as scheduler:
        app = create_app(settings, open_to="this test")
        server = HttpServer(app, host="127.0.0.1", port=0)
        assert server.start()
        try:
            yield scheduler, f"http://127.0.0.1:{server.port}/"
        finally:
            server.stop()
            app.state.service.close()
