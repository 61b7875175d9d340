"""The executor of ``hourhand demo``: works for a few milliseconds, fails where it is told to.

What a task does is in its data: ``work_ms``, and ``failures``, the number of attempts that
fail before one succeeds.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import tenacity

from actors.model.backoff import RetryPolicy
from actors.model.instant import to_millis
from actors.model.task import Task
from actors.task_executor import TaskExecutor
from scheduler import wiring
from scheduler.demo.records import FOLDER_VARIABLE, Recorder
from scheduler.process.pause import pause


class PlannedFailure(RuntimeError):
    """Raised where a task's data asks for it."""


@cache
def process_recorder() -> Recorder:
    """Return this process's recorder; for constructors, which run on one thread."""
    clock = wiring.open_clock()
    return Recorder(Path(os.environ[FOLDER_VARIABLE]), lambda: clock.now_ms() * 1000)


class DemoExecutor(TaskExecutor):
    """Writes down its start and its end, and between them does what the data says."""

    retry = RetryPolicy(attempts_max=10, wait=tenacity.wait_fixed(0.3))

    def __init__(self) -> None:
        self._records = process_recorder()

    def execute(self, task: Task) -> None:
        """Run one task of the demonstration."""
        number = self._records.start(
            task.uniqueness_key,
            task.ordering_id,
            to_millis(task.scheduled_time),
            attempt=self.attempt,
            fence=self.fence,
        )
        data: dict[str, Any] = task.data
        # It stands for a service that takes its time.
        pause(data["work_ms"] / 1000)
        fails = self.attempt <= data["failures"]
        self._records.end(number, succeeded=not fails)
        if fails:
            raise PlannedFailure(f"attempt {self.attempt} was planned to fail")
