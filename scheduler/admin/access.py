"""The guard of every HTTP API, the admin's first: who may ask, what, and how often.

Decides which paths need a token, the form of refusals, and the security headers of every answer.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.admin.pages import POLICY
from hourhand.scheduler.admin.problems import MEDIA_TYPE, Problem
from hourhand.scheduler.configuration.door_settings import AdminSettings
from hourhand.scheduler.services.http.http_guard import Door, HttpGuard, Refusal
from hourhand.scheduler.services.http.typed_routes import encoded

_READING = frozenset({"GET", "HEAD"})
_URL_BYTES_MAX = 80_000
"""Room for a key with two ids, each percent-encoded twice at worst."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_KEPT = (b"cache-control", b"no-store")
"""Answers hold the data of tasks, so browsers must not cache them."""


class Access:
    """ASGI middleware in front of the API."""

    def __init__(
        self, app: ASGIApp, settings: AdminSettings, clock: Clock, prefix: str, open_to: str = ""
    ) -> None:
        """Paths below ``prefix`` need a token; others, such as a page without data, do not.

        ``open_to`` is the user's name where the app is mounted behind a login of its own.
        """
        self._app = app
        self._settings = settings
        self._prefix = prefix
        door = Door(
            read_tokens=settings.read_tokens,
            write_tokens=settings.write_tokens,
            host_names=settings.host_names,
            requests_per_s_max=settings.requests_per_s_max,
            requests_burst=settings.requests_burst,
            open_to=open_to,
        )
        self._guard = HttpGuard(door, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer with the reason for its refusal."""
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
            self._check(scope)
            body = None if request.method in _READING else await self._read(receive, request)
        except Problem as problem:
            refused = encoded(problem.details(), problem.status, MEDIA_TYPE)
            await refused(scope, receive, told)
            return
        await self._app(scope, receive if body is None else _replayed(body, receive), told)

    def _check(self, scope: Scope) -> None:
        # In a mounted app, ``path`` begins with the path of the mount.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        told = self._guard.judge(scope, needs_token=path.startswith(self._prefix))
        if isinstance(told, Refusal):
            raise Problem(*told)
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > _URL_BYTES_MAX:
            raise Problem(414, "invalid-request", f"the address is over {_URL_BYTES_MAX} bytes")
        state = scope.setdefault("state", {})
        state["who"], state["may_act"] = told

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


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
