"""User code that tests have run in processes: it behaves well and badly."""

import asyncio
import logging
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchExecutor
from hourhand.actors.model.execution.outcome import Done, Drop, Snooze
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.registry import Hourhand

_never = threading.Event()
ONCE = RetryPolicy(attempts_max=1)
SECOND = timedelta(seconds=1)


class Began(Middleware):
    """Is told of each process."""

    pid = 0

    def on_node_start(self) -> None:
        """Take note of the process."""
        Began.pid = os.getpid()


app = Hourhand(middleware=[Began()])


@app.executor("told")
class Told(TaskExecutor):
    """Drops the task with all that it was told."""

    run_in = "process"

    def execute(self, task: Task) -> Drop:
        """Say where and what it is."""
        return Drop(
            f"{os.getpid()} {Began.pid} {self.attempt} {self.fence} {task.ordering_id} {task.data}"
        )


@app.task("nice", run_in="process", retry=ONCE)
def gives_way() -> Drop:
    """Drop with the niceness of the process."""
    return Drop(str(os.getpriority(os.PRIO_PROCESS, 0)))


@app.task("async", run_in="process", retry=ONCE)
async def awaits() -> Drop:
    """Wait a moment."""
    await asyncio.to_thread(_never.wait, 0.001)
    return Drop(str(os.getpid()))


@app.task("async-hangs", run_in="process", retry=ONCE, timeout=timedelta(milliseconds=200))
async def hangs_async() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@app.task("async-waits", run_in="process", retry=ONCE)
async def waits_async() -> None:
    """Wait for ever, without a timeout."""
    await asyncio.get_running_loop().create_future()


@app.task("looks", run_in="process", retry=ONCE)
def looks() -> None:
    """Run until that is to end."""
    pause = threading.Condition()
    with pause:
        while not app.cancelled:
            pause.wait(0.01)


@app.task("snoozes", run_in="process", retry=ONCE)
def snoozes() -> Snooze:
    """Ask for more snoozes than an attempt may have, after three."""
    return Snooze(SECOND * (1 + app.snoozed), times_max=3)


@app.task("raises", run_in="process", retry=ONCE)
def raises(data: dict[str, str]) -> None:
    """Raise what is asked for."""
    errors = {"value": ValueError("wrong"), "exit": SystemExit(3), "base": BaseException("base")}
    raise errors[data["what"]]


@app.task("dies", run_in="process", retry=ONCE)
def dies(data: dict[str, str]) -> None:
    """End the process."""
    os.kill(os.getpid(), signal.Signals[data["by"]])
    _never.wait(1_000)


@app.task("exits", run_in="process", retry=ONCE)
def exits() -> None:
    """End the process without a signal."""
    os._exit(7)


@app.task("spins", run_in="process", retry=ONCE, timeout=timedelta(milliseconds=200))
def spins() -> None:
    """Never end, and take no signal that can be taken."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


@app.task("falls-silent", run_in="process", retry=ONCE, stuck_after=SECOND)
def falls_silent(data: dict[str, int]) -> None:
    """Make some checkpoints in more than a second, and then no more."""
    for number in range(data["checkpoints"]):
        app.checkpoint(number)
        _never.wait(0.3)
    _never.wait(1_000)


@app.task("listens", run_in="process", retry=ONCE, timeout=timedelta(milliseconds=200))
def listens() -> Drop:
    """End when it is signalled."""
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    while not heard:
        _never.wait(0.01)
    return Drop("it listened")


@app.task("leaks", run_in="process", retry=ONCE)
def leaks() -> None:
    """Hold much memory."""
    held = bytearray(b"x" * 400_000_000)
    _never.wait(1_000)
    del held


@app.task("closes", run_in="process", retry=ONCE)
def closes() -> None:
    """Close what it never opened."""
    os.closerange(3, 256)


@app.task("forks", run_in="process", retry=ONCE)
def forks() -> None:
    """Return in two processes."""
    os.fork()


@app.task("prints", run_in="process", retry=ONCE)
def prints() -> None:
    """Write wherever one can."""
    sys.stdout.write("to stdout\n")
    os.write(1, b"\x00\x00\x00\xffnoise")
    sys.stderr.write("to stderr\n")
    logging.getLogger("mine").warning("logged by %s", os.getpid())


@app.task("sleeps", run_in="process", retry=ONCE)
def sleeps(data: dict[str, float]) -> None:
    """Take a while."""
    _never.wait(data["s"])


@app.task("notes", run_in="process", retry=ONCE)
def notes(data: dict[str, str]) -> None:
    """Write down which process this is, and never end."""
    path = Path(data["path"])
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").replace(path)
    _never.wait(1_000)


@app.executor("batched")
class Batched(BatchExecutor):
    """Runs many tasks, some of which may kill it."""

    run_in = "process"
    batch_tasks_max = 4
    batch_wait = timedelta(seconds=60)
    retries_alone = True

    def execute_many(self, tasks: tuple[Task, ...]) -> list[Drop]:  # type: ignore[override]
        """Say how many there are; die of one that asks for it."""
        if any(each.data.get("dies") for each in tasks):
            os.kill(os.getpid(), signal.SIGKILL)
        return [Drop(f"{len(tasks)}") for _ in tasks]


@app.executor("returns")
class Returns(BatchExecutor):
    """Ends each of many tasks with a large value."""

    run_in = "process"
    retry = ONCE
    batch_tasks_max = 300

    def execute_many(self, tasks: tuple[Task, ...]) -> list[Done]:  # type: ignore[override]
        """Say which one it is; all together are larger than a frame may be."""
        return [Done(f"{each.ordering_id} " + "x" * 60_000) for each in tasks]


@app.executor("noop")
class Noop(TaskExecutor):
    """Does nothing."""

    run_in = "process"

    def execute(self, task: Task) -> None:
        """Do nothing."""


@app.executor("checkpoints")
class Checkpoints(TaskExecutor):
    """Says what it found, makes some checkpoints, and dies where it is told to."""

    run_in = "process"
    retry = ONCE

    def execute(self, task: Task) -> None:
        """Make them, and fail."""
        for number in range(3):
            self.checkpoint({"done": number, "found": self.checkpointed})
        if task.data.get("dies"):
            _never.wait(1)
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("no")
