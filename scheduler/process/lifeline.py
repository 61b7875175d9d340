"""What ties a child process to its parent: a socket of which each holds one end.

Its end tells the child to stop, whether the parent asked for that or was killed itself: the
operating system closes what a process leaves behind.  In the other direction the child says once
that it works, and where its metrics are served.  Decides nothing about starting or stopping.
"""

import os
import socket
import threading
from collections.abc import Callable

NO_PORT = "-"
"""Said in place of a port where none is served."""


class Lifeline:
    """The child's end, from the number of a descriptor that it was started with."""

    def __init__(self, descriptor: int) -> None:
        # What user code starts must not look as if this process still lived.
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its parameter has no name
        self._socket = socket.socket(fileno=descriptor)

    def tell_up(self, port: int | None) -> None:
        """Say that this process works, and on which port it is asked, if on any."""
        try:
            self._socket.sendall(f"{NO_PORT if port is None else port}\n".encode())
        except OSError:
            # The parent is gone, which the watching thread sees as well.
            return

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call a function once the parent has ended the line or itself, on a thread."""
        threading.Thread(
            target=self._wait, args=(on_end,), name="hourhand-lifeline", daemon=True
        ).start()

    def _wait(self, on_end: Callable[[], None]) -> None:
        try:
            while self._socket.recv(1):
                pass
        except OSError:
            pass
        on_end()
