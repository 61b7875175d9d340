"""A machine whose threads take turns: real threads and real event loops, under a virtual clock.

One thread runs at a time, until it waits or the seed has it step aside; the seed also says which
one is next.  So a run with the workers of every node can be replayed.  It decides nothing else.
"""

import asyncio
import heapq
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from contextvars import Context
from itertools import count
from typing import TypeVar, TypeVarTuple, Unpack

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.node.workers.machine import Item, Machine, Result, WaitingQueue
from tests.simulation.user_code import ProcessKilled

STANDSTILL_S = 120.0
"""A thread that keeps its turn for so long waits for one that has none, in real time."""
_UNWOUND_MAX = 100
"""Turns that a thread gets to end in, once its process is gone."""
Arguments = TypeVarTuple("Arguments")
Given = TypeVar("Given")


class ProcessGone(BaseException):
    """Raised in each thread of a process that has ended, wherever it waits."""


class _Thread:
    """One thread, and whether it has its turn."""

    def __init__(self, run: Callable[[], object], name: str, ended: Callable[[], None]) -> None:
        self._run, self._ended = run, ended
        self.turn = threading.Semaphore(0)
        self.is_waiting = False
        """True if nothing is left for it to do until somebody wakes it."""
        self.is_asleep = False
        """True if it waits in user code."""
        self.has_ended = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._main, name=name, daemon=True)

    def go_on(self) -> None:
        """Let it run until it gives its turn back."""
        if self.thread.ident is None:
            self.thread.start()
        else:
            self.turn.release()

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - told by whoever gave it its turn
            self.failure = error
        self.has_ended = True
        self._ended()


class VirtualMachine(Machine):
    """The machine of one simulated process."""

    def __init__(self, clock: Clock, rng: random.Random, woken: Callable[[], None]) -> None:
        """``woken`` is called when a thread may go on."""
        self._clock, self._rng, self._woken = clock, rng, woken
        self._ready: list[_Thread] = []
        self._timed: list[tuple[float, int, _Thread]] = []
        self._sequence = count()
        self._threads: list[_Thread] = []
        self._loops: list[VirtualLoop] = []
        self._current: _Thread | None = None
        self._given_back = threading.Semaphore(0)
        self._is_killed = False
        self.is_gone = False

    # Turns, for the simulation.

    def is_ready(self) -> bool:
        """True if a thread may go on now."""
        return bool(self._ready)

    def next_ms(self) -> float | None:
        """Return the monotonic time at which a thread may go on."""
        if self._ready:
            return self._clock.monotonic_ms()
        return self._timed[0][0] if self._timed else None

    def run_one(self) -> bool:
        """Give a thread its turn; False where none has anything to do.

        Raises ProcessKilled where user code takes the process down.
        """
        while self._timed and self._timed[0][0] <= self._clock.monotonic_ms():
            self._wake(heapq.heappop(self._timed)[2])
        if not self._ready:
            return False
        self._give_turn(self._ready.pop(self._rng.randrange(len(self._ready))))
        if self._is_killed:
            raise ProcessKilled
        return True

    def _give_turn(self, thread: _Thread) -> None:
        self._current = thread
        thread.go_on()
        given_back = self._given_back.acquire(timeout=STANDSTILL_S)
        assert given_back, f"{thread.thread.name} waits for a lock that another thread keeps"
        self._current = None
        if thread.has_ended:
            thread.thread.join()
            self._threads.remove(thread)
            died_of = None if self.is_gone else thread.failure
            assert died_of is None, f"{thread.thread.name} died of {died_of!r}"

    def lasting(self) -> list[str]:
        """Return the names of the threads that go on, except for those that user code keeps."""
        return [each.thread.name for each in self._threads if not each.is_asleep]

    def end(self) -> None:
        """The process is gone: end each of its threads where it waits."""
        self.is_gone = True
        for _ in range(_UNWOUND_MAX):
            for thread in tuple(self._threads):
                if thread.thread.ident is None:
                    self._threads.remove(thread)
                else:
                    self._give_turn(thread)
        assert not self._threads, f"{self.lasting()} caught the end of their process"
        for loop in self._loops:
            loop.abandon()

    # Turns, for the threads.

    def kill(self) -> None:
        """Take the process down; on a thread of it."""
        self._is_killed = True
        self._wait()

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass in this thread."""
        thread, until_ms = self._current, self._clock.monotonic_ms() + 1000 * seconds
        assert thread is not None, "only a thread of this machine sleeps"
        thread.is_asleep = True
        while self._clock.monotonic_ms() < until_ms:
            self._wait(until_ms)
        thread.is_asleep = False

    def step_aside(self) -> None:
        """Let others run first, where the seed wants it; at a place where no lock is held."""
        thread = self._current
        if thread is not None and not self.is_gone and self._rng.random() < 0.3:
            self._ready.append(thread)
            self._give_back(thread)

    def _wait(self, until_ms: float | None = None) -> None:
        """Wait until this thread is woken, for whatever reason, or a time."""
        thread = self._current
        assert thread is not None, "only a thread of this machine waits"
        if self.is_gone:
            raise ProcessGone
        if until_ms is not None:
            heapq.heappush(self._timed, (until_ms, next(self._sequence), thread))
        thread.is_waiting = True
        self._give_back(thread)

    def _give_back(self, thread: _Thread) -> None:
        self._given_back.release()
        thread.turn.acquire()
        if self.is_gone:
            raise ProcessGone

    def _wake(self, thread: _Thread | None) -> None:
        if thread is not None and thread.is_waiting:
            thread.is_waiting = False
            self._ready.append(thread)
            self._woken()

    # Used by workers.

    def start_thread(self, run: Callable[[], object], name: str) -> threading.Thread:
        """Run something on a thread of its own, when it has its turn."""
        thread = _Thread(run, name, self._given_back.release)
        self._threads.append(thread)
        self._ready.append(thread)
        self._woken()
        return thread.thread

    def make_queue(self, of: type[Item]) -> WaitingQueue[Item | None]:
        """Return an empty queue."""
        return _VirtualQueue[Item | None](self)

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop."""
        loop = VirtualLoop(self)
        self._loops.append(loop)
        return loop

    def result_of(self, future: "Future[Result]", timeout_s: float | None = None) -> Result:
        """Wait in this thread for what a future comes to."""
        until_ms = None if timeout_s is None else self._clock.monotonic_ms() + 1000 * timeout_s
        self.wait_for(
            lambda wake: future.add_done_callback(lambda _: wake()), future.done, until_ms
        )
        if not future.done():
            raise FutureTimeoutError
        return future.result(timeout=0)

    def wait_for(
        self,
        register: Callable[[Callable[[], None]], object],
        is_done: Callable[[], bool],
        until_ms: float | None = None,
    ) -> None:
        """Wait until something holds, or a time; ``register`` is told what is called then."""
        thread, is_registered = self._current, False
        while not is_done() and (until_ms is None or self._clock.monotonic_ms() < until_ms):
            if not is_registered:
                is_registered = True
                register(lambda: self._wake(thread))
            self._wait(until_ms)

    def wait_among(self, takers: list[_Thread], is_done: Callable[[], bool]) -> None:
        """Wait until something holds, as one of several threads of which one is woken."""
        thread = self._current
        assert thread is not None, "only a thread of this machine waits"
        takers.append(thread)
        try:
            while not is_done():
                self._wait()
        finally:
            takers.remove(thread)

    def wake_first(self, takers: list[_Thread]) -> None:
        """Wake the thread that waits longest among these."""
        self._wake(next((each for each in takers if each.is_waiting), None))

    def monotonic_ms(self) -> float:
        """Return the virtual time passed."""
        return self._clock.monotonic_ms()


