"""Who may ask, how much, and how often.

Bearer tokens only: nothing a browser sends by itself, such as a cookie, is ever taken for a
permission, so a page of somebody else's cannot act for whoever looks at it.  Without tokens
only loopback is served, and only under its own names, so that no other name can be made to
point here.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.ports.clock import Clock
from scheduler.admin.pages import POLICY
from scheduler.admin.problems import answer
from scheduler.admin.refusals import Problem
from scheduler.door_settings import LOOPBACK, AdminSettings
from scheduler.http_guard import TokenBucket, name_of

_READING = frozenset({"GET", "HEAD"})
_URL_BYTES_MAX = 80_000
"""A key holds two ids, each percent-encoded twice at worst."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_KEPT = (b"cache-control", b"no-store")
"""Answers hold the data of tasks, and no browser's cache has to."""


class Access:
    """ASGI middleware in front of the API."""

    def __init__(
        self, app: ASGIApp, settings: AdminSettings, clock: Clock, prefix: str, open_to: str = ""
    ) -> None:
        """``prefix`` needs a token; what else there is (a page without data) does not.

        ``open_to`` names whoever asks where the app is mounted behind a login of its own.
        """
        self._app = app
        self._settings = settings
        self._prefix = prefix
        self._open_to = open_to
        self._bucket = TokenBucket(clock, settings.requests_per_s_max, settings.requests_burst)
        self._writers = dict(settings.write_tokens)
        self._readers = {**settings.read_tokens, **settings.write_tokens}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer with what is wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), *_HEADERS]
                if all(name != _NOT_KEPT[0] for name, _ in headers):
                    headers.append(_NOT_KEPT)
                message["headers"] = headers
            await send(message)

        try:
            self._check(request, scope)
            body = None if request.method in _READING else await self._read(receive, request)
        except Problem as problem:
            await answer(problem)(scope, receive, told)
            return
        await self._app(scope, receive if body is None else _replayed(body, receive), told)

    def _check(self, request: Request, scope: Scope) -> None:
        if not self._bucket.take():
            raise Problem(429, "too-many-requests", "too many requests; try again in a second")
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > _URL_BYTES_MAX:
            raise Problem(414, "invalid-request", f"the address is over {_URL_BYTES_MAX} bytes")
        # Where the app is mounted, its own paths begin behind the mount's.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(self._prefix):
            return
        state = scope.setdefault("state", {})
        state["who"] = self._who(request)
        state["may_act"] = self._may_act(request)
        if request.method not in _READING:
            self._check_write(request)

    def _who(self, request: Request) -> str:
        if self._open_to:
            return self._open_to
        if not self._readers:
            self._check_host(request)
            return "loopback"
        authorization = request.headers.get("authorization", "")
        who = name_of(authorization, self._readers)
        if who is None:
            raise Problem(401, "token-needed", "a bearer token is needed: Authorization: Bearer …")
        if request.method not in _READING:
            who = name_of(authorization, self._writers)
            if who is None:
                raise Problem(403, "token-may-only-read", "this token may look and not act")
        return who

    def _may_act(self, request: Request) -> bool:
        if self._open_to or not self._readers:
            return True
        return name_of(request.headers.get("authorization", ""), self._writers) is not None

    def _check_host(self, request: Request) -> None:
        host = (
            urlsplit(f"//{request.headers.get('host', '')}").hostname if _is_host(request) else ""
        )
        if host not in (*LOOPBACK, *self._settings.host_names):
            raise Problem(
                421,
                "unknown-host",
                "without tokens only localhost is served: name tokens, or admin.host_names",
            )

    def _check_write(self, request: Request) -> None:
        """Refuse what a page of somebody else's can send: a form, or a request of its script."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Problem(403, "cross-site", "a page of another site may not act here")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "invalid-request", "the body must be application/json")

    async def _read(self, receive: Receive, request: Request) -> bytes:
        limit = self._settings.request_bytes_max
        stated = request.headers.get("content-length", "0")
        if not (stated.isascii() and stated.isdigit()) or int(stated[:12]) > limit:
            raise Problem(413, "too-large", f"a body has at most {limit} bytes")
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                raise Problem(413, "too-large", f"a body has at most {limit} bytes")
        return body


def _is_host(request: Request) -> bool:
    try:
        return bool(urlsplit(f"//{request.headers.get('host', '')}").hostname)
    except ValueError:
        return False


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
