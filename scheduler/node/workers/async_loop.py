"""The event loop of a node's async attempts, with its thread.

Decides how many attempts run at once, and continues whatever user code does to the loop.  Never
decides the meaning of an attempt's end.
"""

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from contextvars import Context, copy_context
from functools import partial
from types import FrameType
from typing import Any

from hourhand.actors.model.values.display import log_raised
from hourhand.scheduler.node.worker_watch import WorkerLoad
from hourhand.scheduler.node.workers.machine import MACHINE, Machine
from hourhand.scheduler.node.workers.worker_threads import own_clock

logger = logging.getLogger("hourhand.runner")

Job = Callable[[], Awaitable[None]]
Call = Callable[[], object]

_STOPS_MAX = 1_000
"""A closing loop runs its last tasks again at most this many times after user code stopped it."""


class PostedJobs:
    """Jobs that threads post for the thread that runs them; one wake-up serves all waiting jobs.

    A wake-up of an event loop writes to a pipe, which costs more than the rest of a post.
    """

    def __init__(self, wake: Call, take: Callable[[Call], object]) -> None:
        self._wake = wake
        self._take = take
        self._jobs = deque[Call]()
        self._is_woken = False
        """True while a wake-up is under way that will find jobs posted now."""

    def post(self, job: Call) -> None:
        """Post a job, from any thread.  If the wake-up raises, the job stays posted."""
        # The job is appended before the flag is read, and take_all clears the flag before it reads
        # the jobs: so a thread that finds the flag set has appended before it is cleared.
        self._jobs.append(job)
        if not self._is_woken:
            self._wake_once()

    def nudge(self) -> None:
        """Repeat a wake-up that has failed."""
        if self._jobs and not self._is_woken:
            self._wake_once()

    def take_all(self) -> None:
        """Run the posted jobs, on the thread that was woken."""
        self._is_woken = False
        try:
            # Only the jobs of now: later ones have a wake-up of their own.
            for _ in range(len(self._jobs)):
                self._take(self._jobs.popleft())
        except BaseException:
            # The jobs behind it have no other wake-up.
            if self._jobs:
                self._wake_once()
            raise

    def _wake_once(self) -> None:
        # Before the wake-up: set after it, the flag could stay set with no wake-up under way.
        self._is_woken = True
        try:
            self._wake()
        except BaseException:
            self._is_woken = False
            raise


class _NoThread(RuntimeError):
    """The machine has no thread for a loop now."""


