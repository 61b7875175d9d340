"""Paths of what the other doors keep: recurring schedules, timers, messages that wait.

They look and act on the installation of this process's settings, the one that a door of the
same settings works with.  Every act is audited before it begins.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from actors.model.key import TaskKey
from scheduler.admin.acting import Action
from scheduler.admin.asking import (
    KEY_CHARS_MAX,
    Limit,
    RecurringBody,
    RelayBody,
    TimersBody,
    parsed_key,
    parsed_ms,
    parsed_time,
    who_asks,
)
from scheduler.admin.recurring import RecurringChange, recurring_value
from scheduler.admin.refusals import Problem
from scheduler.admin.relayed import delivery_value, is_delivery
from scheduler.admin.service import AdminService
from scheduler.admin.values import instant_value

_SHOWN_MAX = 20
_NEXT_MAX = 100
_DAY_MS = 86_400_000
_AHEAD_DAYS = 31
_AHEAD_DAYS_MAX = 400
"""Farther than this a store cannot look without going through all of its hours."""

Cursor = Annotated[str | None, Query(max_length=KEY_CHARS_MAX, description="A nextAfter.")]
MOVES = (Action.CANCEL, Action.RESCHEDULE, Action.RUN_NOW)


def door_routes(service: AdminService) -> APIRouter:
    """Return these paths."""
    router = APIRouter()
    _add_installation(router, service)
    _add_recurring(router, service)
    _add_timers(router, service)
    _add_relay(router, service)
    _add_relay_acts(router, service)
    return router


def _add_installation(router: APIRouter, service: AdminService) -> None:
    @router.get("/doors", tags=["doors"], summary="Which installation is looked at")
    def doors() -> dict[str, Any]:
        settings = service.settings
        return {
            "installation": service.installation,
            "relay": {
                "inTopic": settings.relay.in_topic,
                "outTopic": settings.relay.out_topic,
                "groupId": settings.relay.group_id,
            },
            "timers": {"host": settings.timers.host, "port": settings.timers.port},
            "note": "what doors with other settings keep, or Kafka alone, is not seen here",
        }


def _add_recurring(router: APIRouter, service: AdminService) -> None:
    schedules, data = service.recurring, service.settings.admin.show_data

    @router.get("/recurring", tags=["recurring"], summary="Recurring schedules, in pages")
    def page(limit: Limit = 100, after: Cursor = None) -> dict[str, Any]:
        listing = schedules.page(after, limit)
        return {
            "recurring": [recurring_value(each, data=data) for each in listing.found],
            "nextAfter": listing.next_after,
        }

    @router.get(
        "/recurring/schedule", tags=["recurring"], summary="One with its next times and last runs"
    )
    def show(
        name: Annotated[str, Query(max_length=KEY_CHARS_MAX)],
        next_: Annotated[int, Query(alias="next", ge=0, le=_NEXT_MAX)] = 5,
    ) -> dict[str, Any]:
        found = schedules.find(name)
        if found is None:
            raise _unknown(service, "schedule", "no recurring schedule has this name", name=name)
        return {"recurring": schedules.shown(found, next_, data=data)}

    @router.post(
        "/recurring/{change}", tags=["recurring"], summary="Pause, resume, trigger or end schedules"
    )
    def change(
        change: Annotated[RecurringChange, Path()], body: RecurringBody, request: Request
    ) -> dict[str, Any]:
        known = list(schedules.known(body.names))
        unknown = [each for each in dict.fromkeys(body.names) if each not in known]

        def act() -> dict[str, Any]:
            return schedules.change(change, known, body.wait_s)

        if body.dry_run or not known:
            return _preview(known, unknown, dry_run=body.dry_run)
        what = f"recurring {change.value}", "schedules"
        told = service.audit.audited_report(who_asks(request), what, known, body.reason, act)
        return {**told, "unknown": unknown}


def _add_timers(router: APIRouter, service: AdminService) -> None:
    timers, data = service.timers, service.settings.admin.show_data

    @router.get("/timers", tags=["timers"], summary="Timers, those of a tag, in pages")
    def page(
        tag: Annotated[str | None, Query(max_length=100)] = None,
        limit: Limit = 100,
        after: Cursor = None,
    ) -> dict[str, Any]:
        listing = timers.page(tag, after, limit)
        return {
            "timers": [timers.value(each, data=data) for each in listing.found],
            "nextAfter": listing.next_after,
        }

    @router.get("/timers/timer", tags=["timers"], summary="One with what it waits for")
    def show(timer_id: Annotated[str, Query(alias="id", max_length=200)]) -> dict[str, Any]:
        found = timers.find(timer_id)
        if found is None:
            raise _unknown(service, "timer", "no timer has this id, or it has ended", id=timer_id)
        return {"timer": timers.shown(found, data=data)}

    @router.post("/timers/delete", tags=["timers"], summary="End timers")
    def delete(body: TimersBody, request: Request) -> dict[str, Any]:
        known = timers.known(body.ids)
        unknown = [each for each in dict.fromkeys(body.ids) if each not in known]

        def act() -> dict[str, Any]:
            return timers.delete(known.values())

        if body.dry_run or not known:
            return _preview(list(known), unknown, dry_run=body.dry_run)
        what = "timer delete", "timers"
        told = service.audit.audited_report(who_asks(request), what, list(known), body.reason, act)
        return {**told, "unknown": unknown}


def _add_relay(router: APIRouter, service: AdminService) -> None:
    relayed, data = service.relayed, service.settings.admin.show_data

    @router.get("/relay/pending", tags=["relay"], summary="Messages that wait, earliest first")
    def pending(
        limit: Limit = 100,
        after: Cursor = None,
        to: Annotated[str | None, Query(max_length=40)] = None,
    ) -> dict[str, Any]:
        now_ms = service.clock.now_ms()
        to_ms = now_ms + _AHEAD_DAYS * _DAY_MS if to is None else parsed_ms("to", to)
        if to_ms > now_ms + _AHEAD_DAYS_MAX * _DAY_MS:
            raise Problem(400, "invalid-request", f"to: at most {_AHEAD_DAYS_MAX} days ahead")
        listing = relayed.page(None if after is None else parsed_key(after), limit, to_ms)
        return {
            "messages": [delivery_value(each) for each in listing.tasks],
            "before": instant_value(to_ms),
            "nextAfter": None if listing.next_after is None else str(listing.next_after),
        }

    @router.get("/relay/message", tags=["relay"], summary="The message that waits under an id")
    def message(
        message_id: Annotated[str, Query(alias="id", max_length=KEY_CHARS_MAX)],
    ) -> dict[str, Any]:
        found = relayed.find(message_id)
        if found is None:
            raise _unknown(service, "message", "no message waits under this id", id=message_id)
        return {"message": relayed.shown(found, data=data)}


def _add_relay_acts(router: APIRouter, service: AdminService) -> None:
    @router.post(
        "/relay/{action}", tags=["relay"], summary="Cancel, reschedule or pass on what waits"
    )
    def act(action: Annotated[Action, Path()], body: RelayBody, request: Request) -> dict[str, Any]:
        if action not in MOVES:
            raise Problem(404, "no-such-path", f"a message is not to be asked for {action.value}")
        to = parsed_time("to", body.to)
        if (to is None) is (action is Action.RESCHEDULE):
            raise Problem(400, "invalid-request", "`to` belongs to reschedule, and only to it")
        keys, unknown = _named(service, body)

        def send() -> dict[str, Any]:
            return service.actions.act(action, keys, to, body.wait_s).value()

        if body.dry_run or not keys:
            return _preview([str(each) for each in keys], unknown, dry_run=body.dry_run)
        what = f"relay {action.value}", "messages"
        names = [str(each) for each in keys]
        told = service.audit.audited_report(who_asks(request), what, names, body.reason, send)
        return {**told, "unknown": unknown}


def _named(service: AdminService, body: RelayBody) -> tuple[list[TaskKey], list[str]]:
    """Return the deliveries that a body names, and the ids under which none waits."""
    if (body.keys is None) is (body.ids is None):
        raise Problem(400, "invalid-request", "name `keys` or `ids`, one of the two")
    if body.ids is not None:
        found = service.relayed.known(body.ids)
        unknown = [each for each in dict.fromkeys(body.ids) if each not in found]
        return [view.key for view in found.values()], unknown
    keys = [parsed_key(text) for text in dict.fromkeys(body.keys or ())]
    for key in keys:
        if not is_delivery(key):
            raise Problem(400, "invalid-request", "no message waits under this key", key=str(key))
    return keys, []


def _preview(names: Sequence[str], unknown: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
    """Return what an act concerns; one that concerns nothing was not done, and is not audited."""
    if dry_run:
        first = list(names[:_SHOWN_MAX])
        return {"dryRun": True, "count": len(names), "first": first, "unknown": list(unknown)}
    return {"asked": 0, "outcomes": {}, "results": [], "unknown": list(unknown)}


def _unknown(service: AdminService, what: str, detail: str, **more: str) -> Problem:
    place = ", ".join(f"{name} {value}" for name, value in service.installation.items())
    return Problem(404, f"unknown-{what}", f"{detail} in this installation ({place})", **more)
