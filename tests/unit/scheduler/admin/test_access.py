"""Who may ask, and what is refused before anybody looks at it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.admin.access import Access
from hourhand.scheduler.configuration.door_settings import AdminSettings
from tests.unit.scheduler.admin.world import READ, WRITE, Asking, World

PAUSE = {"targets": [{"scope": "all"}]}


def guarded(**more: Any) -> World:
    """Return a world with a token for looking and one for acting."""
    return World(read_tokens={"eve": READ}, write_tokens={"ann": WRITE}, **more)


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("headers", "looking", "acting"),
    [
        ({}, 401, 401),
        (bearer("x" * 16), 401, 401),
        ({"Authorization": WRITE}, 401, 401),
        ({"Authorization": "Bearer é"}, 401, 401),
        (bearer(READ), 200, 403),
        (bearer(WRITE), 200, 200),
        ({"Cookie": f"token={WRITE}"}, 401, 401),
    ],
)
def test_tokens_have_scopes(headers: dict[str, str], looking: int, acting: int) -> None:
    """A reader may look, a writer may act, and a cookie is nothing."""
    world = guarded()
    raw = {name: value.encode("latin-1") for name, value in headers.items()}

    assert world.http.get("/status", headers=raw).status_code == looking
    assert world.http.post("/pauses", json=PAUSE, headers=raw).status_code == acting


@pytest.mark.parametrize(("token", "told"), [(READ, ("eve", False)), (WRITE, ("ann", True))])
def test_a_token_is_told_whom_it_names(token: str, told: tuple[str, bool]) -> None:
    """So that a page offers what may be done, and nothing else."""
    answer = guarded().http.get("/whoami", headers=bearer(token)).json()

    assert (answer["who"], answer["mayAct"]) == told


def test_without_tokens_loopback_may_act() -> None:
    """And so may whoever asks an app that asks for a login of its own."""
    assert World().get("/whoami")[1]["mayAct"] is True


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::", "a@b"])
def test_without_tokens_only_loopback_is_served_under_its_own_names(host: str) -> None:
    """A name of somebody else's that points here is how a page gets past a browser."""
    assert World().http.get("/status", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:7254", "[::1]:7254", "ops.example"])
def test_names_of_its_own_are_served(host: str) -> None:
    """Loopback's, and those of the settings."""
    world = World(host_names=("ops.example",))
    assert world.http.get("/status", headers={"Host": host}).status_code == 200


async def _pieces() -> AsyncIterator[bytes]:
    """Send a body whose size nobody says before."""
    for _ in range(2):
        yield b"x" * 600


def test_sizes_are_limited() -> None:
    """Whatever a client says the size is."""
    world = World(request_bytes_max=1_000)
    kind = {"Content-Type": "application/json"}

    refused = world.http.post("/pauses", content=b"x" * 1_001, headers=kind)
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
    assert world.http.post("/pauses", content=_pieces(), headers=kind).status_code == 413
    lying = {**kind, "Content-Length": "-1"}
    assert world.http.post("/pauses", content=b"x" * 2_000, headers=lying).status_code == 413
    assert world.http.get("/task", params={"key": "x" * 61_000}).status_code == 400


def test_a_body_too_deep_to_be_read_is_the_fault_of_who_sent_it() -> None:
    """The path is there."""
    kind = {"Content-Type": "application/json"}
    refused = World().http.post("/tasks", content=b"[" * 100_000, headers=kind)

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")


def test_p13_a_body_that_is_sent_in_pieces_is_read_no_further_than_its_limit() -> None:
    """It is refused with the first byte too many, however much would come behind that."""
    world = World(request_bytes_max=1_000)
    sent: list[bytes] = []

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            sent.append(b"x" * 600)
            yield sent[-1]

    kind = {"Content-Type": "application/json"}
    answer = world.http.post("/pauses", content=pieces(), headers=kind)

    assert (answer.status_code, len(sent)) == (413, 2)


def test_rates_are_limited() -> None:
    """And again allowed a second later."""
    world = World(requests_per_s_max=1, requests_burst=3)

    answers = [world.http.get("/pauses").status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]
    world.clock.advance(1_000)
    assert world.http.get("/pauses").status_code == 200


def test_streams_are_limited() -> None:
    """Each holds a connection."""
    world = World(streams_max=1)
    world.service.cluster._closed.set()
    assert [world.http.get("/stream").status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize("gone_at", ["head", "first event", "cancelled"])
def test_a_stream_gives_its_slot_back_however_its_client_goes(gone_at: str) -> None:
    """Before the head, at an event, or as the server stops: without a word of farewell."""
    world = World(streams_max=1)
    for _ in range(3):
        asyncio.run(left_stream(world.app, gone_at))

    world.service.cluster._closed.set()
    assert world.http.get("/stream").status_code == 200


async def left_stream(app: ASGIApp, gone_at: str) -> None:
    """Ask for a stream, as a client that vanishes."""
    asked, begun = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        if not asked.is_set():
            asked.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        begun.set()
        if gone_at == "cancelled":
            await asyncio.Event().wait()
        if gone_at == "head" or message["type"] == "http.response.body":
            raise OSError("nobody is there")

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/stream",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "raw_path": b"/api/v1/stream",
        "scheme": "http",
        "server": ("localhost", 80),
        "http_version": "1.1",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
    }
    asking = asyncio.ensure_future(app(scope, receive, send))
    await begun.wait()
    if gone_at == "cancelled":
        asking.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError, ClientDisconnect):
        await asking


