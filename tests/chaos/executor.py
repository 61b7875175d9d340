"""The executor of a chaos run: it writes down that it ran, and little else.

A task's data may ask for work, ``work_ms``, and for one refusal, ``retry_after_ms``: the first
attempt then asks to be made again so much later.  Decides nothing about what was right.
"""

import asyncio
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hourhand import Limit, Retry, Task, TaskExecutor
from hourhand.actors.model.execution.outcome import Done
from hourhand.scheduler.demo.records import made_once
from tests.chaos.records import LIMIT_OF_A_TENANT, AttemptRecorder, now_us

FOLDER_VARIABLE = "CHAOS_RECORDS"
NODE_VARIABLE = "CHAOS_NODE"
"""Name the folder of the records, and the node's number, in a node's environment."""
LIMITED_KIND = "limited"
"""Its tasks run under ``LIMIT``."""
PROCESS_KIND = "process"
"""Its tasks run in processes."""
LIMIT = Limit(rate=LIMIT_OF_A_TENANT.per_s, burst=LIMIT_OF_A_TENANT.burst, key="tenant")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_WORK_S = 0.05
_MICROSECOND = timedelta(microseconds=1)


@made_once
def process_recorder() -> AttemptRecorder:
    """Return this process's recorder."""
    return AttemptRecorder(Path(os.environ[FOLDER_VARIABLE]), int(os.environ[NODE_VARIABLE]))


@made_once
def recorder_of_node() -> AttemptRecorder:
    """Return this process's recorder, which writes down whose process it is."""
    # Its parent is the guardian, and the guardian's the node.
    guardian = Path(f"/proc/{os.getppid()}/stat").read_text()
    node_pid = int(guardian.rpartition(")")[2].split()[1])
    folder, node = Path(os.environ[FOLDER_VARIABLE]), int(os.environ[NODE_VARIABLE])
    return AttemptRecorder(folder, node, node_pid)


class _Recorded(TaskExecutor):
    """Start and end of an attempt, as all kinds of executor write them."""

    def __init__(self) -> None:
        self._recorder = self._made_recorder()

    @staticmethod
    def _made_recorder() -> AttemptRecorder:
        return process_recorder()

    def _start(self, task: Task) -> int:
        return self._recorder.start(
            task.uniqueness_key,
            task.ordering_id,
            (task.scheduled_time - _EPOCH) // _MICROSECOND,
            number=self.attempt,
            fence=self.fence,
        )

    def _end(self, line: int, task: Task) -> Done | Retry:
        data: dict[str, Any] = task.data
        again = "retry_after_ms" in data and self.attempt == 1
        self._recorder.end(line, task.uniqueness_key, succeeded=not again)
        if again:
            return Retry(after=timedelta(milliseconds=data["retry_after_ms"]))
        return Done()

    @staticmethod
    def _work_s(task: Task) -> float:
        data: dict[str, Any] = task.data
        return float(data.get("work_ms", 0)) / 1000


class BlockingExecutor(_Recorded):
    """Works on a thread of the pool, which nobody can take it off."""

    def execute(self, task: Task) -> Done | Retry:
        """Run one task."""
        line = self._start(task)
        if work_s := self._work_s(task):
            # Nothing ever sets the event: it stands for a service that takes its time.
            threading.Event().wait(work_s)
        return self._end(line, task)


class AsyncExecutor(_Recorded):
    """Works on the event loop, and is cancelled where its node may not go on."""

    async def execute(self, task: Task) -> Done | Retry:
        """Run one task; a cancelled one ends too, without success."""
        line = self._start(task)
        try:
            if work_s := self._work_s(task):
                await asyncio.wait_for(asyncio.Event().wait(), work_s)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._recorder.end(line, task.uniqueness_key, succeeded=False)
            raise
        return self._end(line, task)


class ProcessExecutor(_Recorded):
    """Works in a process of its node, and writes down that it does, until it ends or is killed."""

    run_in = "process"

    @staticmethod
    def _made_recorder() -> AttemptRecorder:
        return recorder_of_node()

    def execute(self, task: Task) -> Done | Retry:
        """Run one task, whoever asks it to end."""
        line, moment = self._start(task), threading.Event()
        until_us = now_us() + round(self._work_s(task) * 1e6)
        while now_us() < until_us:
            moment.wait(_AT_WORK_S)
            self._recorder.at_work(line)
        return self._end(line, task)


class LimitedBlockingExecutor(BlockingExecutor):
    """The same for the kind with a limit."""

    limits = LIMIT


class LimitedAsyncExecutor(AsyncExecutor):
    """The same for the kind with a limit."""

    limits = LIMIT
