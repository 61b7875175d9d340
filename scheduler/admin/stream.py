"""The figures as they change: server-sent events, one a second, to any number of clients.

Each event carries the time of its figures. A slow client gets the newest picture when it is ready
for it, never a backlog.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.admin.asking import admin_router
from hourhand.scheduler.admin.problems import MEDIA_TYPE, Problem
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.services.http.typed_routes import TypedRouter, encoded

_PAUSE_S = 0.25
_KEEP_ALIVE_S = 10.0
_LIFE_S = 3_600.0
"""A stream ends after an hour; the browser opens the next one, and its token is checked again."""

_EVENTS = {
    "schema": {
        "type": "string",
        "description": "Events status, nodes, partitions, blocked and failing, each with what the"
        " path of its name answers, and pauses with the version of what is paused.",
    }
}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class _Streams:
    """The number of open streams."""

    def __init__(self, most: int) -> None:
        self.left = most


class _Stream(StreamingResponse):
    """One stream: it holds its slot exactly as long as it is being sent.

    A client may leave before the first event is asked for, so the events cannot keep count.
    """

    def __init__(self, streams: _Streams, events: AsyncIterator[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_HEADERS)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or refuse if too many streams are open."""
        if self._streams.left <= 0:
            full = Problem(503, "too-many-streams", "too many streams are open (admin.streams_max)")
            await encoded(full.details(), full.status, MEDIA_TYPE)(scope, receive, send)
            return
        self._streams.left -= 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.left += 1


def stream_routes(service: AdminService) -> TypedRouter:
    """Return the path of the stream."""
    router = admin_router()
    streams = _Streams(service.settings.admin.streams_max)

    @router.get(
        "/stream",
        tags=["cluster"],
        summary="Status, nodes, partitions and troubles as they change, as server-sent events",
        openapi_extra={"responses": {"200": {"content": {"text/event-stream": _EVENTS}}}},
    )
    async def stream() -> StreamingResponse:
        return _Stream(streams, _events(service))

    return router


async def _events(service: AdminService) -> AsyncIterator[str]:
    cluster = service.cluster
    loop = asyncio.get_running_loop()
    ends = loop.time() + _LIFE_S
    told = loop.time()
    config_version = -1
    look_number = -1
    yield "retry: 1000\n\n"
    while loop.time() < ends and not cluster.is_closed:
        if cluster.look_number != look_number:
            look_number = cluster.look_number
            told = loop.time()
            for name, value in _pictures(service).items():
                yield _event(name, await loop.run_in_executor(None, value))
            if cluster.config.version != config_version:
                config_version = cluster.config.version
                yield _event("pauses", {"version": config_version})
        elif loop.time() - told > _KEEP_ALIVE_S:
            told = loop.time()
            yield ": still here\n\n"
        await asyncio.sleep(_PAUSE_S)


def _pictures(service: AdminService) -> dict[str, Callable[[], Answer]]:
    cluster = service.cluster
    return {
        "status": cluster.status,
        "nodes": cluster.nodes,
        "partitions": cluster.partitions,
        "blocked": cluster.blocked,
        "failing": cluster.failing,
    }


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {msgspec.json.encode(value).decode()}\n\n"
