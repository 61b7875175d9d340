"""The timer service over HTTP: paths, methods, status codes, who may ask, and how much.

Decides all that and nothing about timers.  Bodies are read by hand, as the seed's are: what is
wrong is told as text with 400, never as 422.
"""

import json
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.model.errors import HourhandError, OperatorError
from actors.ports.clock import Clock
from scheduler.configuration.door_settings import TimerSettings
from scheduler.services.http_guard import JSON, Door, HttpGuard, Refusal
from scheduler.services.timers.recurring_routes import RecurringService, add_recurring, read_body
from scheduler.services.timers.service import TimerService
from scheduler.services.timers.timer import InvalidTimer, parse_timer, split_id, timer_value

_OPEN_PATHS = frozenset({"/ping"})
_TIMERS = "/timers"
_BODY_KINDS = (JSON, "")
"""The seed's clients send JSON with its type, or text without one; no page's form does either."""
_LIST_DEFAULT, _LIST_MAX = 100, 1_000
_REFUSED = (InvalidTimer, ClientDisconnect, HourhandError)

Make = Callable[[Request], Awaitable[Response]]

_TIMER_SCHEMA = {
    "type": "object",
    "required": ["timing", "callback"],
    "properties": {
        "timing": {
            "type": "object",
            "required": ["interval"],
            "properties": {
                "interval": {"type": "integer", "minimum": 0, "description": "Seconds."},
                "repeat-for": {"type": "integer", "minimum": 0, "description": "Seconds."},
            },
        },
        "callback": {
            "type": "object",
            "required": ["http"],
            "properties": {
                "http": {
                    "type": "object",
                    "required": ["uri", "opaque"],
                    "properties": {"uri": {"type": "string"}, "opaque": {"type": "string"}},
                }
            },
        },
        "reliability": {
            "type": "object",
            "properties": {"replication-factor": {"type": "integer", "default": 2}},
        },
        "statistics": {"type": "object"},
    },
}
_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _TIMER_SCHEMA}}}
}


