"""The pytest plugin, used as a user's tests use it."""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from subprocess import run

from hourhand import Task, TaskExecutor
from hourhand.testing import VirtualScheduler
from hourhand.testing_plugin import virtual_scheduler
from tests.tidy.source import ROOT

__all__ = ["virtual_scheduler"]


class _Noting(TaskExecutor):
    def execute(self, task: Task) -> None:
        """Succeed."""


def _due(scheduler: VirtualScheduler) -> Task:
    return Task(
        ordering_id="customer-7",
        scheduled_time=scheduler.now + timedelta(hours=1),
        uniqueness_key="1",
    )


def test_the_fixture_makes_schedulers(
    virtual_scheduler: Callable[..., VirtualScheduler],
) -> None:
    """As many as a test wants, with the arguments of the class."""
    first, second = virtual_scheduler(_Noting), virtual_scheduler(_Noting, partitions=1)
    first.schedule_task(_due(first))

    first.advance(hours=1)
    second.advance(hours=1)

    first.assert_executed(ordering_id="customer-7")
    second.assert_executed(0)


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
        "print('scheduler.testing' in sys.modules, 'cassandra' in sys.modules)"
    )
    done = run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
