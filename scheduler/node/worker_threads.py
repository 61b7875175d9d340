"""The threads of a node that take one attempt at a time.

Decides how many there are, and starts one another as they are needed.  Never decides what a thread
does with an attempt.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from actors.model.display import log_raised
from scheduler.node.attempts import RunningAttempt
from scheduler.node.machine import MACHINE, Machine
from scheduler.node.worker_watch import WorkerLoad

logger = logging.getLogger("hourhand.runner")


def own_clock() -> int:
    """Return the clock of this thread's processor time; where there is none, a number for it."""
    ident = threading.get_ident()
    # Of itself alone: asked for a thread that has ended, it may end the process.
    clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
    return ident if clock_of is None else clock_of(ident)


class WorkerThreads:
    """Threads that take one attempt at a time; started as they are needed, up to a limit."""

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
        """Attempts queued or running, until there are as many threads as there may be: each has
        a thread.  Counting idle threads instead would take one just woken for a free one."""
        self._threads: list[threading.Thread] = []
        self._too_few = False
        """Whether the machine had no thread when one was last asked for; logged once."""
        self._lock = threading.Lock()
        self.at_work: dict[int, RunningAttempt | None] = {}
        """What each thread runs, by the clock of its processor time."""

    def submit(self, ready: Sequence[RunningAttempt]) -> bool:
        """Have threads run these; False where there is no thread, and none to be had."""
        if len(self._threads) < self._threads_max and not self._has_threads(len(ready)):
            return False
        self._submitted += len(ready)
        put = self._waiting.put
        for running in ready:
            put(running)
        return True

    def load(self) -> WorkerLoad:
        """Return how many attempts were submitted, and how many of them wait for a thread."""
        return WorkerLoad(self._submitted, self._waiting.qsize())

    def nudge(self) -> None:
        """Start a thread that the machine did not have when it was needed."""
        if self._too_few:
            with self._lock:
                self._start_next()

    def close(self) -> None:
        """End the threads once nothing waits that came before."""
        for _ in self._threads:
            self._waiting.put(None)

    def _has_threads(self, more: int) -> bool:
        """Begin to start as many as so many attempts more can use, if the machine has any."""
        with self._lock:
            self._outstanding += more
            self._start_next()
            if not self._threads:
                self._outstanding -= more
            return bool(self._threads)

    def _start_next(self) -> None:
        """Start one thread where more are needed; it starts the one after it.

        A start waits until the new thread runs, which takes milliseconds on a busy machine:
        with all of them the dispatcher would stand still at the begin of a herd.
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