class LoopThread:
    """One event loop, started when it is first needed and the machine has a thread for it."""

    def __init__(
        self, attempts_max: int, name: str = "hourhand-async", machine: Machine = MACHINE
    ) -> None:
        self._attempts_max, self._machine = attempts_max, machine
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clock: int | None = None
        self._slots = asyncio.Semaphore(attempts_max)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._awaited: set[Future[object]] = set()
        """The futures that threads wait for."""
        self._closing = self._ended = self._is_short = False
        self._submitted = self._begun = self._left = 0
        self._posted = PostedJobs(self._wake, lambda call: call())

    def submit(self, job: Job, lost: Call, *, slotted: bool = True) -> None:
        """Run a coroutine once a slot is free; without ``slotted``, at once.

        ``lost`` is called on the loop instead, if user code cancels the coroutine before it begins.
        """
        if slotted:
            self._submitted += 1
        self._post(partial(self._spawn, job, lost, slotted))

    def load(self) -> WorkerLoad:
        """Return how many coroutines were submitted, and how many of them wait for a slot."""
        is_full = self._begun - self._left >= self._attempts_max
        return WorkerLoad(self._submitted, self._submitted - self._begun if is_full else 0)

    def begin(
        self,
        awaitable: Awaitable[object],
        timeout_ms: float | None,
        let_cancel: Callable[[Call], object] | None = None,
    ) -> "Future[object]":
        """Run an awaitable on the loop, for a thread that waits for the future.

        ``let_cancel`` receives a function that cancels the awaitable; the future then resolves once
        it has ended.  Raises RuntimeError if the machine has no thread for the loop.
        """
        loop, tasks = self._running_loop(), list[asyncio.Task[object] | None]()

        async def limited() -> object:
            tasks.append(asyncio.current_task())
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await awaitable

        def cancel() -> None:
            if not tasks and not future.done():
                # The task begins in the loop's next turn.
                loop.call_soon(cancel)
            for task in tasks:
                if task is not None:
                    task.cancel()

        future = self._start_on(loop, limited())
        if let_cancel is not None:
            let_cancel(partial(loop.call_soon_threadsafe, cancel))
        return future

    def _start_on(
        self, loop: asyncio.AbstractEventLoop, work: "Coroutine[Any, Any, object]"
    ) -> "Future[object]":
        outcome, context = Future[object](), copy_context()

        def start() -> None:
            # Without the loop's task factory, which user code may have set.
            task = asyncio.Task(work, loop=loop, context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_tell, outcome))

        self._awaited.add(outcome)
        outcome.add_done_callback(self._awaited.discard)
        loop.call_soon_threadsafe(start, context=Context())
        return outcome

    def call_later(self, delay_ms: float, call: Call) -> Callable[[], None]:
        """Call a function on the loop after a delay; return a function that cancels the call.

        The delay is not rounded up: with up to a millisecond more for each start, a limit with a
        burst of one would never reach its rate.  The call may come a clock tick too early; then its
        receiver waits once more.
        """
        handles: list[asyncio.TimerHandle] = []

        def begin() -> None:
            loop = asyncio.get_running_loop()
            handles.append(loop.call_later(delay_ms / 1000, call, context=Context()))

        def call_off() -> None:
            # A closed loop calls nothing any more.
            with suppress(RuntimeError):
                # On the loop: the timer may not be set yet when this is called.
                self._post(lambda: handles[0].cancel())  # noqa: PLW0108

        self._post(begin)
        return call_off

    def nudge(self) -> None:
        """Start the loop for which the machine had no thread, if a job waits for it."""
        with suppress(_NoThread):
            self._posted.nudge()

    def at_work(self) -> "dict[int, asyncio.Task[object] | None]":
        """Return the task that the loop runs now, by the clock of its thread."""
        loop, clock = self._loop, self._clock
        return {} if loop is None or clock is None else {clock: asyncio.current_task(loop)}

    def ask_turn(self, taken: Call) -> bool:
        """Call a function in the loop's next turn; return False if there is no loop."""
        loop = self._loop
        if loop is None or self._closing:
            return False
        loop.call_soon_threadsafe(taken, context=Context())
        return True

    def at_hand(self) -> "tuple[asyncio.Task[object] | None, FrameType | None]":
        """Return the task that the loop runs now, and the frame of the code that runs."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or thread.ident is None:
            return None, None
        return asyncio.current_task(loop), sys._current_frames().get(thread.ident)  # noqa: SLF001

    def close(self) -> None:
        """Cancel all tasks, and end the loop."""
        self._closing = True
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for task in self._tasks:
            task.cancel()

        def stop() -> None:
            self._ended = True
            loop.stop()

        # In one more round the cancelled tasks report their ends.
        loop.call_soon(loop.call_soon, stop)

    def _post(self, call: Call) -> None:
        """Call a function on the loop, as soon as there is a loop.

        Raises RuntimeError if the loop is closed.
        """
        try:
            self._posted.post(call)
        except _NoThread:
            if not self._is_short:
                log_raised(
                    logger, "the machine has no thread for %s; it is asked again", self._name
                )
            self._is_short = True

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = self._started_loop()
            return self._loop

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        try:
            loop = self._machine.make_loop()
        except (OSError, MemoryError) as error:
            raise _NoThread(str(error)) from error
        try:
            thread = self._machine.start_thread(partial(self._serve, loop), self._name)
        except (RuntimeError, MemoryError) as error:
            # Otherwise all later jobs would be posted to a loop that no thread runs.
            loop.close()
            raise _NoThread(f"the machine has no thread for {self._name}") from error
        self._thread, self._is_short = thread, False
        return loop

    def _wake(self) -> None:
        # A context of its own: the poster may be user code, whose settings concern no other job.
        self._running_loop().call_soon_threadsafe(self._posted.take_all, context=Context())

    def _spawn(self, job: Job, lost: Call, slotted: bool) -> None:  # noqa: FBT001 - bound before
        has_begun = False

        async def in_slot() -> None:
            nonlocal has_begun
            async with self._slots if slotted else nullcontext():
                has_begun = True
                self._begun += slotted
                try:
                    # The attempt has reported its end: see ExecutorCalls.
                    with suppress(GeneratorExit):
                        await job()
                finally:
                    self._left += slotted

        def end(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            if not has_begun and not self._closing:
                self._begun += slotted
                self._left += slotted
                lost()

        # Without the loop's task factory, which user code may have set.
        loop = asyncio.get_running_loop()
        task = asyncio.Task(in_slot(), loop=loop, context=Context())
        self._tasks.add(task)
        task.add_done_callback(end)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop on this thread until it ends, then close everything that it has open."""
        self._clock = own_clock()
        # User code may not close the loop: its attempts would never end.
        loop.close = _refuse_to_close  # type: ignore[method-assign]
        while not self._ended:
            self._run_on(loop)
        # A task factory of user code might refuse the tasks that end the loop.
        loop.set_task_factory(None)
        for step in (loop.shutdown_asyncgens, loop.shutdown_default_executor):
            _run_to_end(loop, asyncio.Task(step(), loop=loop))
        del loop.close
        loop.close()
        for outcome in tuple(self._awaited):
            outcome.cancel()

    def _run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run until the loop is stopped, which user code may do as well.

        asyncio lets SystemExit and KeyboardInterrupt of any task or callback leave the loop; the
        next call runs the other ready callbacks.
        """
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "user code raised out of the event loop, which goes on")


def _refuse_to_close() -> None:
    raise RuntimeError("Hourhand closes its event loop itself; use a loop of your own")


def _run_to_end(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Run a last task of the loop to its end, even if user code stops the loop."""
    for _ in range(_STOPS_MAX):
        if task.done():
            break
        try:
            loop.run_until_complete(task)
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "user code raised out of the event loop, which ends")


def _tell(outcome: "Future[object]", task: "asyncio.Task[object]") -> None:
    """Copy the result of a task to a future, unless that is cancelled."""
    if task.cancelled():
        outcome.cancel()
    error = None if task.cancelled() else task.exception()
    if not outcome.set_running_or_notify_cancel():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())
