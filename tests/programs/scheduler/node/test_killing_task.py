"""A task in a thread that kills its node: how often it runs until it is given up."""

import subprocess
import sys
from pathlib import Path

import pytest

from hourhand import SchedulerClient, TaskState
from hourhand.scheduler.tasks.task_info import TaskInfo
from tests.unit.scheduler.cli.commands import invoke, settings_of

WAIT_S = 60.0
DEATHS_MAX = 6
NAMES = ("a-killer", "b-bystander", "c-bystander")
"""The first one falls due first, and keeps the only worker."""
_NODE = """
import os, sys, threading
from datetime import timedelta
from pathlib import Path
from hourhand import RetryPolicy, Scheduler, Task, TaskExecutor
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from tests.unit.scheduler.cli.commands import settings_of

folder, attempts_max, *names = Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]

class Kill(TaskExecutor):
    retry = RetryPolicy(attempts_max=attempts_max)

    def execute(self, task: Task) -> None:
        with (folder / task.ordering_id).open("a") as note:
            note.write(f"{self.attempt} ")
        if task.ordering_id == names[0]:
            # What waits beside it falls due and has a durable start, or has ended, by then.
            threading.Event().wait(0.7)
            os._exit(70)

one_worker = TreeSettings(execution=ExecutionSettings(workers=1))
with Scheduler(settings_of(folder).model_copy(update={"tree": one_worker}), executor=Kill) as node:
    keys = [task.key for task in node.list_tasks()]
    if not keys:
        at, later = node.now + timedelta(milliseconds=300), timedelta(milliseconds=200)
        times = [at, *(at + later for _ in names[1:])]
        tasks = [
            Task(ordering_id=each, uniqueness_key="x", scheduled_time=due)
            for each, due in zip(names, times)
        ]
        keys = [node.schedule_task(each).result(60).key for each in tasks]
    for key in keys:
        node.wait_task(key, 60)
"""


def _tasks(folder: Path) -> dict[str, TaskInfo]:
    with SchedulerClient(settings_of(folder)) as client:
        return {task.key.ordering_id: task for task in client.list_tasks()}


@pytest.mark.parametrize(("attempts_max", "starts"), [(1, 2), (2, 4)])
def test_a_task_that_kills_its_node_is_given_up(
    tmp_path: Path, attempts_max: int, starts: int
) -> None:
    """With one attempt it starts twice, with more of them twice more than its policy allows; those
    that waited beside it with a durable start lose nothing.
    """
    node = [sys.executable, "-c", _NODE, str(tmp_path), str(attempts_max), *NAMES]
    ends: list[int] = []
    while 0 not in ends and len(ends) < DEATHS_MAX:
        ends.append(subprocess.run(node, check=False, timeout=WAIT_S).returncode)

    assert ends == [70] * starts + [0]
    killer, *bystanders = ((tmp_path / name).read_text().split() for name in NAMES)
    assert len(killer) == starts and [len(each) for each in bystanders] == [1, 1]
    states = {name: task.state for name, task in _tasks(tmp_path).items()}
    assert states == dict.fromkeys(NAMES, TaskState.SUCCESS) | {NAMES[0]: TaskState.FAILURE}
    shown = invoke(tmp_path, "show", str(_tasks(tmp_path)[NAMES[0]].key)).output.splitlines()
    counted = [line.endswith("is not known, counts") for line in shown if "started" in line]
    assert counted == [False] + [True] * attempts_max
