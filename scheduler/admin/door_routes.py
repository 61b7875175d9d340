"""Paths of the other services: recurring schedules, timers, waiting messages.

They read and change the installation of this process's settings, which a service with the same
settings uses. Every act is audited before it begins.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from fastapi import Path, Query, Request
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.admin import asking
from hourhand.scheduler.admin.acting import Action, Preview, TasksActedOn
from hourhand.scheduler.admin.answers import Answer, instant_text
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.admin.recurring import (
    RecurringChange,
    ScheduleAnswer,
    ScheduleListing,
    SchedulesChanged,
)
from hourhand.scheduler.admin.relayed import (
    MessageAnswer,
    MessageListing,
    ShownMessage,
    is_delivery,
)
from hourhand.scheduler.admin.service import AdminService, ShownInstallation
from hourhand.scheduler.admin.timers import TimerAnswer, TimerListing, TimersEnded
from hourhand.scheduler.services.http.typed_routes import TypedRouter

_NEXT_MAX = 100
_DAY_MS = 86_400_000
_AHEAD_DAYS = 31
_AHEAD_DAYS_MAX = 400
"""A store could look farther ahead only by reading every hour."""

Cursor = Annotated[
    str | None,
    Query(
        max_length=asking.KEY_CHARS_MAX,
        description="A nextAfter.",
        json_schema_extra={"format": "cursor"},
    ),
]
_Report = TypeVar("_Report", SchedulesChanged, TasksActedOn, TimersEnded)
MOVES = (Action.CANCEL, Action.RESCHEDULE, Action.RUN_NOW)


class RelayTopics(Answer, frozen=True):
    """The topics of a relay with these settings."""

    in_topic: str
    out_topic: str
    group_id: str
    in_use: bool
    """True if a message waits within the next 31 days."""


class TimersPlace(Answer, frozen=True):
    """The address of the timer service with these settings."""

    host: str
    port: int
    in_use: bool
    """True if there is a timer."""


class ShownDoors(Answer, frozen=True):
    """The installation that these paths read."""

    installation: ShownInstallation
    relay: RelayTopics
    timers: TimersPlace
    note: str


def door_routes(service: AdminService) -> TypedRouter:
    """Return these paths."""
    router = asking.admin_router()
    _add_installation(router, service)
    _add_recurring(router, service)
    _add_recurring_acts(router, service)
    _add_timers(router, service)
    _add_relay(router, service)
    _add_relay_acts(router, service)
    return router


def _add_installation(router: TypedRouter, service: AdminService) -> None:
    @router.get("/doors", tags=["doors"], summary="The installation that these paths read")
    def doors() -> ShownDoors:
        relay, timers = service.settings.relay, service.settings.timers
        waiting = service.relayed.page(None, 1, service.clock.now_ms() + _AHEAD_DAYS * _DAY_MS)
        kept = service.timers.page(None, None, 1, data=False)
        return ShownDoors(
            installation=service.installation,
            relay=RelayTopics(
                in_topic=relay.in_topic,
                out_topic=relay.out_topic,
                group_id=relay.group_id,
                in_use=bool(waiting.tasks) or waiting.next_after is not None,
            ),
            timers=TimersPlace(
                host=timers.host,
                port=timers.port,
                in_use=bool(kept.timers) or kept.next_after is not None,
            ),
            note="data of services with other settings, or of Kafka alone, is not shown here",
        )


def _add_recurring(router: TypedRouter, service: AdminService) -> None:
    schedules, shows_data = service.recurring, service.settings.admin.show_data

    @router.get("/recurring", tags=["recurring"], summary="Recurring schedules, in pages")
    def page(
        limit: asking.Limit = 100, after: Cursor = None, *, data: asking.WithData = False
    ) -> ScheduleListing:
        return schedules.page(after, limit, data=data and shows_data)

    @router.get(
        "/recurring/schedule",
        tags=["recurring"],
        summary="One schedule with its next times and last runs",
        responses=asking.NOT_FOUND,
    )
    def show(
        name: Annotated[
            str,
            Query(
                max_length=asking.KEY_CHARS_MAX,
                json_schema_extra={"minLength": 1, "maxLength": 1_000},
            ),
        ],
        next_: Annotated[int, Query(alias="next", ge=0, le=_NEXT_MAX)] = 5,
    ) -> ScheduleAnswer:
        found = schedules.find(name)
        if found is None:
            raise _unknown(service, "schedule", "no recurring schedule has this name", name=name)
        return ScheduleAnswer(recurring=schedules.shown(found, next_, data=shows_data))


def _add_recurring_acts(router: TypedRouter, service: AdminService) -> None:
    schedules = service.recurring

    @router.post(
        "/recurring/{change}",
        tags=["recurring"],
        summary="Pause, resume, trigger or end schedules",
        responses=asking.ACT_REFUSALS,
    )
    def change(
        change: Annotated[RecurringChange, Path()], body: asking.RecurringBody, request: Request
    ) -> Preview | SchedulesChanged:
        known = list(schedules.known(body.names))
        unknown = [each for each in dict.fromkeys(body.names) if each not in known]
        what, names = (f"recurring {change.value}", "schedules"), (known, unknown)
        act = partial(schedules.change, change, known, body.wait_s)
        return _acted(service, request, body, what, names, act)


def _add_timers(router: TypedRouter, service: AdminService) -> None:
    timers, shows_data = service.timers, service.settings.admin.show_data

    @router.get("/timers", tags=["timers"], summary="Timers, those of a tag, in pages")
    def page(
        tag: Annotated[str | None, Query(max_length=100)] = None,
        limit: asking.Limit = 100,
        after: Cursor = None,
        *,
        data: asking.WithData = False,
    ) -> TimerListing:
        return timers.page(tag, after, limit, data=data and shows_data)

    @router.get(
        "/timers/timer",
        tags=["timers"],
        summary="One timer with the tasks it waits for",
        responses=asking.NOT_FOUND,
    )
    def show(timer_id: Annotated[str, Query(alias="id", max_length=200)]) -> TimerAnswer:
        found = timers.find(timer_id)
        if found is None:
            raise _unknown(service, "timer", "no timer has this id, or it has ended", id=timer_id)
        return TimerAnswer(timer=timers.shown(found, data=shows_data))

    @router.post(
        "/timers/delete", tags=["timers"], summary="End timers", responses=asking.ACT_REFUSALS
    )
    def delete(body: asking.TimersBody, request: Request) -> Preview | TimersEnded:
        known = timers.known(body.ids)
        unknown = [each for each in dict.fromkeys(body.ids) if each not in known]
        what, names = ("timer delete", "timers"), (list(known), unknown)
        return _acted(service, request, body, what, names, partial(timers.delete, known.values()))


def _add_relay(router: TypedRouter, service: AdminService) -> None:
    relayed, data = service.relayed, service.settings.admin.show_data

    @router.get("/relay/pending", tags=["relay"], summary="Messages that wait, earliest first")
    def pending(
        limit: asking.Limit = 100,
        after: asking.KeyBehind = None,
        to: asking.Time = None,
    ) -> MessageListing:
        now_ms = service.clock.now_ms()
        to_ms = now_ms + _AHEAD_DAYS * _DAY_MS if to is None else asking.parsed_ms("to", to)
        if to_ms > now_ms + _AHEAD_DAYS_MAX * _DAY_MS:
            raise Problem(400, "invalid-request", f"to: at most {_AHEAD_DAYS_MAX} days ahead")
        listing = relayed.page(None if after is None else asking.parsed_key(after), limit, to_ms)
        return MessageListing(
            messages=[ShownMessage.of(each) for each in listing.tasks],
            before=instant_text(to_ms),
            next_after=None if listing.next_after is None else str(listing.next_after),
        )

    @router.get(
        "/relay/message",
        tags=["relay"],
        summary="The message that waits under an id",
        responses=asking.NOT_FOUND,
    )
    def message(
        message_id: Annotated[str, Query(alias="id", max_length=asking.KEY_CHARS_MAX)],
    ) -> MessageAnswer:
        found = relayed.find(message_id)
        if found is None:
            raise _unknown(service, "message", "no message waits under this id", id=message_id)
        return MessageAnswer(message=relayed.shown(found, data=data))


def _add_relay_acts(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/relay/{action}",
        tags=["relay"],
        summary="Cancel, reschedule or pass on waiting messages",
        responses=asking.ACT_REFUSALS,
    )
    def act(
        action: Annotated[Action, Path()], body: asking.RelayBody, request: Request
    ) -> Preview | TasksActedOn:
        if action not in MOVES:
            raise Problem(
                404, "no-such-path", f"the action {action.value} is not possible for a message"
            )
        to = asking.target_time(body.to, moves=action is Action.RESCHEDULE)
        keys, unknown = _named(service, body)

        def send() -> TasksActedOn:
            return TasksActedOn.of(
                service.actions.act(action, keys, to, body.wait_s), f"relay {action.value}"
            )

        what, names = (f"relay {action.value}", "messages"), (list(map(str, keys)), unknown)
        return _acted(service, request, body, what, names, send)


def _acted(
    service: AdminService,
    request: Request,
    body: asking.ChangeBody,
    what: tuple[str, str],
    names: tuple[list[str], list[str]],
    act: Callable[[], _Report],
) -> Preview | _Report:
    """Preview an act on known names, or do it; ``what`` is as in the audit log.

    The unknown names, second, are answered in any case.
    """
    known, unknown = names
    if body.dry_run:
        return replace(Preview.of(known), unknown=unknown)
    if not known:
        return replace(act(), unknown=unknown)
    who = asking.who_asks(request)
    report = service.audit.audited_report(who, what, known, body.reason, act)
    return replace(report, unknown=unknown)


def _named(service: AdminService, body: asking.RelayBody) -> tuple[list[TaskKey], list[str]]:
    """Return the deliveries that a body names, and the ids without a waiting message."""
    if (body.keys is None) is (body.ids is None):
        raise Problem(400, "invalid-request", "give either `keys` or `ids`")
    if body.ids is not None:
        found = service.relayed.known(body.ids)
        unknown = [each for each in dict.fromkeys(body.ids) if each not in found]
        return [view.key for view in found.values()], unknown
    keys = [asking.parsed_key(text) for text in dict.fromkeys(body.keys or ())]
    for key in keys:
        if not is_delivery(key):
            raise Problem(400, "invalid-request", "no message waits under this key", key=str(key))
    return keys, []


def _unknown(service: AdminService, what: str, detail: str, **more: str) -> Problem:
    installation = msgspec.to_builtins(service.installation)
    place = ", ".join(f"{name} {value}" for name, value in installation.items())
    return Problem(404, f"unknown-{what}", f"{detail} in this installation ({place})", **more)
