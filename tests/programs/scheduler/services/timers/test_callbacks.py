"""Callbacks over a real socket: what counts as success, where they go, how long they may take."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.timers.callbacks import HttpCaller
from hourhand.scheduler.services.timers.executor import CallbackFailed
from tests.builders import NOW_MS

OF = "recurring/né,xt"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Endpoint:
    """Answers every request with the same bytes, and keeps what it was sent."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self.requests: list[tuple[list[str], bytes]] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; with no answer, keep it waiting."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"):
                length = next(
                    int(line.split(":")[1]) for line in head if line.lower().startswith("content-l")
                )
                self.requests.append((head, await reader.readexactly(length)))
                if self._answer is not None:
                    writer.write(self._answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def run(
    answer: bytes | None,
    ask: Callable[[HttpCaller, Endpoint], Coroutine[Any, Any, None]],
    **settings: Any,
) -> Endpoint:
    """Serve an endpoint on loopback while ``ask`` runs."""

    async def main() -> Endpoint:
        endpoint = Endpoint(answer)
        server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
        endpoint.port = server.sockets[0].getsockname()[1]
        caller = HttpCaller(TimerSettings(**settings), VirtualClock(NOW_MS))
        try:
            await ask(caller, endpoint)
        finally:
            server.close()
        return endpoint

    return asyncio.run(main())


async def call(caller: HttpCaller, endpoint: Endpoint, host: str = "127.0.0.1") -> None:
    """Call the endpoint back."""
    await caller.call(f"http://{host}:{endpoint.port}/pop?a=b", b"\x00opaque", 7, OF)


def test_a_callback_is_a_post_with_the_opaque_body_and_its_number() -> None:
    """Host, path and query are those of the URI."""
    endpoint = run(OK, call)

    ((head, body),) = endpoint.requests
    assert head[0] == "POST /pop?a=b HTTP/1.1"
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    assert headers["x-sequence-number"] == "7"
    assert headers["content-type"] == "application/octet-stream"
    assert headers["host"] == f"127.0.0.1:{endpoint.port}"
    assert "x-hourhand-signature" not in headers
    assert body == b"\x00opaque"


def test_a_connection_serves_one_callback_after_another() -> None:
    """The answer is read, so that it can."""

    async def twice(caller: HttpCaller, endpoint: Endpoint) -> None:
        await call(caller, endpoint)
        await call(caller, endpoint)

    assert len(run(OK, twice).requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
    ],
)
def test_an_answer_may_end_as_http_allows(answer: bytes) -> None:
    """And the next callback comes, on another connection where this one was closed."""

    async def twice(caller: HttpCaller, endpoint: Endpoint) -> None:
        await call(caller, endpoint)
        await call(caller, endpoint)

    assert len(run(answer, twice).requests) == 2


def test_connections_are_closed_with_the_loop() -> None:
    """Whoever makes callbacks has nothing to close, and a node that stopped holds no socket."""
    callers: list[HttpCaller] = []

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        callers.append(caller)
        await call(caller, endpoint)

    run(OK, ask)

    session = callers[0]._session
    assert session is not None
    assert session.closed


def test_a_request_has_what_is_documented_and_nothing_else() -> None:
    """The URL as the timer has it, its login as a header; no cookie that an answer brought."""
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"

    async def twice(caller: HttpCaller, endpoint: Endpoint) -> None:
        for _ in range(2):
            uri = f"http://ann:secret@localhost:{endpoint.port}/a%41%2Fb?c=%2f+d"
            await caller.call(uri, b"body", 7, OF)

    endpoint = run(answer, twice)

    for head, _ in endpoint.requests:
        assert head[0] == "POST /a%41%2Fb?c=%2f+d HTTP/1.1"
        assert {line.lower() for line in head[1:] if line} == {
            f"host: localhost:{endpoint.port}",
            "content-type: application/octet-stream",
            "content-length: 4",
            "x-sequence-number: 7",
            "authorization: basic yw5uonnly3jlda==",
        }


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ("user:pass%20word", "user:pass word"),
        ("user", "user:"),
        (":token", ":token"),
        ("a%3Ab:%C3%A9%40", "a:b:é@"),
    ],
)
def test_a_login_in_a_url_is_sent_as_basic_authorization(login: str, sent: str) -> None:
    """Escapes are those of the URL, and the text is UTF-8."""
    endpoint = run(OK, lambda caller, it: call(caller, it, f"{login}@127.0.0.1"))

    ((head, _),) = endpoint.requests
    assert f"Authorization: Basic {base64.b64encode(sent.encode()).decode()}" in head


