"""The worker threads of a node; each takes one attempt at a time.

Decides their number: each thread starts the next one, if it is needed.  Never decides how a thread
runs an attempt.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hourhand.actors.model.values.display import log_raised
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.worker_watch import WorkerLoad
from hourhand.scheduler.node.workers.machine import MACHINE, Machine

logger = logging.getLogger("hourhand.runner")


def own_clock() -> int:
    """Return the clock of this thread's processor time, or without such clocks a number for it."""
    ident = threading.get_ident()
    # Each thread asks for itself: the call for a thread that has ended may end the process.
    clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
    return ident if clock_of is None else clock_of(ident)


class WorkerThreads:
    """Threads that take one attempt at a time, started as needed, up to a limit."""

    def __init__(
        self,
        run: Callable[[RunningAttempt], None],
        threads_max: int,
        name: str,
        machine: Machine = MACHINE,
    ) -> None:
        self._run = run
        self._machine = machine
        self._threads_max = threads_max
        self._name = name
        self._waiting = machine.make_queue(RunningAttempt)
        self._submitted = 0
        self._outstanding = 0
        """Attempts queued or running; counted until the number of threads is at its limit.  A count
        of idle threads would take a thread that was just woken for a free one."""
        self._threads: list[threading.Thread] = []
        self._too_few = False
        """True if the machine had no thread at the last request; logged once."""
        self._lock = threading.Lock()
        self.at_work: dict[int, RunningAttempt | None] = {}
        """The attempt of each thread, by the clock of the thread's processor time."""

    def submit(self, ready: Sequence[RunningAttempt]) -> bool:
        """Let threads run these attempts; return False if there is no thread and none can start."""
        if len(self._threads) < self._threads_max and not self._has_threads(len(ready)):
            return False
        self._submitted += len(ready)
        put = self._waiting.put
        for running in ready:
            put(running)
        return True

    def load(self) -> WorkerLoad:
        """Return the numbers of submitted attempts and of those that wait for a thread."""
        return WorkerLoad(self._submitted, self._waiting.qsize())

    def nudge(self) -> None:
        """Start a thread, if the machine had none when it was needed."""
        if self._too_few:
            with self._lock:
                self._start_next()

    def close(self) -> None:
        """End the threads after the attempts that wait now."""
        for _ in self._threads:
            self._waiting.put(None)

    def _has_threads(self, more: int) -> bool:
        """Begin to start threads for ``more`` attempts; return False if there is no thread."""
        with self._lock:
            self._outstanding += more
            self._start_next()
            if not self._threads:
                self._outstanding -= more
            return bool(self._threads)

    def _start_next(self) -> None:
        """Start one thread, if more are needed; that thread starts the next one.

        A start waits until the new thread runs, which takes milliseconds on a busy machine: the
        dispatcher would stand still if it started all threads when many tasks become due.
        """
        try:
            if len(self._threads) < min(self._outstanding, self._threads_max):
                name = f"{self._name}-{len(self._threads)}"
                self._threads.append(self._machine.start_thread(self._work, name))
                self._too_few = False
        except (RuntimeError, MemoryError):
            if not self._too_few:
                text = "the machine has no thread for a worker more than %d; it is asked again"
                log_raised(logger, text, len(self._threads))
            self._too_few = True

    def _work(self) -> None:
        with self._lock:
            self._start_next()
        clock = own_clock()
        while (running := self._waiting.get()) is not None:
            self.at_work[clock] = running
            try:
                self._run(running)
            except BaseException:  # noqa: BLE001 - it is logged
                log_raised(logger, "a worker failed outside user code; please report this")
            self.at_work[clock] = None
            if len(self._threads) < self._threads_max:
                with self._lock:
                    self._outstanding -= 1
