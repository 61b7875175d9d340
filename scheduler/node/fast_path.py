"""The fast path of system tasks: a driver takes their work and answers later.

Most system tasks only wait for an acknowledgement, so one thread hands over all of them, without a
coroutine for each.  Decides nothing: gate, registry and outcomes are those of every attempt.
"""

import logging
import threading
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.display import log_raised
from hourhand.actors.model.outcome import Outcome
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.machine import MACHINE, Machine
from hourhand.scheduler.node.system_executor import ImmediateWork

logger = logging.getLogger("hourhand.runner")


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
        while (item := self._waiting.get()) is not None:
            try:
                self._begin(*item)
            except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
                self._calls.end(item[0], self._calls.broken_off(item[0], error))

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
