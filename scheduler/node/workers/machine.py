"""The parts of the machine that a node's workers use: threads, queues to wait at, event loops.

Decides nothing.  Workers wait only through these, so that the simulation, whose machine lets one
thread run at a time, sees each moment at which another thread may run.
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
        """Run a function on a thread of its own.

        Raises RuntimeError or MemoryError if the machine has no thread.
        """
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def make_queue(self, of: type[Item]) -> WaitingQueue[Item | None]:
        """Return an empty queue; a thread that takes None from it ends."""
        del of
        return queue.SimpleQueue()

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop; raises OSError or MemoryError if the machine has none."""
        return asyncio.new_event_loop()

    def result_of(self, future: "Future[Result]", timeout_s: float | None = None) -> Result:
        """Wait in this thread for the result of a future; raises as ``Future.result`` does."""
        return future.result(timeout_s)


MACHINE = Machine()
