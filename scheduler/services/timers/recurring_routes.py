"""Recurring schedules over HTTP: cron and intervals that call a URL back.

Decides paths and fields; the schedules themselves are those of the library.
"""

import asyncio
from typing import Any, cast

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from actors.model.definition import DefinitionKind
from actors.model.instant import format_instant, parse_instant
from actors.model.task import Task
from actors.ports.clock import Clock
from scheduler.futures.awaiting import settled
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.recurring.requests import request_task, set_task
from scheduler.services.recurring.rule import RecurringRule, checked_name, checked_rule, next_times
from scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
)
from scheduler.services.timers.calls import call_ordering_id
from scheduler.services.timers.timer import InvalidTimer, callback_of

_LOOKS = 3
_LOOK_PAUSE_S = 0.05
_PAGE_ROWS = 500
_NEXT_MAX = 100
_FIELDS = {
    "cron": ("cron", None),
    "every": ("every_ms", 1000),
    "time-zone": ("time_zone", None),
    "overlap": ("overlap", None),
    "catch-up": ("catch_up_ms", 1000),
    "jitter": ("jitter_ms", 1000),
    "times": ("count_max", None),
}
"""Field of a request to the rule's, and what its number is multiplied by."""


class RecurringService:
    """The operations behind the requests."""

    def __init__(self, appender: TaskAppender, definitions: DefinitionBook, clock: Clock) -> None:
        self._appender = appender
        self._definitions = definitions
        self._clock = clock

    def now_ms(self) -> int:
        """Return the wall clock."""
        return self._clock.now_ms()

    async def append(self, task: Task) -> None:
        """Return when the log holds a change durably."""
        await settled(self._appender.append(task))

    async def find(self, name: str) -> Recurring | None:
        """Return a schedule; None where there is none or it has ended."""
        for look in range(_LOOKS):
            if look:
                # Accepted a moment ago, it may not be in the store yet.
                await asyncio.sleep(_LOOK_PAUSE_S)
            row = await settled(self._definitions.find(name_of(name)))
            if row is not None and not row.ended:
                found = recurring_of(row)
                return None if found.state.over else found
        return None

    async def all(self) -> list[Recurring]:
        """Return all schedules, by name."""
        found: list[Recurring] = []
        after: str | None = None
        while True:
            page = await settled(
                self._definitions.page(DefinitionKind.RECURRING, after, _PAGE_ROWS)
            )
            found += map(recurring_of, page.definitions)
            after = page.next_after
            if after is None:
                break
        return sorted((one for one in found if not one.state.over), key=lambda one: one.name)


def add_recurring(app: FastAPI, service: RecurringService, bytes_max: int) -> None:
    """Add the paths below ``/recurring``."""

    @app.put("/recurring/{name}", summary="Make or replace a recurring schedule")
    async def replace(name: str, request: Request) -> Response:
        body = await read_body(request, bytes_max)
        await service.append(set_task(name, parse_recurring(name, body), service.now_ms()))
        return PlainTextResponse("accepted")

    @app.delete("/recurring/{name}", summary="End a recurring schedule")
    async def delete(name: str) -> Response:
        return await change(name, Change.DELETE.value)

    @app.post("/recurring/{name}/{change_name}", summary="pause, resume or trigger a schedule")
    async def change(name: str, change_name: str) -> Response:
        asked = {each.value: each for each in Change if each is not Change.SET}.get(change_name)
        if asked is None:
            return PlainTextResponse("a change is one of pause, resume, trigger", 404)
        await service.append(request_task(name, ChangeRequest(asked), service.now_ms()))
        return PlainTextResponse("accepted")

    @app.get("/recurring", summary="List recurring schedules")
    async def list_all() -> Response:
        return JSONResponse({"recurring": [recurring_value(one) for one in await service.all()]})

    @app.get("/recurring/{name}", summary="Look at a recurring schedule and its next times")
    async def show(name: str, request: Request) -> Response:
        wanted = request.query_params.get("next", "5")
        if not wanted.isascii() or not wanted.isdigit() or int(wanted[:6]) > _NEXT_MAX:
            raise InvalidTimer(f"next must be 0 to {_NEXT_MAX}, got {wanted[:40]!r}")
        found = await service.find(checked_name(name))
        if found is None:
            return PlainTextResponse("there is no such recurring schedule", 404)
        value = recurring_value(found)
        if not found.state.paused:
            anchor_ms, count = found.state.anchor_ms, int(wanted)
            times = next_times(found.rule, service.now_ms(), anchor_ms, count)
            value["next-times"] = [text.partition(" ")[2] for text in times]
        return JSONResponse(value)


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Return a request's body; raises InvalidTimer once it is longer than allowed."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            raise InvalidTimer(f"the body is longer than {bytes_max} bytes")
    return bytes(body)


def parse_recurring(name: str, body: bytes) -> RecurringRule:
    """Read a request's body; raises InvalidTimer, or InvalidTask for a rule that can be none."""
    try:
        root = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        raise InvalidTimer(f"the body is not JSON: {error}") from None
    uri, opaque = callback_of(root)
    asked = root.get("schedule")
    if not isinstance(asked, dict):
        raise InvalidTimer("schedule is missing, or no object")
    values: dict[str, object] = {
        "ordering_id": call_ordering_id(checked_name(name)),
        "data": {"uri": uri, "opaque": opaque},
    }
    for field, given in asked.items():
        if field in ("from", "until"):
            values["starts_ms" if field == "from" else "ends_ms"] = _instant(field, given)
        elif field in _FIELDS:
            target, factor = _FIELDS[field]
            whole = factor is not None and type(given) is int
            values[target] = cast("int", given) * cast("int", factor) if whole else given
        else:
            known = ", ".join([*_FIELDS, "from", "until"])
            raise InvalidTimer(f"schedule.{field[:40]} is unknown; known are {known}")
    return checked_rule(**values)


def _instant(field: str, given: Any) -> int:
    try:
        return parse_instant(given)
    except (TypeError, ValueError):
        raise InvalidTimer(f"schedule.{field} must be a time in RFC 3339 with a zone") from None


def recurring_value(found: Recurring) -> dict[str, Any]:
    """Return a schedule as JSON, in the fields of a request."""
    rule, state = found.rule, found.state
    shown: dict[str, Any] = {}
    for field, (name, factor) in _FIELDS.items():
        value = getattr(rule, name)
        if value is not None:
            shown[field] = value if factor is None else value / factor
    bounds = (("from", rule.starts_ms), ("until", rule.ends_ms))
    shown |= {field: format_instant(ms) for field, ms in bounds if ms is not None}
    return {
        "name": found.name,
        "schedule": shown,
        "callback": {"http": rule.data} if "uri" in rule.data else None,
        "ordering-id": rule.ordering_id,
        "paused": state.paused,
        "next": None if found.next_ms is None else format_instant(found.next_ms),
        "taken": state.taken,
        "skipped": state.skipped,
        "missed": state.missed,
    }
