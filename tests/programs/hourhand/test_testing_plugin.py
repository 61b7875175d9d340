"""The pytest plugin in a project that knows nothing but it."""

import sys
from pathlib import Path
from subprocess import run

from tests.tidy.source import ROOT

STOPPED = """
from hourhand import TaskExecutor
made = []

class Noting(TaskExecutor):
    def execute(self, task):
        pass

def test_uses_it(virtual_scheduler):
    made.append(virtual_scheduler(Noting))
    assert made[0]._node is not None

def test_sees_it_stopped():
    assert made[0]._node is None
"""


def test_the_fixture_stops_what_it_made(tmp_path: Path) -> None:
    """Also in a project that knows nothing but the plugin."""
    path = tmp_path / "test_a_users_own.py"
    path.write_text(STOPPED)
    # Where Hourhand is installed the plugin is there already, under its own name.
    plugin = ("-p", "no:hourhand", "-p", "hourhand.testing_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugin, str(path)]
    done = run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)

    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_alone_imports_no_kit() -> None:
    """It is loaded into every test run of an environment that has Hourhand installed."""
    code = (
        "import sys, hourhand.testing_plugin;"
        "print('hourhand.scheduler.testing' in sys.modules, 'cassandra' in sys.modules)"
    )
    done = run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
