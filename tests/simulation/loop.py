"""An event loop in virtual time: what Hourhand's own executors and the timer service await.

It runs one callback at a time, when it is told to, so a process can die between any two of
them.  It decides nothing; what is due when is the virtual clock's matter.
"""

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

from hourhand.actors.ports.clock import Clock

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_name: ContextVar[str] = ContextVar("name")


class SimulatedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as coroutines need that wait for futures and for time."""

    def __init__(self, clock: Clock, woken: Callable[[], None] = lambda: None) -> None:
        """``woken`` is called when there is something new to do."""
        self._clock = clock
        self._woken = woken
        self._futures: WeakSet[asyncio.Future[Any]] = WeakSet()
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._sequence = count()
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def begin(self, work: "Coroutine[Any, Any, Any]", name: str) -> "asyncio.Task[Any]":
        """Start a coroutine; ``current_name`` is its name wherever it is called from it."""
        context = copy_context()
        context.run(_name.set, name)
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, context=context)
        self._tasks[task] = None
        # Forgotten after its other callbacks: the process may die in between.
        task.add_done_callback(lambda done: self.call_soon(self._tasks.pop, done, None))
        return task

    def run_one(self) -> bool:
        """Run one callback that is due; return False where there is none."""
        while self._timers and self._timers[0][0] <= self._clock.monotonic_ms():
            self._ready.append(heapq.heappop(self._timers)[2])
        while self._ready:
            handle = self._ready.popleft()
            if handle.cancelled():
                continue
            asyncio._set_running_loop(self)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(None)
            return True
        return False

    def next_ms(self) -> float | None:
        """Return the monotonic time at which there is something to do."""
        if self._ready:
            return self._clock.monotonic_ms()
        return self._timers[0][0] if self._timers else None

    def abandon(self) -> None:
        """The process is gone: nothing that was awaited goes on."""
        tasks, self._tasks = list(self._tasks), {}
        self._ready.clear()
        self._timers.clear()
        for task in tasks:
            if task.done() and not task.cancelled():
                # It failed a moment before its process died: nobody is left to be told.
                task.exception()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work = task.get_coro()
            assert work is not None, "a task was made of a coroutine"
            work.close()
        for future in self._futures:
            if future.done() and not future.cancelled():
                # As for a task: what awaited it will not be woken.
                future.exception()

    # Called by asyncio.

    def time(self) -> float:
        """Return virtual seconds."""
        return self._clock.monotonic_ms() / 1000

    def get_debug(self) -> bool:
        """Say that nobody debugs."""
        return False

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        future: asyncio.Future[Any] = asyncio.Future(loop=self)
        self._futures.add(future)
        return future

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback after those that are due already."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._woken()
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Do the same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_ms = when * 1000
        while due_ms / 1000 < when:
            # Called too early by a rounding, whoever waits for ``when`` would ask again for ever.
            due_ms = math.nextafter(due_ms, math.inf)
        heapq.heappush(self._timers, (due_ms, next(self._sequence), handle))
        self._woken()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave it in its place; it is passed over when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Let no error of a callback pass in silence: it would be one of the simulation."""
        raise AssertionError(f"a callback failed: {context}")


def named(name: str, call: Callable[[], Result]) -> Result:
    """Call something that finds this name to be the current one."""
    context = copy_context()
    context.run(_name.set, name)
    return context.run(call)


def current_name() -> str:
    """Return the name of what is being run."""
    return _name.get()
