"""A pause of which nothing tells the end: a broker that chooses a leader, a driver that begins.

The one place where a thread lets time pass.  Whoever can be told waits for what tells it; whoever
can be stopped waits for that.
"""

import threading

_NEVER = threading.Event()


def pause(seconds: float) -> None:
    """Let so long pass."""
    _NEVER.wait(seconds)
