"""Links of a proxy really fail as they are told, for the processes that are meant and no others."""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.servers.link_faults import Blight
from tests.servers.link_proxy import Front, Rule
from tests.servers.links import Links
from tests.servers.ports import free_ports
from tests.servers.process import ServerFailed
from tests.waiting import until

WAIT_S = 60.0
SILENT_S = 0.3
MINE = Rule(pids=[os.getpid()], names=["echo"], ways=["to", "from"])


class Echo:
    """A server that sends back what it gets, and counts it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.got = 0
        self.ended = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while piece := client.recv(65_536):
                self.got += len(piece)
                client.sendall(piece)
        self.ended += 1


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    """One server for all."""
    server = Echo()
    yield server
    server.close()


@pytest.fixture(scope="module")
def port(echo: Echo) -> Iterator[int]:
    """The proxy's port before it."""
    [port] = free_ports(1)
    with Links() as links:
        links.open(Front("echo", "127.0.0.1", port, "127.0.0.1", echo.port))
        _running.append(links)
        yield port
        _running.clear()


_running: list[Links] = []


@pytest.fixture
def links(port: int) -> Iterator[Links]:
    """The proxy, whose links are whole again after each test."""
    assert port
    yield _running[0]
    _running[0].heal()


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    """A connection through the proxy that has carried something."""
    with connected(port) as one:
        assert echoed(one, b"first") == b"first"
        yield one


def connected(port: int) -> socket.socket:
    """Connect to the proxy."""
    return socket.create_connection(("127.0.0.1", port), WAIT_S)


def echoed(client: socket.socket, data: bytes) -> bytes:
    """Send something and return as much of what comes back."""
    client.sendall(data)
    back = b""
    while len(back) < len(data) and (piece := client.recv(65_536)):
        back += piece
    return back


def is_reset(port: int) -> bool:
    """True if a new connection is reset."""
    try:
        with connected(port) as one:
            one.recv(1)
    except ConnectionResetError:
        return True
    return False


def is_silent(client: socket.socket) -> bool:
    """True if nothing comes, nor an end."""
    client.settimeout(SILENT_S)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(WAIT_S)
    return False


def test_a_cut_link_holds_what_is_sent_and_passes_it_on_later(
    links: Links, client: socket.socket, echo: Echo, port: int
) -> None:
    """Connections made meanwhile are cut, too."""
    before = echo.got
    struck = links.strike(Blight("cut"), MINE)
    client.sendall(b"later")
    with connected(port) as other:
        other.sendall(b"other")
        assert is_silent(client)
        assert echo.got == before

        counts = links.heal()

        assert client.recv(5) == b"later"
        assert other.recv(5) == b"other"
    assert (struck.connections, counts.connections, counts.held) == (1, 2, 2)


def test_one_direction_is_cut_alone(links: Links, client: socket.socket, echo: Echo) -> None:
    """The server hears the client, and the client does not hear it."""
    before = echo.got
    links.strike(Blight("cut"), Rule(MINE.pids, MINE.names, ["from"]))

    client.sendall(b"heard")

    until(lambda: echo.got == before + 5, "the server does not hear")
    assert is_silent(client)
    assert links.heal().held == 1
    assert client.recv(5) == b"heard"


def test_others_keep_their_links(links: Links, client: socket.socket) -> None:
    """Those of another process, and those to another server."""
    parents = Rule([os.getppid()], ["echo"], ["to", "from"])
    elsewhere = Rule([os.getpid()], ["other"], ["to", "from"])

    assert links.strike(Blight("cut"), parents, elsewhere).connections == 0

    assert echoed(client, b"well") == b"well"


def test_a_reset_is_seen_at_both_ends_and_new_connections_are_reset(
    links: Links, client: socket.socket, echo: Echo, port: int
) -> None:
    """Until the link is healed."""
    ended = echo.ended
    links.strike(Blight("reset"), MINE)

    with pytest.raises(ConnectionResetError):
        client.recv(1)
    until(lambda: echo.ended > ended, "the server is not told")
    assert is_reset(port)

    assert links.heal().resets >= 2
    with connected(port) as other:
        assert echoed(other, b"again") == b"again"


def test_a_half_open_link_drops_all_and_tells_nobody(
    links: Links, client: socket.socket, echo: Echo, port: int
) -> None:
    """Not even after the fault, and new connections work then."""
    before, ended = echo.got, echo.ended
    links.strike(Blight("half-open"), MINE)
    client.sendall(b"gone")
    until(lambda: is_silent(client), "something came")

    counts = links.heal()

    client.sendall(b"gone too")
    assert is_silent(client)
    assert links.forsaken == 1
    client.close()
    until(lambda: not links.forsaken, "a client that left is counted")
    with connected(port) as other:
        assert echoed(other, b"new") == b"new"
    assert counts.dropped >= 1
    assert echo.got == before + 3
    assert echo.ended <= ended + 1


def test_a_slow_link_delays_and_keeps_the_order(links: Links, client: socket.socket) -> None:
    """200 kB at 1 MB a second each way, and 50 ms for each piece."""
    data = bytes(range(256)) * 800
    links.strike(Blight("slow", latency_ms=50, bytes_per_s=1e6), MINE)

    assert echoed(client, data) == data

    assert links.heal().delayed >= 2


def test_a_lossy_link_stalls_until_what_was_lost_is_sent_again(
    links: Links, client: socket.socket
) -> None:
    """In the order in which it was sent."""
    links.strike(Blight("lossy", lost=1.0), MINE)
    client.sendall(b"first")
    assert not select.select([client], [], [], 0.1)[0]

    assert echoed(client, b"second").startswith(b"first")

    assert links.heal().delayed >= 2


def test_a_server_that_is_down_resets_its_clients(links: Links) -> None:
    """And a port that is taken is an error."""
    front, behind = free_ports(2)
    links.open(Front("down", "127.0.0.1", front, "127.0.0.1", behind))
    assert is_reset(front)

    with pytest.raises(ServerFailed, match="in use"):
        links.open(Front("down", "127.0.0.1", front, "127.0.0.1", behind))
