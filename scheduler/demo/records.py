"""The executor of a demonstration, its records, and their reader.

One file a process, one JSON object a line, one unbuffered append a line: each action of user code
is recorded before it goes on, and a killed process leaves whole lines behind.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.runtime.pause import pause

Made = TypeVar("Made")

FOLDER_VARIABLE = "DEMO_RECORDS"
"""Names the folder of the records in a node's environment."""


class Recorder:
    """Appends the starts and ends of one process's attempts; usable from any thread."""

    def __init__(self, folder: Path, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lock = threading.Lock()
        self._numbers = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(folder / f"attempts-{os.getpid()}.jsonl", flags, 0o644)

    def start(
        self, task_id: str, ordering_id: str, due_ms: int, *, attempt: int, fence: int
    ) -> int:
        """Record a start; return the number for ``end``."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
        self._write(
            {
                "event": "start",
                "number": number,
                "task": task_id,
                "ordering": ordering_id,
                "due_us": due_ms * 1000,
                "attempt": attempt,
                "fence": fence,
                "pid": os.getpid(),
                "at_us": self._now_us(),
            }
        )
        return number

    def end(self, number: int, *, succeeded: bool) -> None:
        """Record the end of a start."""
        self._write(
            {"event": "end", "number": number, "succeeded": succeeded, "at_us": self._now_us()}
        )

    def _write(self, record: dict[str, object]) -> None:
        os.write(self._descriptor, json.dumps(record, separators=(",", ":")).encode() + b"\n")


class RecordReader:
    """Reads the records of a folder while they grow; each call returns newer ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}
        self._open: dict[tuple[Path, int], Run] = {}
        self._ended: list[Run] = []
        self.succeeded: set[str] = set()
        """Ids of the tasks that ended well."""

    @property
    def runs(self) -> list[Run]:
        """Every attempt read so far, in no order."""
        return [*self._ended, *self._open.values()]

    def read(self) -> list[Run]:
        """Read new records; return the attempts that ended since the last call."""
        before = len(self._ended)
        for path in sorted(self._folder.glob("attempts-*.jsonl")):
            for line in self._new_lines(path):
                self._take(path, json.loads(line))
        return self._ended[before:]

    def _new_lines(self, path: Path) -> Iterator[bytes]:
        with path.open("rb") as file:
            file.seek(self._read_bytes.get(path, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    # It is being written right now: the next call reads it whole.
                    return
                self._read_bytes[path] = self._read_bytes.get(path, 0) + len(line)
                yield line

    def _take(self, path: Path, record: dict[str, object]) -> None:
        number, at_us = record["number"], record["at_us"]
        assert isinstance(number, int)
        assert isinstance(at_us, int)
        if record["event"] == "start":
            self._open[path, number] = _started(record, at_us)
        else:
            succeeded = record["succeeded"] is True
            run = replace(self._open.pop((path, number)), ended_us=at_us, succeeded=succeeded)
            self._ended.append(run)
            if run.succeeded:
                self.succeeded.add(run.task_id)


def _started(record: dict[str, object], at_us: int) -> Run:
    return Run(
        task_id=str(record["task"]),
        ordering_id=str(record["ordering"]),
        due_us=int(str(record["due_us"])),
        attempt=int(str(record["attempt"])),
        fence=int(str(record["fence"])),
        pid=int(str(record["pid"])),
        started_us=at_us,
    )


class PlannedFailure(RuntimeError):
    """Raised if a task's data asks for it."""


def made_once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that makes its value once, even if threads call it at the same time.

    Constructors of executors run within attempts, several of them at once.
    """
    lock, kept = threading.Lock(), cache(make)

    def made() -> Made:
        with lock:
            return kept()

    return made


@made_once
def process_recorder() -> Recorder:
    """Return this process's recorder."""
    clock = wiring.open_clock()
    return Recorder(Path(os.environ[FOLDER_VARIABLE]), lambda: clock.now_ms() * 1000)


class DemoExecutor(TaskExecutor):
    """Records its start and its end, and acts in between as the data says."""

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
        # It stands for a service that takes some time.
        pause(data["work_ms"] / 1000)
        fails = self.attempt <= data["failures"]
        self._records.end(number, succeeded=not fails)
        if fails:
            raise PlannedFailure(f"attempt {self.attempt} was planned to fail")


DEMO = Hourhand()
"""The two kinds of tasks of the demonstration."""


@DEMO.executor("send-mail")
class SendMail(DemoExecutor):
    """A task that does not fail."""


@DEMO.executor("charge-card")
class ChargeCard(DemoExecutor):
    """A task that fails at first, and is retried soon."""

    retry = RetryPolicy(attempts_max=10, wait=tenacity.wait_fixed(0.3))
