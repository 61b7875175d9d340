"""The timer service over HTTP: paths, methods, status codes, access and rate limits.

Timers are the service's matter. As Chronos does, it reports errors as text, and answers a malformed
request with 400, never with 422.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hourhand.actors.model.values.errors import HourhandError, OperatorError
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.http.http_guard import Door, HttpGuard, Refusal
from hourhand.scheduler.services.http.typed_routes import TypedApp, TypedRouter, described
from hourhand.scheduler.services.timers.recurring_routes import RecurringService, add_recurring
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.services.timers.timer import (
    DescribedTimer,
    DescribedTimers,
    InvalidTimer,
    TimerRequest,
    refusal_of,
    split_id,
)

_OPEN_PATHS = frozenset({"/ping"})
_TIMERS = "/timers"
_LIST_DEFAULT, _LIST_MAX = 100, 1_000
_REFUSED = (
    InvalidTimer,
    ValidationError,
    RequestValidationError,
    StarletteHTTPException,
    ClientDisconnect,
    HourhandError,
)
_REFUSALS = described(
    {
        "4XX": "Refused; the text says why.",
        503: "Too many requests, or log or store do not answer: ask again.",
    }
)
_LOCATED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"Location": {"description": "The timer.", "schema": {"type": "string"}}}}
}


def build_app(
    service: TimerService,
    settings: TimerSettings,
    recurring: RecurringService,
    clock: Clock,
    registry: CollectorRegistry | None = None,
) -> ASGIApp:
    """Build the application; ``registry`` holds the node's own metrics."""
    app = build_routes(service, recurring, registry or CollectorRegistry())
    # Outside of the framework, whose own layers each cost as much as this one.
    guard = HttpGuard(_door(settings), clock)
    return _Guarded(_Making(app, service), guard, settings.request_bytes_max)


