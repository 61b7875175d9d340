"""Recurring schedules over HTTP: cron and intervals that call a URL back.

Decides paths and fields; the schedules themselves are those of the library.
"""

import asyncio
from typing import Annotated, Self

from fastapi import HTTPException, Query
from fastapi.responses import PlainTextResponse
from msgspec import UNSET, UnsetType, field
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from hourhand.actors.model.task.definition import DefinitionKind
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant, parse_instant
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.http.typed_routes import TypedRouter
from hourhand.scheduler.services.recurring.requests import request_task, set_task
from hourhand.scheduler.services.recurring.rule import (
    EXCEPT_DATES_MAX,
    Overlap,
    RecurringRule,
    checked_name,
    checked_rule,
    next_times,
)
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.timers.calls import call_ordering_id
from hourhand.scheduler.services.timers.timer import (
    CallbackRequest,
    CallbackTarget,
    DescribedCallback,
    RequestPart,
    Seconds,
    ServiceAnswer,
    Time,
)
from hourhand.scheduler.tasks.appending import TaskAppender

_LOOKS = 3
_LOOK_PAUSE_S = 0.05
_PAGE_ROWS = 500
_NEXT_DEFAULT, _NEXT_MAX = 5, 100


def _instant(text: str) -> int:
    try:
        return parse_instant(text)
    except (TypeError, ValueError):
        raise ValueError("it must be a time in RFC 3339 with a zone") from None


Duration = Annotated[Seconds, AfterValidator(lambda seconds: 1000 * seconds)]
"""Milliseconds, written as seconds."""
Instant = Annotated[
    int,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds since 1970, written as RFC 3339 text."""


class ScheduleFields(RequestPart):
    """The times of a recurring schedule: the rule's fields under their public names and units.

    The rule validates their values and combinations.
    """

    model_config = ConfigDict(extra="forbid")

    cron: str | None = Field(None, json_schema_extra={"format": "cron"})
    every_ms: Duration | None = Field(None, alias="every", json_schema_extra={"minimum": 1})
    time_zone: str = Field("UTC", alias="time-zone", json_schema_extra={"format": "time-zone"})
    overlap: Overlap = "skip"
    catch_up_ms: Duration = Field(0, alias="catch-up")
    jitter_ms: Duration = Field(0, alias="jitter")
    starts_ms: Instant | None = Field(None, alias="from")
    ends_ms: Instant | None = Field(None, alias="until")
    except_dates: list[Annotated[str, Field(json_schema_extra={"format": "date"})]] = Field(
        default_factory=list, alias="except-dates", max_length=EXCEPT_DATES_MAX
    )
    count_max: int | None = Field(None, alias="times", json_schema_extra={"minimum": 1})


class RecurringRequest(RequestPart):
    """A request for a recurring schedule."""

    schedule: ScheduleFields
    callback: CallbackRequest

    def rule(self, name: str) -> RecurringRule:
        """Return the requested rule; raises InvalidTask if it is not valid."""
        return checked_rule(
            ordering_id=call_ordering_id(checked_name(name)),
            data=self.callback.http.model_dump(),
            **self.schedule.model_dump(exclude_unset=True),
        )


class ScheduleDescription(ServiceAnswer, frozen=True, kw_only=True):
    """The times of a recurring schedule, as it was requested; durations are seconds."""

    cron: str | UnsetType = UNSET
    every: float | UnsetType = UNSET
    time_zone: str
    overlap: Overlap
    catch_up: float
    jitter: float
    starts: Time | UnsetType = field(default=UNSET, name="from")
    until: Time | UnsetType = UNSET
    except_dates: list[str] | UnsetType = UNSET
    times: int | UnsetType = UNSET


class DescribedSchedule(ServiceAnswer, frozen=True):
    """A recurring schedule and, if it is shown alone and not paused, its next times."""

    name: str
    schedule: ScheduleDescription
    callback: DescribedCallback | None
    ordering_id: str
    paused: bool
    next: Time | None
    taken: int
    skipped: int
    missed: int
    next_times: list[str] | UnsetType = UNSET

    @classmethod
    def of(cls, found: Recurring) -> Self:
        """Describe a schedule."""
        rule, state = found.rule, found.state
        target = rule.data.get("uri"), rule.data.get("opaque")
        return cls(
            name=found.name,
            schedule=_description(rule),
            callback=None
            if target[0] is None
            else DescribedCallback(CallbackTarget(*map(str, target))),
            ordering_id=rule.ordering_id,
            paused=state.paused,
            next=None if found.next_ms is None else format_instant(found.next_ms),
            taken=state.taken,
            skipped=state.skipped,
            missed=state.missed,
        )


class DescribedSchedules(ServiceAnswer, frozen=True):
    """All recurring schedules, by name."""

    recurring: list[DescribedSchedule]


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
        """Return a schedule; None if there is none or it has ended."""
        for look in range(_LOOKS):
            if look:
                # A schedule that was accepted a moment ago may not be in the store yet.
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


def add_recurring(router: TypedRouter, service: RecurringService) -> None:
    """Add the paths below ``/recurring``."""

    @router.put("/recurring/{name}", summary="Make or replace a recurring schedule")
    async def set_(name: str, body: RecurringRequest) -> PlainTextResponse:
        await service.append(set_task(name, body.rule(name), service.now_ms()))
        return PlainTextResponse("accepted")

    @router.delete("/recurring/{name}", summary="End a recurring schedule")
    async def delete(name: str) -> PlainTextResponse:
        return await change(name, Change.DELETE.value)

    @router.post("/recurring/{name}/{change_name}", summary="pause, resume or trigger a schedule")
    async def change(name: str, change_name: str) -> PlainTextResponse:
        asked = {each.value: each for each in Change if each is not Change.SET}.get(change_name)
        if asked is None:
            raise HTTPException(404, "a change is one of pause, resume, trigger")
        await service.append(request_task(name, ChangeRequest(asked), service.now_ms()))
        return PlainTextResponse("accepted")

    @router.get("/recurring", summary="List recurring schedules")
    async def list_all() -> DescribedSchedules:
        return DescribedSchedules([DescribedSchedule.of(each) for each in await service.all()])

    @router.get("/recurring/{name}", summary="Show a recurring schedule and its next times")
    async def show(
        name: str,
        count: Annotated[int, Query(alias="next", ge=0, le=_NEXT_MAX)] = _NEXT_DEFAULT,
    ) -> DescribedSchedule:
        found = await service.find(checked_name(name))
        if found is None:
            raise HTTPException(404, "there is no such recurring schedule")
        shown = DescribedSchedule.of(found)
        if found.state.paused:
            return shown
        times = next_times(found.rule, service.now_ms(), found.state.anchor_ms, count)
        return replace(shown, next_times=[text.partition(" ")[2] for text in times])


def _description(rule: RecurringRule) -> ScheduleDescription:
    return ScheduleDescription(
        cron=UNSET if rule.cron is None else rule.cron,
        every=UNSET if rule.every_ms is None else rule.every_ms / 1000,
        time_zone=rule.time_zone,
        overlap=rule.overlap,
        catch_up=rule.catch_up_ms / 1000,
        jitter=rule.jitter_ms / 1000,
        starts=UNSET if rule.starts_ms is None else format_instant(rule.starts_ms),
        until=UNSET if rule.ends_ms is None else format_instant(rule.ends_ms),
        except_dates=rule.except_dates or UNSET,
        times=UNSET if rule.count_max is None else rule.count_max,
    )
