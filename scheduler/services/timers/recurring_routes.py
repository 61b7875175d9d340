"""Recurring schedules over HTTP: cron and intervals that call a URL back.

Decides paths and fields; the schedules themselves are those of the library.
"""

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Query, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from actors.model.definition import DefinitionKind
from actors.model.instant import format_instant, parse_instant
from actors.model.task import Task
from actors.ports.clock import Clock
from scheduler.futures.awaiting import settled
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.recurring.requests import request_task, set_task
from scheduler.services.recurring.rule import (
    Overlap,
    RecurringRule,
    checked_name,
    checked_rule,
    next_times,
)
from scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
)
from scheduler.services.timers.calls import call_ordering_id
from scheduler.services.timers.timer import CallbackRequest, RequestPart, Seconds

_LOOKS = 3
_LOOK_PAUSE_S = 0.05
_PAGE_ROWS = 500
_NEXT_DEFAULT, _NEXT_MAX = 5, 100


def _instant(text: str) -> int:
    try:
        return parse_instant(text)
    except (TypeError, ValueError):
        raise ValueError("it must be a time in RFC 3339 with a zone") from None


Duration = Annotated[
    Seconds,
    AfterValidator(lambda seconds: 1000 * seconds),
    PlainSerializer(lambda ms: ms / 1000, when_used="json"),
]
"""Milliseconds, told in seconds."""
Instant = Annotated[
    int,
    BeforeValidator(_instant),
    PlainSerializer(format_instant, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds, told as RFC 3339 has it."""


class ScheduleFields(RequestPart):
    """When a recurring schedule is due: the rule's fields, and their names and units outside.

    What they may hold, and which belong together, the rule judges.
    """

    model_config = ConfigDict(extra="forbid")

    cron: str | None = None
    every_ms: Duration | None = Field(None, alias="every")
    time_zone: str = Field("UTC", alias="time-zone")
    overlap: Overlap = "skip"
    catch_up_ms: Duration = Field(0, alias="catch-up")
    jitter_ms: Duration = Field(0, alias="jitter")
    starts_ms: Instant | None = Field(None, alias="from")
    ends_ms: Instant | None = Field(None, alias="until")
    count_max: int | None = Field(None, alias="times")


class RecurringRequest(RequestPart):
    """A request for a recurring schedule."""

    schedule: ScheduleFields
    callback: CallbackRequest

    def rule(self, name: str) -> RecurringRule:
        """Return what is asked for; raises InvalidTask where there is no such rule."""
        return checked_rule(
            ordering_id=call_ordering_id(checked_name(name)),
            data=self.callback.http.model_dump(),
            **self.schedule.model_dump(exclude_unset=True),
        )


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


def add_recurring(app: FastAPI, service: RecurringService) -> None:
    """Add the paths below ``/recurring``."""

    @app.put("/recurring/{name}", summary="Make or replace a recurring schedule")
    async def replace(name: str, body: RecurringRequest) -> Response:
        await service.append(set_task(name, body.rule(name), service.now_ms()))
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
    async def show(
        name: str,
        count: Annotated[int, Query(alias="next", ge=0, le=_NEXT_MAX)] = _NEXT_DEFAULT,
    ) -> Response:
        found = await service.find(checked_name(name))
        if found is None:
            return PlainTextResponse("there is no such recurring schedule", 404)
        value = recurring_value(found)
        if not found.state.paused:
            times = next_times(found.rule, service.now_ms(), found.state.anchor_ms, count)
            value["next-times"] = [text.partition(" ")[2] for text in times]
        return JSONResponse(value)


def recurring_value(found: Recurring) -> dict[str, Any]:
    """Return a schedule as JSON, in the fields of a request."""
    rule, state = found.rule, found.state
    fields = ScheduleFields.model_construct(
        **rule.model_dump(include={*ScheduleFields.model_fields}, exclude_none=True)
    )
    return {
        "name": found.name,
        "schedule": fields.model_dump(mode="json", by_alias=True, exclude_none=True),
        "callback": {"http": rule.data} if "uri" in rule.data else None,
        "ordering-id": rule.ordering_id,
        "paused": state.paused,
        "next": None if found.next_ms is None else format_instant(found.next_ms),
        "taken": state.taken,
        "skipped": state.skipped,
        "missed": state.missed,
    }
