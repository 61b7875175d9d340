"""A gate before a server: while it is shut nothing passes, and connections stay.

To a client that is a server which stands still, or a network that lost its way.  Others use the
server meanwhile, so tests shut a gate of their own where they would have to pause a server that
all share.  Never decides what passes, nor looks at it.
"""

import contextlib
import socket
import threading
from typing import Self

_HOST = "127.0.0.1"
_PIECE_BYTES = 65_536


class Gate:
    """Listens on a port of its own, and is open at first; a context manager."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        """Where clients connect, on loopback."""
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []

    def shut(self) -> None:
        """Let nothing pass that is sent from now on, in either direction."""
        self._open.clear()

    def open(self) -> None:
        """Let pass what is sent, and what was sent meanwhile."""
        self._open.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        for each in (self._listener, *self._sockets):
            _close(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((_HOST, self._server_port))
                self._sockets += client, server
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                self._open.wait()
                target.sendall(piece)
        _close(target)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
