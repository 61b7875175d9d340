"""A pause for conditions without a notification: a broker that chooses a leader, a driver that
begins.

The one place where a thread lets time pass. Code that can be notified or stopped waits for that
instead.
"""

import threading

_NEVER = threading.Event()


def pause(seconds: float) -> None:
    """Sleep for a number of seconds."""
    _NEVER.wait(seconds)
