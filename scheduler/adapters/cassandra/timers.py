"""The driver's timers, made to let go of what they were to call once they are cancelled.

The driver sets one for each request, to hear of an answer that does not come.  A cancelled one
stays on its heap until its time, seconds later, and with it the request, its rows and whoever
waited for them.  Request and timer hold each other as well, so only Python's cyclic collector
could free them, and the process stands still while that looks for them.  Decides nothing about
time.
"""

from collections.abc import Callable
from typing import Any

from cassandra.cluster import DefaultConnection


class Alarm:
    """Calls a function once, unless it is cancelled before; stands for a timer of the driver."""

    __slots__ = ("_call", "timer")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call
        self.timer: Any = None
        """The driver's, which rings this."""

    def ring(self) -> None:
        """Call the function; on the driver's event loop."""
        call = self._call
        self._call = self.timer = None
        if call is not None:
            call()

    def cancel(self) -> None:
        """Call nothing, and hold nothing any longer; the driver does this on any thread."""
        timer = self.timer
        self._call = self.timer = None
        if timer is not None:
            timer.cancel()


class ForgettingConnection(DefaultConnection):  # type: ignore[misc]
    """The driver's connection; its timers forget what they were for when they are cancelled."""

    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> Alarm:
        """Call ``callback`` after so many seconds; the driver asks for this, on any thread."""
        alarm = Alarm(callback)
        alarm.timer = super().create_timer(timeout, alarm.ring)
        return alarm
