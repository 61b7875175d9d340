"""How a waiting thread or coroutine lets time pass between two looks.

Decides nothing; a test's time passes in another way, so it is handed in.
"""

import threading


class Sleeper:
    """Lets the machine's time pass for the waits of one client."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def sleep(self, pause_s: float) -> None:
        """Block this thread, or return at once after ``wake``."""
        if pause_s:
            self._woken.wait(pause_s)

    async def sleep_async(self, pause_s: float) -> None:
        """Let the event loop go on meanwhile."""
        # A program that never awaits need not load asyncio.
        import asyncio

        await asyncio.sleep(pause_s)

    def wake(self) -> None:
        """Let every thread go on that sleeps, for good: there is nothing to wait for any more."""
        self._woken.set()
