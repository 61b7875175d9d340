"""The event loop of a node's async attempts, on a thread of its own.

Decides how many run at once, and goes on whatever user code does to the loop.  Never decides
what an attempt's end means.
"""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from actors.model.display import log_raised
from scheduler.node.worker_watch import WorkerLoad

logger = logging.getLogger("hourhand.runner")

Job = Callable[[], Awaitable[None]]


class PostedJobs:
    """What threads post for the one that takes it, with a wake-up for all that it finds at once.

    A wake-up of an event loop is a write to a pipe, which costs more than the rest of a post.
    """

    def __init__(self, wake: Callable[[], object], take: Callable[[Job], None]) -> None:
        self._wake = wake
        self._take = take
        self._jobs = deque[Job]()
        self._is_woken = False
        """Whether a wake-up is under way that will find what is posted now."""

    def post(self, job: Job) -> None:
        """Have the job taken, by any thread."""
        # The job comes before the flag here, and after it in take_all: a thread that finds the
        # flag set has appended before it is cleared.
        self._jobs.append(job)
        if not self._is_woken:
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


class LoopThread:
    """One event loop, begun when it is first needed."""

    def __init__(self, attempts_max: int) -> None:
        self._attempts_max = attempts_max
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False
        self._submitted = self._begun = 0
        self._posted = PostedJobs(self._wake, self._spawn)

    def submit(self, job: Job) -> None:
        """Run a coroutine when one of the slots is free."""
        self._submitted += 1
        self._posted.post(job)

    def load(self) -> WorkerLoad:
        """Return how many coroutines were submitted, and how many of them wait for a slot."""
        return WorkerLoad(self._submitted, self._submitted - self._begun)

    def begin(self, awaitable: Awaitable[object], timeout_ms: int | None) -> "Future[object]":
        """Run an awaitable on the loop, for a thread that waits for the future."""

        async def limited() -> object:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await awaitable

        return asyncio.run_coroutine_threadsafe(limited(), self._running_loop())

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call something on the loop after a delay; return what calls that off.

        The delay is not rounded up: with a whole millisecond more for each start, a limit with a
        burst of one never reaches its rate.  Who is called by the width of a clock tick too early
        looks again.
        """
        loop = self._running_loop()
        handles: list[asyncio.TimerHandle] = []

        def begin() -> None:
            handles.append(loop.call_later(delay_ms / 1000, call))

        def cancel() -> None:
            # Looked up on the loop: the timer may not be set yet when this is called.
            loop.call_soon_threadsafe(lambda: handles[0].cancel())  # noqa: PLW0108

        loop.call_soon_threadsafe(begin)
        return cancel

    def close(self) -> None:
        """Cancel what runs, and end the loop."""
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

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                self._slots = asyncio.Semaphore(self._attempts_max)
                threading.Thread(
                    target=self._serve, args=(loop,), name="hourhand-async", daemon=True
                ).start()
            return self._loop

    def _wake(self) -> None:
        self._running_loop().call_soon_threadsafe(self._posted.take_all)

    def _spawn(self, job: Job) -> None:
        async def in_slot() -> None:
            async with self._slots:
                self._begun += 1
                # The attempt has told its end: see WorkerRunner.
                with contextlib.suppress(GeneratorExit):
                    await job()

        task = asyncio.get_running_loop().create_task(in_slot())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop on this thread until it is closed, and leave nothing of it open."""
        try:
            while not self._ended:
                self._run_on(loop)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run until somebody stops the loop, which user code may do as well.

        asyncio lets SystemExit and KeyboardInterrupt of any task or callback out of the loop; what
        else is ready there is run by the next call.
        """
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "user code raised out of the event loop, which goes on")
