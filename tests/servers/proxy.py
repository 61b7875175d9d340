"""A proxy before a broker that holds back single requests: a network that delivers late.

It rewrites the broker's port in what the broker says of itself, so that clients come through it.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

PRODUCE = 0
END_TXN = 26
_HOST = "127.0.0.1"
_WAIT_S = 60.0
_HEAD_BYTES = 140


class Request:
    """A request on its way to the broker."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        head: tuple[int, int, int] = struct.unpack_from(">hhi", frame, 4)
        self.api, self.version, self.correlation = head

    def concerns(self, topic: str) -> bool:
        """True if it names a topic, before the records that a request to produce ends in."""
        return topic.encode() in self.frame[:_HEAD_BYTES]


class Late:
    """A request that was held back, its connection to the client lost meanwhile."""

    def __init__(self, request: Request, broker: socket.socket) -> None:
        self.request = request
        self._broker = broker
        self.answer: bytes | None = None

    def arrive(self) -> bytes:
        """Let the broker have it after all, and return its answer's body."""
        self._broker.sendall(self.request.frame)
        frame = _frame(self._broker)
        while (
            frame is not None and struct.unpack_from(">i", frame, 4)[0] != self.request.correlation
        ):
            frame = _frame(self._broker)
        assert frame is not None, "the broker closed the connection"
        self.answer = frame[8:]
        return self.answer


class HoldingProxy:
    """Listens on a port of its own; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._broker_port = int(bootstrap_servers.rpartition(":")[2])
        self._listener = socket.create_server((_HOST, 0))
        self._port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._holds: Callable[[Request], bool] = lambda _request: False
        self._before: Callable[[Request], None] = lambda _request: None
        self._loses: Callable[[Request], bool] = lambda _request: False
        self._lock = threading.Lock()
        self.held = threading.Event()
        self.late: list[Late] = []

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to."""
        return f"{_HOST}:{self._port}"

    def hold_next(self, holds: Callable[[Request], bool]) -> None:
        """Hold back the next request for which this is true, and drop its connection."""
        self.held.clear()
        self._holds = holds

    def lose(self, loses: Callable[[Request], bool]) -> None:
        """Let no request arrive for which this is true; its connection stays."""
        self._loses = loses

    def before_each(self, act: Callable[[Request], None]) -> None:
        """Do this before each request is passed on."""
        self._before = act

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            _close(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((_HOST, self._broker_port))
                self._sockets += client, broker
                for work in (self._requests, self._answers):
                    threading.Thread(target=work, args=(client, broker), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(client)) is not None:
                request = Request(frame)
                with self._lock:
                    if self._holds(request):
                        self._holds = lambda _request: False
                        self.late.append(self._withhold(request, client))
                        return
                self._before(request)
                if not self._loses(request):
                    broker.sendall(frame)
        _close(broker)

    def _withhold(self, request: Request, client: socket.socket) -> Late:
        _close(client)
        kept = socket.create_connection((_HOST, self._broker_port), _WAIT_S)
        self._sockets.append(kept)
        self.held.set()
        return Late(request, kept)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        named = _HOST.encode()
        old, new = (named + struct.pack(">i", port) for port in (self._broker_port, self._port))
        with contextlib.suppress(OSError):
            while (frame := _frame(broker)) is not None:
                client.sendall(frame.replace(old, new))
        _close(client)


def _frame(source: socket.socket) -> bytes | None:
    """Return a whole frame, its length included; None at the end."""
    head = _exactly(source, 4)
    if head is None:
        return None
    body = _exactly(source, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _exactly(source: socket.socket, count: int) -> bytes | None:
    read = b""
    while len(read) < count:
        piece = source.recv(count - len(read))
        if not piece:
            return None
        read += piece
    return read


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
