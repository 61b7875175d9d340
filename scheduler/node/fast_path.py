"""A node's runner: the ordinary one, with a fast path for system tasks.

Most of these wait for nothing but an acknowledgement: they are handed to a driver that answers
later.  One thread does that for all of them, without a coroutine for each.  Others wait for each
other, and would block a bounded number of slots for good: they take none.  Decides which way an
attempt goes; gate, registry and outcomes are those of the ordinary runner.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from actors.model.attempts import Attempt
from actors.model.display import log_raised
from actors.model.outcome import Outcome
from actors.model.sealed import refuse_sealed
from actors.model.settings import ExecutionSettings
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.node.attempts import RunningAttempt, not_started
from scheduler.node.node_limits import NO_LIMITS, NodeLimits
from scheduler.node.runner import WorkerRunner
from scheduler.node.system_executor import ImmediateWork, SystemExecutor

logger = logging.getLogger("hourhand.runner")

_PATIENCE = 10
"""So many times as long as any other may what waits for another task run before its queue is left
to the store: read again, the queue would cost the store what the other task is waiting for."""


class NodeRunner(WorkerRunner):
    """Implements ``actors.ports.runner.Runner``."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        settings: ExecutionSettings,
        limits: NodeLimits = NO_LIMITS,
        require_codecs: Callable[[bytes], None] = refuse_sealed,
    ) -> None:
        super().__init__(
            clock=clock,
            gate=gate,
            telemetry=telemetry,
            settings=settings,
            limits=limits,
            require_codecs=require_codecs,
        )
        self._immediate: queue.SimpleQueue[tuple[RunningAttempt, ImmediateWork] | None]
        self._immediate = queue.SimpleQueue()
        self._immediate_thread: threading.Thread | None = None
        self._immediate_lock = threading.Lock()

    def _submit(self, started: Sequence[RunningAttempt]) -> None:
        """Take the fast path where an attempt only has to be handed over, or a worker."""
        super()._submit([each for each in started if not self._took_fast_path(each)])

    def _took_fast_path(self, running: RunningAttempt) -> bool:
        executor = running.executor
        if running.attempt.suspect or not isinstance(executor, SystemExecutor):
            return False
        work = executor.immediate(running.attempt.task)
        if work is not None:
            self._submit_immediate(running, work)
        elif executor.unslotted:
            self._submit_async(running, slotted=False)
        return work is not None or executor.unslotted

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts that have been running for so long, or longer where they wait."""
        patience_ms = at_least_ms * _PATIENCE
        return {
            attempt: ran_ms
            for attempt, ran_ms in super().long_running(partition, at_least_ms).items()
            if ran_ms >= patience_ms or not self._waits(attempt)
        }

    def nudge(self) -> None:
        """Begin the threads that the machine did not have when they were needed."""
        super().nudge()
        if not self._immediate.empty():
            self._serve_immediate()

    def close(self) -> None:
        """Take no more attempts."""
        self._immediate.put(None)
        super().close()

    def _needs_durable_start(self, running: RunningAttempt) -> bool:
        """Wait for nothing where no user code is called: a start is written to find out which
        task ends the process, and system tasks are never given up for that.
        """
        needed = super()._needs_durable_start(running)
        return needed and not isinstance(running.executor, SystemExecutor)

    def _waits(self, attempt: Attempt) -> bool:
        """Whether an attempt is of a kind that waits for other tasks."""
        running = self._registry.find(attempt)
        executor = None if running is None else running.executor
        return isinstance(executor, SystemExecutor) and executor.unslotted

    def _submit_immediate(self, running: RunningAttempt, work: ImmediateWork) -> None:
        self._immediate.put((running, work))
        if self._immediate_thread is None:
            self._serve_immediate()

    def _serve_immediate(self) -> None:
        with self._immediate_lock:
            if self._immediate_thread is not None:
                return
            thread = threading.Thread(
                target=self._begin_all, name="hourhand-immediate", daemon=True
            )
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                log_raised(logger, "the machine has no thread for system tasks; it is asked again")
            else:
                self._immediate_thread = thread

    def _begin_all(self) -> None:
        while (item := self._immediate.get()) is not None:
            try:
                self._begin_immediate(*item)
            except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
                self._registry.end(item[0], self._broken_off(item[0], error))

    def _begin_immediate(self, running: RunningAttempt, work: ImmediateWork) -> None:
        attempt = running.attempt
        if not self._may_begin(running):
            self._registry.end(running, not_started(attempt, self._clock.now_ms()))
            return
        started_ms = self._begin(running)

        def take(done: "Future[Outcome | None]") -> None:
            finished_ms = self._clock.now_ms()
            try:
                ended = self._returned(running, done.result(), started_ms, finished_ms)
            except BaseException as error:  # noqa: BLE001 - a driver may raise anything
                ended = self._failed(running, error, started_ms, finished_ms)
            self._registry.end(running, ended)

        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - a driver may raise anything
            ended = self._failed(running, error, started_ms, self._clock.now_ms())
            self._registry.end(running, ended)
        else:
            answer.add_done_callback(take)
