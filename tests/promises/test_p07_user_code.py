"""P7: user code that raises what only ends a process ends one attempt, or one callback.

On a real node: its dispatcher, its polling thread and the threads that resolve futures serve
everybody, so one that ended would take every other ordering id along, without a word.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest
import tenacity
from tenacity.wait import wait_base

from hourhand import Receipt, Scheduler, Settings
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFinished, Event
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings

WAIT_S = 60.0


class Escaped(BaseException):
    """Not even an Exception."""


ERRORS = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Escaped)


class Hostile:
    """What user code of one test does, and what happened; shared by its executors."""

    where: ClassVar[str] = ""
    left: ClassVar[list[type[BaseException]]] = []
    finished: ClassVar[threading.Semaphore]
    healthy: ClassVar[threading.Event]

    @classmethod
    def strike(cls, where: str) -> None:
        """Raise the next error where the test says so, and none once all were raised."""
        if where == cls.where and cls.left:
            raise cls.left.pop(0)(where)


class Waiting(wait_base):
    """A wait strategy of a user's own."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Wait for hours, so that nothing is tried again meanwhile."""
        Hostile.strike("wait")
        return 7_200.0


class Job(TaskExecutor):
    """Runs, and raises in one place."""

    def __init__(self) -> None:
        Hostile.strike("constructor")

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """Read where an attempt failed."""
        Hostile.strike("retry")
        return RetryPolicy(wait=Waiting())

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Read before each attempt."""
        Hostile.strike("timeout")
        return None

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """End well for the healthy one; else fail, in the ways there are."""
        if task.ordering_id == "healthy":
            Hostile.healthy.set()
            return None
        Hostile.strike("execute")
        if Hostile.where == "awaitable":
            return self._await()
        raise ValueError("as planned")

    async def _await(self) -> None:
        Hostile.strike("awaitable")


class AsyncJob(Job):
    """The same as a coroutine, and what it may do to the loop."""

    async def execute(self, task: Task) -> Outcome | None:
        """End well for the healthy one."""
        if task.ordering_id == "healthy":
            Hostile.healthy.set()
            return None
        Hostile.strike("coroutine")
        if Hostile.where == "task":
            await asyncio.get_running_loop().create_task(self._strike())
        if Hostile.where == "stop":
            asyncio.get_running_loop().stop()
        raise ValueError("as planned")

    async def _strike(self) -> None:
        Hostile.strike("task")


class Telemetry:
    """A user's telemetry, which counts attempts and raises as well."""

    def emit(self, event: Event) -> None:
        """Count the ends of attempts."""
        if isinstance(event, AttemptFinished):
            Hostile.finished.release()
        Hostile.strike("telemetry")


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scheduler]:
    """A node whose user code raises each error once, at the place that the test names."""
    where, executor = request.param
    Hostile.where, Hostile.left = where, []
    Hostile.finished, Hostile.healthy = threading.Semaphore(0), threading.Event()
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path), topic=TopicSettings(partitions=1)
    )
    with Scheduler(settings, executor=executor, telemetry=Telemetry()) as scheduler:
        Hostile.left = list(ERRORS)
        yield scheduler


def schedule(node: Scheduler, ordering_id: str) -> "Future[Receipt]":
    """Schedule a task that is due now."""
    due = from_millis(SystemClock().now_ms())
    task = Task(ordering_id=ordering_id, scheduled_time=due, uniqueness_key="x")
    return node.schedule_task(task)


PLACES: list[tuple[str, Callable[[], TaskExecutor]]] = [
    ("constructor", Job),
    ("retry", Job),
    ("wait", Job),
    ("timeout", Job),
    ("execute", Job),
    ("awaitable", Job),
    ("telemetry", Job),
    ("coroutine", AsyncJob),
    ("task", AsyncJob),
    ("stop", AsyncJob),
]


@pytest.mark.parametrize("node", PLACES, ids=[where for where, _ in PLACES], indirect=True)
def test_p7_user_code_that_raises_anything_delays_no_other_ordering_id(node: Scheduler) -> None:
    """Each failing task has one failed attempt, and the healthy one runs behind them all."""
    for number in range(len(ERRORS)):
        schedule(node, f"failing-{number}").result(WAIT_S)
    for _ in ERRORS:
        assert Hostile.finished.acquire(timeout=WAIT_S)

    schedule(node, "healthy").result(WAIT_S)

    assert Hostile.healthy.wait(WAIT_S)
    assert not Hostile.left or Hostile.where == "stop"


@pytest.mark.parametrize("node", [("callback", Job)], ids=["callback"], indirect=True)
def test_p7_a_callback_that_raises_anything_leaves_later_futures_alone(node: Scheduler) -> None:
    """The thread that resolves them goes on."""
    for number in range(len(ERRORS)):
        future = schedule(node, f"failing-{number}")
        future.add_done_callback(lambda _done: Hostile.strike("callback"))
        future.result(WAIT_S)

    schedule(node, "healthy").result(WAIT_S)

    assert Hostile.healthy.wait(WAIT_S)
