"""The pauses of a waiting thread or coroutine between two looks.

It is passed in, because a test's time passes in another way.
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
        """Pause this coroutine; the event loop goes on meanwhile."""
        # Imported here: a program that never awaits need not load asyncio.
        import asyncio

        await asyncio.sleep(pause_s)

    def wake(self) -> None:
        """Wake all sleeping threads for good: there is nothing left to wait for."""
        self._woken.set()
