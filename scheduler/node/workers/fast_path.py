"""The fast path of system tasks: a driver takes their work and answers later.

Most system tasks only wait for an acknowledgement, so one thread hands over all of them, without a
coroutine for each.  Work that is shared and waits here together is done together.  Decides
nothing: gate, registry and outcomes are those of every attempt.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.display import log_raised
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Begun, Calls
from hourhand.scheduler.node.system_executor import ImmediateWork, SharedWork, TaskEnds
from hourhand.scheduler.node.workers.machine import MACHINE, Machine

logger = logging.getLogger("hourhand.runner")

TOGETHER_MAX = 1_000
"""Most tasks whose work is done together."""


class FastPath:
    """The thread of a node that hands over system tasks, started with the first of them."""

    def __init__(self, calls: Calls, machine: Machine = MACHINE) -> None:
        self._calls, self._machine = calls, machine
        self._waiting = machine.make_queue(tuple[RunningAttempt, ImmediateWork])
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, running: RunningAttempt, work: ImmediateWork) -> None:
        """Begin an attempt by handing its work over."""
        self._waiting.put((running, work))
        if self._thread is None:
            self._serve()

    def nudge(self) -> None:
        """Start the thread, if the machine had none when it was needed."""
        if not self._waiting.empty():
            self._serve()

    def close(self) -> None:
        """End the thread after the attempts that wait now."""
        self._waiting.put(None)

    def _serve(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            try:
                self._thread = self._machine.start_thread(self._begin_all, "hourhand-immediate")
            except (RuntimeError, MemoryError):
                log_raised(logger, "the machine has no thread for system tasks; it is asked again")

    def _begin_all(self) -> None:
        is_open = True
        while is_open:
            shared: dict[type, list[tuple[RunningAttempt, SharedWork]]] = {}
            for item in self._taken():
                if item is None:
                    is_open = False
                    break
                running, work = item
                if isinstance(work, SharedWork):
                    shared.setdefault(type(work.executor), []).append((running, work))
                else:
                    self._guarded([running], partial(self._begin, running, work))
            for together in shared.values():
                attempts = [running for running, _ in together]
                self._guarded(attempts, partial(self._begin_together, together))

    def _taken(self) -> Iterator[tuple[RunningAttempt, ImmediateWork] | None]:
        """Wait for an item, and yield it with those that wait now."""
        yield self._waiting.get()
        for _ in range(min(self._waiting.qsize(), TOGETHER_MAX - 1)):
            yield self._waiting.get()

    def _guarded(self, attempts: Sequence[RunningAttempt], begin: Callable[[], object]) -> None:
        try:
            begin()
        except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
            for running in attempts:
                if running.ended is None:
                    self._calls.end(running, self._calls.broken_off(running, error))

    def _begin_together(self, together: Sequence[tuple[RunningAttempt, SharedWork]]) -> None:
        started: list[tuple[RunningAttempt, int]] = []
        tasks: list[StoredTask] = []
        for running, work in together:
            if self._calls.may_begin(running):
                started.append((running, self._calls.begin(running)))
                tasks.append(work.task)
            else:
                self._calls.refuse(running)
        if tasks:
            answer = together[0][1].together(tasks)
            answer.add_done_callback(partial(self._take_together, started))

    def _take_together(self, started: Begun, done: "Future[TaskEnds]") -> None:
        """End attempts whose work was done together."""

        def end() -> None:
            error = done.exception()
            ends = done.result() if error is None else [error] * len(started)
            self._calls.end_batch(started, ends)

        self._guarded([running for running, _ in started], end)

    def _begin(self, running: RunningAttempt, work: ImmediateWork) -> None:
        if not self._calls.may_begin(running):
            self._calls.refuse(running)
            return
        started_ms = self._calls.begin(running)
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - a driver may raise anything
            self._calls.end(running, self._calls.failed(running, error, started_ms))
        else:
            answer.add_done_callback(partial(self._take, running, started_ms))

    def _take(
        self, running: RunningAttempt, started_ms: int, done: "Future[Outcome | None]"
    ) -> None:
        """End an attempt with its answer."""
        try:
            ended = self._calls.returned(running, done.result(), started_ms)
        except BaseException as error:  # noqa: BLE001 - a driver may raise anything
            ended = self._calls.failed(running, error, started_ms)
        self._calls.end(running, ended)
