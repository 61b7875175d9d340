"""A runner with real processes, whose lease the test holds."""

import json
import math
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.settings import ExecutionSettings, RecoverySettings
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.executors.process_plan import plan_of
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.processes.process_frames import Logged
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.silence import SilenceLimits
from hourhand.scheduler.node.workers.process_thread import ProcessThread
from hourhand.scheduler.node.workers.workers import NodeWorkers
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt
from tests.programs.scheduler.node.process_tasks import app

TIMEOUT_S = 60


class ProcessBench:
    """A NodeRunner with processes."""

    def __init__(
        self, executors: Hourhand = app, *, drain_deadline_ms: int = 10_000, **settings: object
    ) -> None:
        given = {"processes": 1, "kill_grace_ms": 300, **settings}
        execution = ExecutionSettings.model_validate(given)
        self.clock = SystemClock()
        self.lease_ends_ms = math.inf
        self.renew: Callable[[], float] = lambda: self.lease_ends_ms
        self.telemetry = RecordingTelemetry()
        self.ends: SimpleQueue[AttemptEnded] = SimpleQueue()
        self.lines: list[tuple[Logged, RunningAttempt | None]] = []
        self.users = UserExecutors.of(None, executors).with_processes("thread")
        self.is_open = True
        self.calls = Calls(
            clock=self.clock,
            gate=lambda _: self.is_open,
            telemetry=self.telemetry,
            silence_limits=SilenceLimits(self.users.stuck_after_ms, execution.stuck_after_ms),
        )
        plan = plan_of(self.users, executors, (), None, execution)
        assert plan is not None, "something runs in a process"
        self.processes = ProcessThread(
            self.calls,
            execution,
            RecoverySettings(drain_deadline_ms=drain_deadline_ms),
            places=execution.processes or 1,
            plan=plan,
            lease_ends_ms=lambda: self.renew(),  # noqa: PLW0108 - it may change
            log=lambda line, running: self.lines.append((line, running)),
        )
        self.workers = NodeWorkers(self.calls, execution, self.processes)
        self.runner = NodeRunner(self.calls, self.workers, execution)
        self._count = 0

    def __enter__(self) -> Self:
        self.workers.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.runner.close()
        self.workers.close()

    def start(
        self,
        kind: str,
        data: object = None,
        *,
        found: TaskCheckpoint | None = None,
        snoozed: int = 0,
        **more: object,
    ) -> Attempt:
        """Start an attempt of a kind, after one that left a checkpoint, or was snoozed."""
        self._count += 1
        body = with_kind(json.dumps(data or {}, separators=(",", ":")).encode(), kind)
        task = a_stored_task(due_in_ms=0, ordering_id=f"id-{self._count}", data=body)
        state = replace(task.attempts, snoozed=snoozed).with_checkpoint(found)
        task = replace(task, attempts=state)
        attempt = an_attempt(task=task, **more)  # type: ignore[arg-type]
        self.runner.start([(attempt, self.users.make(kind))], self.ends.put)
        return attempt

    def ended(self) -> AttemptEnded:
        """Return the next end, and settle it."""
        ended = self.ends.get(timeout=TIMEOUT_S)
        self.runner.settle([ended.attempt])
        return ended

    def run(self, kind: str, data: object = None, **more: object) -> AttemptEnded:
        """Run one attempt to its end."""
        self.start(kind, data, **more)  # type: ignore[arg-type]
        return self.ended()

    def until_begun(self) -> int:
        """Wait until an attempt runs in the first process; return its number."""
        place, pause = self.processes.page.place(0), threading.Event()
        for _ in range(20 * TIMEOUT_S):
            if place.seq and place.executes_since_ms is not None:
                return place.seq
            pause.wait(0.05)
        raise AssertionError("nothing has begun")