def build_routes(
    service: TimerService, recurring: RecurringService, registry: CollectorRegistry
) -> TypedApp:
    """Build the application that answers and describes itself, without access and rate limits."""
    app = TypedApp(
        title="Hourhand timers",
        description="Timers that call back over HTTP; see docs/timers.md.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    router = TypedRouter(_REFUSALS, str, "text/plain", strict_content_type=False)
    _add_errors(app)
    _add_timers(router, service)
    _add_listing(router, service)
    add_recurring(router, recurring)

    @router.get("/ping", summary="Health of the service")
    async def ping() -> PlainTextResponse:
        return PlainTextResponse("OK")

    @router.get("/metrics", summary="Metrics in Prometheus' text format")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app.include_typed(router)
    return app


def _door(settings: TimerSettings) -> Door:
    return Door(
        read_tokens={f"reader {n}": each for n, each in enumerate(settings.read_tokens)},
        write_tokens={f"writer {n}": each for n, each in enumerate(settings.write_tokens)},
        host_names=settings.host_names,
        requests_per_s_max=settings.requests_per_s_max,
        requests_burst=settings.requests_burst,
        # Like Chronos, which ignores the type: curl -d claims to send a form.
        programs_say_json=False,
    )


class _Guarded:
    """Lets requests through or refuses them, by access and rate limits."""

    def __init__(self, app: ASGIApp, guard: HttpGuard, body_bytes_max: int) -> None:
        self._app = app
        self._guard = guard
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        app = self._app
        if scope["type"] == "http":
            told = self._guard.judge(scope, needs_token=scope["path"] not in _OPEN_PATHS)
            if isinstance(told, Refusal):
                app = _answer(told)
            scope = {**scope, "headers": _read_as_json(scope["headers"])}
            receive = _bounded(receive, self._body_bytes_max)
        await app(scope, receive, send)


def _read_as_json(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers without a content type: the framework reads such a body as JSON."""
    return [each for each in headers if each[0] != b"content-type"]


def _bounded(receive: Receive, bytes_max: int) -> Receive:
    """Return a ``receive`` that passes a body on up to its limit, and then raises HTTPException."""
    left_bytes = bytes_max

    async def bounded() -> Message:
        nonlocal left_bytes
        message = await receive()
        left_bytes -= len(message.get("body", b""))
        if left_bytes < 0:
            raise HTTPException(400, f"the body is longer than {bytes_max} bytes")
        return message

    return bounded


def _answer(refusal: Refusal) -> Response:
    # Chronos's clients know 503, and retry.
    status = 503 if refusal.status == 429 else refusal.status
    answer = PlainTextResponse(refusal.detail, status)
    if status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _refused(error: Exception) -> Response:
    """Return the answer to a request that failed in an expected way."""
    if isinstance(error, ClientDisconnect):
        return PlainTextResponse("the body was not sent to its end", 400)
    if isinstance(error, ValidationError):
        return PlainTextResponse(refusal_of(error.errors(include_url=False)), 400)
    if isinstance(error, RequestValidationError):
        # The first item of the location is body, query or path.
        problems = [{**each, "loc": each["loc"][1:]} for each in error.errors()]
        return PlainTextResponse(refusal_of(problems), 400)
    if isinstance(error, StarletteHTTPException):
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    # An unavailable log or store may answer the next request.
    status = 503 if isinstance(error, OperatorError) else 400
    return PlainTextResponse(str(error), status)


def _add_errors(app: FastAPI) -> None:
    async def refuse(_request: Request, error: Exception) -> Response:
        return _refused(error)

    for each in _REFUSED:
        app.add_exception_handler(each, refuse)


class _Making:
    """Makes timers before routing; a slash behind their path changes nothing.

    Most requests make timers, and the framework costs more than all the rest of such a request.
    """

    def __init__(self, app: ASGIApp, service: TimerService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and scope["path"] == f"{_TIMERS}/":
            scope = {**scope, "path": _TIMERS, "raw_path": _TIMERS.encode()}
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != _TIMERS:
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
            answer = await _make(self._service, TimerRequest.model_validate_json(body))
        except _REFUSED as error:
            answer = _refused(error)
        await answer(scope, receive, send)


async def _make(service: TimerService, asked: TimerRequest) -> Response:
    rule = asked.rule(service.now_ms())
    timer_id = service.new_id()
    await service.put(timer_id, rule, new=True)
    return _located(timer_id, rule.replication)


def _add_timers(router: TypedRouter, service: TimerService) -> None:
    @router.post(_TIMERS, summary="Make a timer", responses=_LOCATED)
    async def create(body: TimerRequest) -> Response:
        return await _make(service, body)

    @router.put("/timers/{timer_id:path}", summary="Make or replace a timer", responses=_LOCATED)
    async def replace(timer_id: str, body: TimerRequest) -> Response:
        parts = split_id(timer_id)
        if parts is None:
            raise _unknown(timer_id)
        await service.put(parts[0], body.rule(service.now_ms(), parts[1]))
        return _located(*parts)

    @router.delete("/timers/{timer_id:path}", summary="Delete a timer", responses=_LOCATED)
    async def delete(timer_id: str) -> Response:
        parts = split_id(timer_id)
        if parts is None:
            raise _unknown(timer_id)
        await service.put(parts[0], None)
        return _located(*parts)

    @router.get("/timers/{timer_id:path}", summary="Show a timer")
    async def show(timer_id: str) -> DescribedTimer:
        parts = split_id(timer_id)
        found = None if parts is None else await service.find(parts[0])
        if found is None:
            raise _unknown(timer_id)
        return DescribedTimer.of(found.id, found.state, service.now_ms())


def _add_listing(router: TypedRouter, service: TimerService) -> None:
    @router.get(_TIMERS, summary="List timers, or those with a tag")
    async def timers(
        limit: Annotated[int, Query(ge=1, le=_LIST_MAX)] = _LIST_DEFAULT,
        tag: str | None = None,
        after: Annotated[str | None, Query(json_schema_extra={"format": "cursor"})] = None,
    ) -> DescribedTimers:
        try:
            page = await service.page(tag, after, limit)
        except ValueError as error:
            raise InvalidTimer(str(error)) from None
        now_ms = service.now_ms()
        found = [DescribedTimer.of(each.id, each.state, now_ms) for each in page.timers]
        return DescribedTimers(found, page.next_after)


def _located(timer_id: str, replication: int) -> Response:
    return Response(status_code=200, headers={"Location": f"/timers/{timer_id}-{replication}"})


def _unknown(timer_id: str) -> HTTPException:
    return HTTPException(404, f"there is no timer {json.dumps(timer_id[:80])}")
