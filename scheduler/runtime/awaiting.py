"""Awaits futures of other threads, thousands a second.

asyncio's own way wakes the event loop for each resolved future, by a system call that makes the
resolving thread give up the interpreter. Here all futures that are resolved while the loop is busy
are handed over together, by one wake-up.
"""

import asyncio
from collections import defaultdict, deque
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

Answer = TypeVar("Answer")

_bridges: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge]" = WeakKeyDictionary()


async def settled(future: "Future[Answer]", timeout_s: float | None = None) -> Answer:
    """Return a future's result, or raise its error; a cancelled wait leaves the future alone.

    Raises TimeoutError if it is not resolved in time, which also leaves the future alone. Raises
    RuntimeError if no event loop of asyncio runs.
    """
    if future.done():
        return future.result()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no event loop of asyncio runs here: await this future in one, or call result()"
        ) from None
    bridge = _bridges.get(loop)
    if bridge is None:
        # Only the loop's own thread comes here for this loop.
        bridge = _bridges[loop] = _Bridge(loop)
    resolved = loop.create_future()
    bridge.watch(future, resolved)
    if timeout_s is not None:
        bridge.expire(resolved, timeout_s)
    await resolved
    return future.result()


class _Bridge:
    """Tells one event loop about futures that other threads resolved."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A weak reference: the table of bridges has the loop as its key, and would keep it for
        # ever.
        self._loop = ref(loop)
        self._expiring: defaultdict[float, deque[tuple[float, ref[asyncio.Future[Any]]]]]
        self._expiring = defaultdict(deque)
        """By timeout: futures in the order of their begin, so that one timer serves all. Each is
        kept by its awaiter, and keeps the loop."""
        self._lock = Lock()
        self._resolved: deque[asyncio.Future[Any]] = deque()
        self._woken = False

    def watch(self, future: "Future[Any]", resolved: "asyncio.Future[Any]") -> None:
        """Resolve an awaitable of the loop once ``future`` is."""
        future.add_done_callback(lambda _done: self._tell(resolved))

    def expire(self, resolved: "asyncio.Future[Any]", timeout_s: float) -> None:
        """Fail an awaitable that is not resolved in time."""
        expiring, loop = self._expiring[timeout_s], resolved.get_loop()
        expiring.append((loop.time() + timeout_s, ref(resolved)))
        if len(expiring) == 1:
            loop.call_later(timeout_s, self._expire, loop, timeout_s)

    def _expire(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        expiring, now_s = self._expiring[timeout_s], loop.time()
        while expiring and (not _is_awaited(expiring[0][1]()) or expiring[0][0] <= now_s):
            resolved = expiring.popleft()[1]()
            if resolved is not None and not resolved.done():
                resolved.set_exception(TimeoutError())
        if expiring:
            loop.call_at(expiring[0][0], self._expire, loop, timeout_s)

    def _tell(self, resolved: "asyncio.Future[Any]") -> None:
        with self._lock:
            self._resolved.append(resolved)
            if self._woken:
                return
            self._woken = True
        loop = self._loop()
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            # The loop was closed; there is no awaiter left.
            return

    def _settle(self) -> None:
        with self._lock:
            resolved, self._resolved = self._resolved, deque()
            self._woken = False
        for each in resolved:
            if not each.done():
                each.set_result(None)


def _is_awaited(resolved: "asyncio.Future[Any] | None") -> bool:
    return resolved is not None and not resolved.done()
