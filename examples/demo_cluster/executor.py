"""The executor of the demonstration: it writes down that it ran, and little else.

A task's data may ask for work, ``work_ms``, and for one refusal, ``retry_after_s``: the first
attempt then asks for another one after these seconds.
"""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from examples.demo_cluster.workload import LIMIT_BURST, LIMIT_PER_S
from hourhand import Limit, Retry, Task, TaskExecutor
from hourhand.actors.model.execution.outcome import Done
from hourhand.scheduler.demo.records import FOLDER_VARIABLE, Recorder, made_once

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Return microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def now_us() -> int:
    """Return the wall clock, read past the engine's own clock."""
    return micros(datetime.now(UTC))


@made_once
def process_recorder() -> Recorder:
    """Return this process's recorder."""
    return Recorder(Path(os.environ[FOLDER_VARIABLE]), now_us)


class ClusterExecutor(TaskExecutor):
    """Writes down its start and its end."""

    def __init__(self) -> None:
        self._records = process_recorder()

    def execute(self, task: Task) -> Done | Retry:
        """Run one task of the demonstration."""
        number = self._records.start(
            task.uniqueness_key,
            task.ordering_id,
            micros(task.scheduled_time) // 1000,
            attempt=self.attempt,
            fence=self.fence,
        )
        data: dict[str, Any] = task.data
        if "work_ms" in data:
            # Nothing ever sets the event: it stands for a service that takes its time.
            threading.Event().wait(data["work_ms"] / 1000)
        again = "retry_after_s" in data and self.attempt == 1
        self._records.end(number, succeeded=not again)
        return Retry(after=timedelta(seconds=data["retry_after_s"])) if again else Done()


class LimitedExecutor(ClusterExecutor):
    """The same for a kind that the whole cluster may start only so often."""

    limits = Limit(rate=LIMIT_PER_S, burst=LIMIT_BURST)
