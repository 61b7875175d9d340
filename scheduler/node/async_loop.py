"""The event loop of a node's async attempts, on a thread of its own.

Decides how many run at once, and goes on whatever user code does to the loop.  Never decides
what an attempt's end means.
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

from actors.model.display import log_raised
from scheduler.node.machine import MACHINE, Machine
from scheduler.node.worker_threads import own_clock
from scheduler.node.worker_watch import WorkerLoad

logger = logging.getLogger("hourhand.runner")

Job = Callable[[], Awaitable[None]]
Call = Callable[[], object]

_STOPS_MAX = 1_000
"""So often user code may stop or leave a loop that ends, before it is closed as it is."""


class PostedJobs:
    """What threads post for the one that takes it, with a wake-up for all that it finds at once.

    A wake-up of an event loop is a write to a pipe, which costs more than the rest of a post.
    """

    def __init__(self, wake: Call, take: Callable[[Call], object]) -> None:
        self._wake = wake
        self._take = take
        self._jobs = deque[Call]()
        self._is_woken = False
        """Whether a wake-up is under way that will find what is posted now."""

    def post(self, job: Call) -> None:
        """Have the job taken, by any thread; raises what a wake-up does, and keeps the job."""
        # The job comes before the flag here, and after it in take_all: a thread that finds the
        # flag set has appended before it is cleared.
        self._jobs.append(job)
        if not self._is_woken:
            self._wake_once()

    def nudge(self) -> None:
        """Wake once more where a wake-up has failed."""
        if self._jobs and not self._is_woken:
            self._wake_once()

    def take_all(self) -> None:
        """Take what is posted, on the thread that was woken."""
        self._is_woken = False
        try:
            # No more than there are now: what is posted meanwhile has a wake-up of its own.
            for _ in range(len(self._jobs)):
                self._take(self._jobs.popleft())
        except BaseException:
            # The jobs behind it have no other wake-up.
            if self._jobs:
                self._wake_once()
            raise

    def _wake_once(self) -> None:
        # First: set behind the wake-up, it could stay set with none under way.
        self._is_woken = True
        try:
            self._wake()
        except BaseException:
            self._is_woken = False
            raise


class _NoThread(RuntimeError):
    """The machine has no thread for a loop just now."""


class LoopThread:
    """One event loop, begun when it is first needed, or as soon as the machine has a thread."""

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
        """What threads wait for."""
        self._closing = self._ended = self._is_short = False
        self._submitted = self._begun = self._left = 0
        self._posted = PostedJobs(self._wake, lambda call: call())

    def submit(self, job: Job, lost: Call, *, slotted: bool = True) -> None:
        """Run a coroutine when one of the slots is free, or at once where it needs none.

        ``lost`` is called on the loop in its place where user code cancels what has not begun.
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

        ``let_cancel`` is told what cancels it; the future is resolved when it has ended of that.
        Raises RuntimeError where the machine has no thread for the loop.
        """
        loop, tasks = self._running_loop(), list[asyncio.Task[object] | None]()

        async def limited() -> object:
            tasks.append(asyncio.current_task())
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await awaitable

        def cancel() -> None:
            if not tasks and not future.done():
                # Its first step is in the loop's next turn.
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
            # Not by the loop's task factory, which user code may have set.
            task = asyncio.Task(work, loop=loop, context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_tell, outcome))

        self._awaited.add(outcome)
        outcome.add_done_callback(self._awaited.discard)
        loop.call_soon_threadsafe(start, context=Context())
        return outcome

    def call_later(self, delay_ms: float, call: Call) -> Callable[[], None]:
        """Call something on the loop after a delay; return what calls that off.

        The delay is not rounded up: with a whole millisecond more for each start, a limit with a
        burst of one never reaches its rate.  Who is called by the width of a clock tick too early
        looks again.
        """
        handles: list[asyncio.TimerHandle] = []

        def begin() -> None:
            loop = asyncio.get_running_loop()
            handles.append(loop.call_later(delay_ms / 1000, call, context=Context()))

        def call_off() -> None:
            # A loop that is closed calls nothing any more.
            with suppress(RuntimeError):
                # Looked up on the loop: the timer may not be set yet when this is called.
                self._post(lambda: handles[0].cancel())  # noqa: PLW0108

        self._post(begin)
        return call_off

    def nudge(self) -> None:
        """Begin the loop that the machine had no thread for, if anything waits for it."""
        with suppress(_NoThread):
            self._posted.nudge()

    def at_work(self) -> "dict[int, asyncio.Task[object] | None]":
        """Return which task the loop runs at this moment, by the clock of its thread."""
        loop, clock = self._loop, self._clock
        return {} if loop is None or clock is None else {clock: asyncio.current_task(loop)}

    def ask_turn(self, taken: Call) -> bool:
        """Have something called in the loop's next turn; False where there is no loop."""
        loop = self._loop
        if loop is None or self._closing:
            return False
        loop.call_soon_threadsafe(taken, context=Context())
        return True

    def at_hand(self) -> "tuple[asyncio.Task[object] | None, FrameType | None]":
        """Return which task the loop runs at this moment, and the code that it is in."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or thread.ident is None:
            return None, None
        return asyncio.current_task(loop), sys._current_frames().get(thread.ident)  # noqa: SLF001

    def close(self) -> None:
        """Cancel what runs, and end the loop."""
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

        # One more round lets the cancelled tasks report their ends.
        loop.call_soon(loop.call_soon, stop)

    def _post(self, call: Call) -> None:
        """Have something called on the loop, as soon as there is one.

        Raises RuntimeError where it is closed.
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
            # Left behind, everything from now on would be posted to a loop that nobody runs.
            loop.close()
            raise _NoThread(f"the machine has no thread for {self._name}") from error
        self._thread, self._is_short = thread, False
        return loop

    def _wake(self) -> None:
        # A context of its own: who posts may be user code, and what it has set is nobody else's.
        self._running_loop().call_soon_threadsafe(self._posted.take_all, context=Context())

    def _spawn(self, job: Job, lost: Call, slotted: bool) -> None:  # noqa: FBT001 - bound before
        has_begun = False

        async def in_slot() -> None:
            nonlocal has_begun
            async with self._slots if slotted else nullcontext():
                has_begun = True
                self._begun += slotted
                try:
                    # The attempt has told its end: see NodeWorkers.
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

        # Not by the loop's task factory, which user code may have set.
        loop = asyncio.get_running_loop()
        task = asyncio.Task(in_slot(), loop=loop, context=Context())
        self._tasks.add(task)
        task.add_done_callback(end)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop on this thread until it is closed, and leave nothing of it open."""
        self._clock = own_clock()
        # Closed by user code, it would leave all of its attempts without an end.
        loop.close = _refuse_to_close  # type: ignore[method-assign]
        while not self._ended:
            self._run_on(loop)
        # What user code has set may refuse the tasks that end the loop.
        loop.set_task_factory(None)
        for step in (loop.shutdown_asyncgens, loop.shutdown_default_executor):
            _run_to_end(loop, asyncio.Task(step(), loop=loop))
        del loop.close
        loop.close()
        for outcome in tuple(self._awaited):
            outcome.cancel()

    def _run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run until somebody stops the loop, which user code may do as well.

        asyncio lets SystemExit and KeyboardInterrupt of any task or callback out of the loop; what
        else is ready there is run by the next call.
        """
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "user code raised out of the event loop, which goes on")


def _refuse_to_close() -> None:
    raise RuntimeError("Hourhand closes its event loop itself; use a loop of your own")


def _run_to_end(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Run a last task of the loop, whatever user code has left there to stop or leave it."""
    for _ in range(_STOPS_MAX):
        if task.done():
            break
        try:
            loop.run_until_complete(task)
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "user code raised out of the event loop, which ends")


def _tell(outcome: "Future[object]", task: "asyncio.Task[object]") -> None:
    """Give a future what a task came to, unless nobody waits for it any more."""
    if task.cancelled():
        outcome.cancel()
    error = None if task.cancelled() else task.exception()
    if not outcome.set_running_or_notify_cancel():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())