def build_app(
    service: TimerService,
    settings: TimerSettings,
    recurring: RecurringService,
    clock: Clock,
    registry: CollectorRegistry | None = None,
) -> ASGIApp:
    """Build the application; ``registry`` holds the node's own metrics."""
    app = FastAPI(
        title="Hourhand timers",
        description="Timers that call back over HTTP; see docs/timers.md.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    registry = registry or CollectorRegistry()
    make = _maker(service, settings)
    _add_errors(app)
    _add_timers(app, service, settings, make)
    _add_listing(app, service)
    add_recurring(app, recurring, settings.request_bytes_max)

    @app.get("/ping", response_class=PlainTextResponse, summary="Whether the service answers")
    async def ping() -> str:
        return "OK"

    @app.get("/metrics", summary="Metrics in Prometheus' text format")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    # Around the framework, whose own layers cost as much as one of these.
    return _Guarded(_Making(app, make), HttpGuard(_door(settings), clock))


def _door(settings: TimerSettings) -> Door:
    return Door(
        read_tokens={f"reader {n}": each for n, each in enumerate(settings.read_tokens)},
        write_tokens={f"writer {n}": each for n, each in enumerate(settings.write_tokens)},
        host_names=settings.host_names,
        requests_per_s_max=settings.requests_per_s_max,
        requests_burst=settings.requests_burst,
        body_kinds=_BODY_KINDS,
    )


class _Guarded:
    """Lets requests through, or answers them: who may ask, and how much."""

    def __init__(self, app: ASGIApp, guard: HttpGuard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        app = self._app
        if scope["type"] == "http":
            told = self._guard.judge(scope, needs_token=scope["path"] not in _OPEN_PATHS)
            if isinstance(told, Refusal):
                app = _answer(told)
        await app(scope, receive, send)


def _answer(refusal: Refusal) -> Response:
    # The seed's clients know 503, and try again.
    status = 503 if refusal.status == 429 else refusal.status
    answer = PlainTextResponse(refusal.detail, status)
    if status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _refused(error: Exception) -> Response:
    """Return the answer to a request that failed as requests may."""
    if isinstance(error, ClientDisconnect):
        return PlainTextResponse("the body was not sent to its end", 400)
    # A log or store that is away may be back at the next try.
    status = 503 if isinstance(error, OperatorError) else 400
    return PlainTextResponse(str(error), status)


def _add_errors(app: FastAPI) -> None:
    async def refuse(_request: Request, error: Exception) -> Response:
        return _refused(error)

    for each in _REFUSED:
        app.add_exception_handler(each, refuse)


class _Making:
    """Makes timers before a route is looked for; a slash behind their path changes nothing.

    Most requests are these, and the way through the framework costs more than all else of one.
    """

    def __init__(self, app: ASGIApp, make: Make) -> None:
        self._app = app
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] == "http" and scope["path"] == f"{_TIMERS}/":
            scope = {**scope, "path": _TIMERS, "raw_path": _TIMERS.encode()}
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != _TIMERS:
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._make(Request(scope, receive))
        except _REFUSED as error:
            answer = _refused(error)
        await answer(scope, receive, send)


def _maker(service: TimerService, settings: TimerSettings) -> Make:
    async def make(request: Request) -> Response:
        body = await read_body(request, settings.request_bytes_max)
        rule = parse_timer(body, service.now_ms())
        timer_id = service.new_id()
        await service.put(timer_id, rule, new=True)
        return _located(timer_id, rule.replication)

    return make


def _add_timers(app: FastAPI, service: TimerService, settings: TimerSettings, create: Make) -> None:
    app.post(_TIMERS, summary="Make a timer", openapi_extra=_BODY)(create)

    @app.put("/timers/{timer_id:path}", summary="Make or replace a timer", openapi_extra=_BODY)
    async def replace(timer_id: str, request: Request) -> Response:
        parts = split_id(timer_id)
        if parts is None:
            return _unknown(timer_id)
        body = await read_body(request, settings.request_bytes_max)
        rule = parse_timer(body, service.now_ms(), parts[1])
        await service.put(parts[0], rule)
        return _located(*parts)

    @app.delete("/timers/{timer_id:path}", summary="Delete a timer")
    async def delete(timer_id: str) -> Response:
        parts = split_id(timer_id)
        if parts is None:
            return _unknown(timer_id)
        await service.put(parts[0], None)
        return _located(*parts)

    @app.get("/timers/{timer_id:path}", summary="Look at a timer")
    async def show(timer_id: str) -> Response:
        parts = split_id(timer_id)
        found = None if parts is None else await service.find(parts[0])
        if found is None:
            return _unknown(timer_id)
        return JSONResponse(timer_value(found.id, found.state, service.now_ms()))


def _add_listing(app: FastAPI, service: TimerService) -> None:
    async def timers(request: Request) -> Response:
        asked = request.query_params
        limit = asked.get("limit", str(_LIST_DEFAULT))
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:6]) <= _LIST_MAX:
            raise InvalidTimer(f"limit must be 1 to {_LIST_MAX}, got {limit[:40]!r}")
        try:
            page = await service.page(asked.get("tag"), asked.get("after"), int(limit))
        except ValueError as error:
            raise InvalidTimer(str(error)) from None
        now_ms = service.now_ms()
        shown = [timer_value(each.id, each.state, now_ms) for each in page.timers]
        return JSONResponse({"timers": shown, "next-after": page.next_after})

    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("tag", "limit", "after")
    ]
    app.get(
        _TIMERS,
        summary="List timers, those of a tag where one is given",
        openapi_extra={"parameters": parameters},
    )(timers)


def _located(timer_id: str, replication: int) -> Response:
    return Response(status_code=200, headers={"Location": f"/timers/{timer_id}-{replication}"})


def _unknown(timer_id: str) -> Response:
    return PlainTextResponse(f"there is no timer {json.dumps(timer_id[:80])}", 404)
