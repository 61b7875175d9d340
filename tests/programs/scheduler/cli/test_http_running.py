"""Clients that are slow, silent, too many, or too long, over real sockets."""

import socket
from collections.abc import Iterator

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from hourhand.scheduler.cli.http_running import HttpServer

WAIT_S = 60.0


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Read a request to its end and answer it."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await PlainTextResponse("here")(scope, receive, send)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """One that waits a second for a request, and serves ten connections."""
    server = HttpServer(answering, host="127.0.0.1", port=0, connections_max=10, receive_s=1.0)
    assert server.start()
    yield server
    server.stop()


def connected(server: HttpServer) -> socket.socket:
    """Return a connection to it."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "begun",
    [b"", b"GE", HEAD, HEAD + b"X-A: b\r\n" * 50, HEAD + b"Content-Length: 900\r\n\r\nhalf"],
    ids=["nothing", "half a line", "half a head", "many headers", "half a body"],
)
def test_a_request_that_does_not_arrive_is_cut(server: HttpServer, begun: bytes) -> None:
    """However far it came, and although the client goes on a byte at a time."""
    with connected(server) as client:
        client.sendall(begun)

        assert slowly_ended(client)


def slowly_ended(client: socket.socket) -> bool:
    """True if the server hangs up on a client that sends a byte now and then."""
    client.settimeout(0.2)
    for _ in range(round(WAIT_S / 0.2)):
        try:
            client.sendall(b"x")
            if not client.recv(1_000):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_client_that_asks_again_and_again_is_not_cut(server: HttpServer) -> None:
    """It is the single request that may not take long."""
    request = HEAD + b"Content-Length: 0\r\n\r\n"
    with connected(server) as client:
        client.settimeout(WAIT_S)
        for _ in range(8):
            client.sendall(request)
            answer = b""
            while not answer.endswith(b"here"):
                answer += client.recv(4_000)
            assert answer.startswith(b"HTTP/1.1 200")
            assert not waited(client, 0.3)


def waited(client: socket.socket, seconds: float) -> bytes:
    """Return what comes, or that the connection is over, within so long."""
    client.settimeout(seconds)
    try:
        return client.recv(1) or b"closed"
    except TimeoutError:
        return b""
    finally:
        client.settimeout(WAIT_S)


ENDLESS = {
    "headers": (HEAD, b"X: " + b"y" * 8_000 + b"\r\n"),
    "one header": (HEAD + b"X: ", b"y" * 8_000),
    "address": (b"GET /", b"y" * 8_000),
    "trailer": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: " + b"y" * 8_000 + b"\r\n"),
    "chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"y" * 8_000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_without_an_end_is_refused(what: str) -> None:
    """Nothing is kept in memory for as long as somebody sends."""
    begun, goes_on = ENDLESS[what]
    server = HttpServer(answering, host="127.0.0.1", port=0, receive_s=10 * WAIT_S)
    assert server.start()
    try:
        with connected(server) as client:
            client.sendall(begun + 40 * goes_on)

            assert b" 400 " in client.recv(4_000).partition(b"\r\n")[0]
    except ConnectionError:
        # It hung up while the rest was under way.
        pass
    finally:
        server.stop()


def test_a_head_within_the_limit_is_read(server: HttpServer) -> None:
    """The longest address with its headers, in pieces."""
    with connected(server) as client:
        client.sendall(b"GET /" + b"y" * 65_000 + b" HTTP/1.1\r\nHost: localhost\r\n")
        client.sendall(b"X: " + b"y" * 60_000 + b"\r\n")
        client.sendall(b"\r\n")

        assert b" 200 " in client.recv(4_000).partition(b"\r\n")[0]


def test_a_body_of_any_length_is_read(server: HttpServer) -> None:
    """In one piece or in many: how long it may be, the application decides."""
    whole = HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1_000_000
    pieces = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"
    with connected(server) as client:
        for request in (whole, pieces):
            client.sendall(request)
            assert b" 200 " in client.recv(4_000).partition(b"\r\n")[0]


def test_requests_above_so_many_connections_are_503(server: HttpServer) -> None:
    """And are taken again once others went."""
    request = HEAD + b"Content-Length: 0\r\n\r\n"
    held = [connected(server) for _ in range(10)]
    with connected(server) as client:
        client.sendall(request)
        assert b" 503 " in client.recv(4_000).partition(b"\r\n")[0]
    for each in held:
        assert slowly_ended(each)
        each.close()

    with connected(server) as client:
        client.sendall(request)
        assert b" 200 " in client.recv(4_000).partition(b"\r\n")[0]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has the option")
def test_a_client_that_went_without_a_farewell_is_noticed(server: HttpServer) -> None:
    """What it never acknowledges ends its connection."""
    with connected(server) as client:
        client.sendall(HEAD + b"Content-Length: 0\r\n\r\n")
        assert client.recv(4_000)
        (connection,) = server._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")

        left_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert 0 < left_ms <= 60_000
