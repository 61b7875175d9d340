"""The machine as the workers of a node use it: threads, queues to wait at, event loops.

Decides nothing.  Workers wait for nothing but by these, so that the simulation, which has a machine
whose threads take turns, sees each moment at which another thread may go on.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class WaitingQueue(Protocol[Item]):
    """A queue at which threads wait for items."""

    def put(self, item: Item) -> None:
        """Add an item; never waits."""

    def get(self) -> Item:
        """Take the first item, as soon as there is one."""

    def qsize(self) -> int:
        """Return how many items wait."""

    def empty(self) -> bool:
        """Return True if no item waits."""


class Machine:
    """The machine that this process runs on."""

    def start_thread(self, run: Callable[[], object], name: str) -> threading.Thread:
        """Run something on a thread of its own.

        Raises RuntimeError or MemoryError where the machine has none.
        """
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def make_queue(self, of: type[Item]) -> WaitingQueue[Item | None]:
        """Return an empty queue; None ends whoever takes it."""
        del of
        return queue.SimpleQueue()

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop; raises OSError or MemoryError where the machine has none."""
        return asyncio.new_event_loop()

    def result_of(self, future: "Future[Result]", timeout_s: float | None = None) -> Result:
        """Wait in this thread for what a future comes to; raises as ``Future.result`` does."""
        return future.result(timeout_s)


MACHINE = Machine()