class _VirtualQueue(WaitingQueue[Given]):
    """A queue whose takers wait for their turn."""

    def __init__(self, machine: VirtualMachine) -> None:
        self._machine = machine
        self._items = deque[Given]()
        self._takers: list[_Thread] = []

    def put(self, item: Given) -> None:
        """Add an item, and wake who waits longest."""
        self._machine.step_aside()
        self._items.append(item)
        self._machine.wake_first(self._takers)

    def get(self) -> Given:
        """Take the first item."""
        self._machine.step_aside()
        if not self._items:
            self._machine.wait_among(self._takers, lambda: bool(self._items))
        return self._items.popleft()

    def qsize(self) -> int:
        """Return how many items wait."""
        return len(self._items)

    def empty(self) -> bool:
        """True if no item waits."""
        return not self._items


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop, with neither sockets nor a clock that moves by itself."""

    def __init__(self, machine: VirtualMachine) -> None:
        super().__init__()
        self._machine = machine
        self._selector = self
        """The selector at which the base class waits."""
        self._is_called = False
        self._wake: Callable[[], None] = lambda: None

    def time(self) -> float:
        """Return virtual seconds."""
        return self._machine.monotonic_ms() / 1000

    def select(self, timeout: float | None) -> Iterable[object]:
        """Wait until another thread calls, or a time."""
        machine = self._machine
        if timeout is not None and timeout <= 0:
            # A loop that is busy runs on, but others have their turns.
            machine.step_aside()
        else:
            until_ms = None if timeout is None else machine.monotonic_ms() + 1000 * timeout
            machine.wait_for(self._register, lambda: self._is_called, until_ms)
        self._is_called = False
        return ()

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call something in the next round, from any thread."""
        self._machine.step_aside()
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self._machine.step_aside()
        return handle

    async def shutdown_default_executor(self, *_limits: object) -> None:
        """Shut down what user code has set; its threads are over."""
        executor = self._default_executor  # type: ignore[attr-defined]
        if executor is not None:
            executor.shutdown(wait=True)

    def abandon(self) -> None:
        """The process is gone: nothing that was awaited goes on."""
        self.set_exception_handler(lambda _loop, _context: None)
        for task in sorted(asyncio.all_tasks(self), key=lambda each: each.get_name()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work = task.get_coro()
            with suppress(BaseException):
                if work is not None:
                    work.close()
        self._scheduled: list[object] = []
        self._ready.clear()  # type: ignore[attr-defined]
        if not self.is_closed():
            super().close()

    def _register(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def _write_to_self(self) -> None:
        self._is_called = True
        self._wake()

    def _process_events(self, event_list: Iterable[object]) -> None:
        """Do nothing: there are no sockets."""
