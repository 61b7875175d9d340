"""A gate before a server: what is sent while it is shut arrives when it opens, and not before."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.servers.gate import Gate

WAIT_S = 60.0


@contextmanager
def echo() -> Iterator[int]:
    """Serve one connection that sends back what it gets; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as client:
                while piece := client.recv(100):
                    client.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_nothing_passes_a_shut_gate_and_nothing_is_lost() -> None:
    """The connection stays meanwhile."""
    with (
        echo() as port,
        Gate(port) as gate,
        socket.create_connection(("127.0.0.1", gate.port), WAIT_S) as client,
    ):
        client.sendall(b"before")
        assert client.recv(100) == b"before"

        gate.shut()
        client.sendall(b"meanwhile")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        gate.open()
        client.settimeout(WAIT_S)

        assert client.recv(100) == b"meanwhile"


def test_a_connection_ends_where_the_server_ends_it() -> None:
    """And where the gate goes."""
    with echo() as port:
        with Gate(port) as gate:
            client = socket.create_connection(("127.0.0.1", gate.port), WAIT_S)
            client.sendall(b"before")
            assert client.recv(100) == b"before"
        with client:
            assert client.recv(100) == b""
