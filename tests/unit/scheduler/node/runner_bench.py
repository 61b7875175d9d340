"""A NodeRunner with real threads, whose gate the test holds."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.limits.node_limits import NO_LIMITS, NodeLimits
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.worker_watch import WorkerPool
from hourhand.scheduler.node.workers.workers import NodeWorkers
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt

TIMEOUT_S = 60
"""Generous: a busy machine stops a thread for seconds, and only a failing test waits for it."""

WORKERS = 2


class Blocking:
    """A blocking executor that does what it is given."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        self.attempt = 0
        self.fence = 0
        self.hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT
        self.work = work
        self.thread = ""

    def execute(self, task: Task) -> Outcome | None:
        """Do the work."""
        self.thread = threading.current_thread().name
        return self.work()  # type: ignore[return-value]


class Waiting:
    """An async executor that waits until it is let go."""

    def __init__(self) -> None:
        self.attempt = 0
        self.fence = 0
        self.hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    async def execute(self, task: Task) -> None:
        """Wait for ever."""
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Quick:
    """An async executor that ends at once."""

    attempt = 0
    fence = 0
    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

    async def execute(self, task: Task) -> Outcome | None:
        """Drop the task."""
        return Drop("async")


class Bench:
    """A NodeRunner with real threads, whose gate the test holds."""

    def __init__(
        self,
        async_attempts_max: int = WORKERS,
        limits: NodeLimits = NO_LIMITS,
        *,
        workers: int = WORKERS,
        clock: Clock | None = None,
    ) -> None:
        self.open = True
        self.refuses: Attempt | None = None
        """What does not begin, however open the gate is."""
        self.asked: list[Attempt] = []
        self.telemetry = RecordingTelemetry()
        self.ends: SimpleQueue[AttemptEnded] = SimpleQueue()
        self.calls = Calls(clock=clock or SystemClock(), gate=self._gate, telemetry=self.telemetry)
        settings = ExecutionSettings(workers=workers, async_attempts_max=async_attempts_max)
        self.workers = NodeWorkers(self.calls, settings)
        self.runner = NodeRunner(self.calls, self.workers, settings, limits)

    def pools(self) -> Sequence[WorkerPool]:
        """Return its pools of workers."""
        return self.runner.pools(self.workers.pools())

    def close(self) -> None:
        """End its threads."""
        self.runner.close()
        self.workers.close()

    def _gate(self, attempt: Attempt) -> bool:
        self.asked.append(attempt)
        return self.open and attempt is not self.refuses

    def ended(self) -> AttemptEnded:
        """Return the next end, and settle it."""
        ended = self.ends.get(timeout=TIMEOUT_S)
        self.runner.settle([ended.attempt])
        return ended

    def run(self, executor: Executable, attempt: Attempt | None = None) -> Attempt:
        """Start an attempt."""
        started = attempt or an_attempt()
        self.runner.start([(started, executor)], self.ends.put)
        return started


def task_of(ordering_id: str) -> StoredTask:
    """Return a due task of an ordering id."""
    return a_stored_task(due_in_ms=0, ordering_id=ordering_id)
