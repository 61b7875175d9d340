"""A task that kills its process: how often it runs until it is given up."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from hourhand import Hourhand, RetryPolicy, SchedulerClient, TaskState
from tests.unit.scheduler.cli.commands import settings_of

WAIT_S = 60.0
STARTS_MAX = 6
_NODE = """
import os, sys
from pathlib import Path
from hourhand import Hourhand, RetryPolicy, Scheduler, TaskKey
from tests.unit.scheduler.cli.commands import settings_of

folder, key = Path(sys.argv[1]), TaskKey.parse(sys.argv[2])
app = Hourhand()

@app.task("kill", retry=RetryPolicy(attempts_max=1))
def kill(of: dict[str, str]) -> None:
    with (folder / "killed").open("a") as note:
        note.write("x")
    os._exit(70)

with Scheduler(settings_of(folder), executors=app) as node:
    node.wait_task(key, 60)
"""


def test_a_task_that_kills_its_process_uses_up_its_attempts(tmp_path: Path) -> None:
    """Two runs more than it may have attempts at most: those that are not known to be its own."""
    app = Hourhand()

    @app.task("kill", retry=RetryPolicy(attempts_max=1))
    def kill(of: dict[str, str]) -> None:
        raise AssertionError("the nodes are other processes")

    with SchedulerClient(settings_of(tmp_path), executors=app) as client:
        sent = kill.schedule({}, ordering_id="k", after=timedelta(milliseconds=10))
        key = sent.result(WAIT_S).key

    node = [sys.executable, "-c", _NODE, str(tmp_path), str(key)]
    ends: list[int] = []
    while 0 not in ends and len(ends) < STARTS_MAX:
        ends.append(subprocess.run(node, check=False, timeout=WAIT_S).returncode)

    runs = len((tmp_path / "killed").read_text())
    assert ends == [70] * runs + [0]
    assert 1 <= runs <= 3
    with SchedulerClient(settings_of(tmp_path)) as client:
        assert client.find_task(key).state is TaskState.FAILURE