@pytest.mark.parametrize(
    "settings",
    [
        {"host": "0.0.0.0"},  # noqa: S104 - what must be refused
        {"write_tokens": {"ann": "short"}},
        {"write_tokens": {"ann": "é" * 20}},
        {"certificate_file": "a.pem"},
    ],
)
def test_settings_that_are_not_safe_are_refused(settings: dict[str, object]) -> None:
    """An open port without tokens, a token that can be guessed, half a key pair."""
    with pytest.raises(ValidationError):
        AdminSettings.model_validate(settings)


def test_every_answer_says_how_a_browser_may_treat_it() -> None:
    """Never guessed at, never framed."""
    headers = World().http.get("/status").headers
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


def test_an_app_that_mounts_it_is_guarded_as_well() -> None:
    """Under whatever path: without a token nothing is told or done."""
    world = guarded()
    outer = FastAPI()
    outer.mount("/deep/hourhand", world.app)
    asking = Asking(outer, "http://localhost/deep/hourhand/api/v1")

    assert asking.get("/status").status_code == 401
    assert asking.post("/pauses", json=PAUSE).status_code == 401
    assert asking.get("/status", headers=bearer(READ)).status_code == 200
    assert asking.post("/pauses", json=PAUSE, headers=bearer(READ)).status_code == 403


class Recorded:
    """An application that notes how it is asked, and what it hears."""

    def __init__(self, listens: int) -> None:
        self.listens = listens
        self.scopes: list[Scope] = []
        self.heard: list[Message] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Listen so many times, then answer with a header of its own."""
        self.scopes.append(scope)
        self.heard += [await receive() for _ in range(self.listens)]
        head = {"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"kept")]}
        await send(head)


def asked(scope: Scope, *messages: Message, listens: int = 2) -> tuple[Recorded, list[Message]]:
    """Ask an application behind the guard; return it and its answer."""
    app, told, coming = Recorded(listens), list[Message](), iter(messages)

    async def receive() -> Message:
        return next(coming)

    async def send(message: Message) -> None:
        told.append(message)

    asyncio.run(Access(app, AdminSettings(), SystemClock(), "/api")(scope, receive, send))
    return app, told


def test_what_is_not_http_reaches_the_application_as_it_is() -> None:
    """Such as the beginning and end of its life, which have no host, token or size."""
    life: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    scope = {"type": "lifespan"}

    app, _ = asked(scope, *life)

    assert (app.scopes, app.heard) == ([scope], life)


def request(method: str, **more: object) -> Scope:
    """Return a request of a page, from this machine."""
    asked_by = {"client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")]}
    return {"type": "http", "method": method, "path": "/page", **asked_by, **more}


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_body_that_was_measured_is_told_once_and_then_what_the_client_does(method: str) -> None:
    """Whoever waits for the client to leave must not take its body for a second request."""
    gone: Message = {"type": "http.disconnect"}
    whole: Message = {"type": "http.request", "body": b"ab", "more_body": False}
    first: Message = {"type": "http.request", "body": b"a", "more_body": True}
    coming = [first, {"type": "http.request", "body": b"b"}] if method == "POST" else [whole]

    app, _ = asked(request(method), *coming, gone)

    assert app.heard == [whole, gone]


def test_an_answer_keeps_its_own_headers_and_is_kept_by_no_browser() -> None:
    """Unless it says itself for how long it may be."""
    _, told = asked(request("GET"), {"type": "http.disconnect"}, listens=1)

    headers = told[0]["headers"]
    assert (b"x-own", b"kept") in headers and (b"cache-control", b"no-store") in headers


def test_an_address_that_is_too_long_is_refused() -> None:
    """Before anybody takes it apart."""
    app, told = asked(request("GET", query_string=b"x" * 80_001))

    assert not app.scopes and told[0]["status"] == 414
    assert b'"code":"invalid-request"' in told[1]["body"]