@pytest.mark.parametrize("host", ["ho\u2100st", "127.0.0.1:99999", "[", "a b", "nowhere.invalid"])
def test_no_failure_tells_the_login(host: str) -> None:
    """It is written to the log."""

    async def ask(caller: HttpCaller, _endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed) as failed:
            await caller.call(f"http://ann:secret@{host}/", b"", 1, OF)
        assert "secret" not in str(failed.value)
        assert failed.value.__suppress_context__

    run(OK, ask, callback_targets=("*",))


def test_callbacks_are_signed_with_a_key() -> None:
    """Over version, time, URL, timer, number and body: none of them can be another's."""
    endpoint = run(OK, call, signing_key="secret")

    ((head, _),) = endpoint.requests
    url = f"http://127.0.0.1:{endpoint.port}/pop?a=b"
    now_s = NOW_MS // 1000
    signed = f"v2\n{now_s}\n{url}\n{quote(OF)}\n7\n".encode() + b"\x00opaque"
    wanted = hmac.new(b"secret", signed, hashlib.sha256).hexdigest()
    header = f"X-Hourhand-Signature: v2,t={now_s},of=recurring/n%C3%A9%2Cxt,sha256={wanted}"
    assert header.lower() in [line.lower() for line in head]


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 400, 404, 500, 503])
def test_anything_but_200_is_a_failure_and_redirects_are_not_followed(status: int) -> None:
    """201 too; the endpoint is asked once."""
    answer = b"HTTP/1.1 %d X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" % status

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed, match=str(status)):
            await call(caller, endpoint)

    assert len(run(answer, ask).requests) == 1


@pytest.mark.parametrize(
    "answer", [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]
)
def test_no_answer_in_time_or_none_that_is_http_is_a_failure(answer: bytes) -> None:
    """Whatever the endpoint does, the callback ends."""

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed):
            await call(caller, endpoint)

    run(answer, ask, callback_timeout_ms=300)


def test_a_long_answer_is_a_failure_and_not_read_to_its_end() -> None:
    """It could fill the node's memory; the end of this one never comes."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 2_000

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed, match="longer than 1000"):
            await call(caller, endpoint)

    run(answer, ask, callback_answer_bytes_max=1_000)


@pytest.mark.parametrize(
    ("targets", "host"),
    [
        (("10.0.0.0/8",), "127.0.0.1"),
        (("example.com",), "127.0.0.1"),
        (("10.0.0.0/8",), "localhost"),
        ((), "localhost"),
        (("10.0.0.0/8",), "[::ffff:127.0.0.1]"),
        (("10.0.0.0/8",), "2130706433"),
        (("10.0.0.0/8",), "user:password@127.0.0.1"),
        (("calhost",), "localhost"),
        (("localhos",), "localhost"),
        (("notlocalhost", "localhost.example"), "localhost"),
        (("0.0.1", "127.0.0"), "127.0.0.1"),
    ],
)
def test_callbacks_go_only_where_they_are_allowed_to(targets: tuple[str, ...], host: str) -> None:
    """By the address a name means, however it is written, or by a whole name; nothing is sent."""

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed):
            await call(caller, endpoint, host)

    assert run(OK, ask, callback_targets=targets).requests == []


@pytest.mark.parametrize("targets", [("127.0.0.0/8",), ("localhost",), ("*",), ("LOCALHOST",)])
def test_a_name_or_its_network_may_be_allowed(targets: tuple[str, ...]) -> None:
    """Either will do."""

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        await call(caller, endpoint, "localhost")

    assert len(run(OK, ask, callback_targets=targets).requests) == 1


@pytest.mark.parametrize(
    "uri", ["http://", "http://[", "http://\u2028/", "http://a b/", "https://127.0.0.1:99999/"]
)
def test_a_uri_that_leads_nowhere_is_a_failure(uri: str) -> None:
    """Never an error of the node's."""

    async def ask(caller: HttpCaller, _endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed):
            await caller.call(uri, b"", 1, OF)

    run(OK, ask)
