"""Paths that act: commands, pauses, replays.  Every one is audited before it begins."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from actors.model.key import TaskKey
from scheduler.admin.acting import Action, Filter, Report, Selection
from scheduler.admin.asking import (
    ActionBody,
    FilterBody,
    PauseBody,
    ReplayBody,
    UnblockBody,
    parsed_key,
    parsed_range,
    parsed_time,
    who_asks,
)
from scheduler.admin.letters import parse_places
from scheduler.admin.pausing import pause_value
from scheduler.admin.refusals import Problem
from scheduler.admin.service import AdminService

_SHOWN_MAX = 20


def acting_routes(service: AdminService) -> APIRouter:
    """Return the paths that act."""
    router = APIRouter()
    # First, or it would pass for an action of that name.
    _add_unblock(router, service)
    _add_actions(router, service)
    _add_pauses(router, service)
    _add_replay(router, service)
    return router


def _add_unblock(router: APIRouter, service: AdminService) -> None:
    @router.post(
        "/actions/unblock", tags=["actions"], summary="Retry or drop what blocks ordering ids"
    )
    def unblock(body: UnblockBody, request: Request) -> dict[str, Any]:
        found = {each: service.actions.blocked(each) for each in dict.fromkeys(body.ordering_ids)}
        keys = [key for key in found.values() if key is not None]
        unknown = [each for each, key in found.items() if key is None]
        if body.dry_run:
            return {**_preview(keys), "notBlocked": unknown}
        action = Action(body.how)
        detail = {"how": body.how, "orderingIds": body.ordering_ids[:_SHOWN_MAX]}
        report = service.audit.audited(
            who_asks(request),
            "unblock",
            _target(keys),
            {**detail, "reason": body.reason},
            lambda: _reported(service.actions.act(action, keys, None, body.wait_s)),
        )
        return {**report.value(), "notBlocked": unknown}


def _add_actions(router: APIRouter, service: AdminService) -> None:
    @router.post(
        "/actions/{action}", tags=["actions"], summary="Do something to one task or to many"
    )
    def act(
        action: Annotated[Action, Path()], body: ActionBody, request: Request
    ) -> dict[str, Any]:
        to = parsed_time("to", body.to)
        if (to is None) is (action is Action.RESCHEDULE):
            raise Problem(400, "invalid-request", "`to` belongs to reschedule, and only to it")
        selection = _chosen(service, body)
        keys = selection.keys
        if body.dry_run:
            return {**_preview(keys), **_rest(selection)}
        if body.filter is not None and body.expected != len(keys):
            raise Problem(
                409,
                "other-count",
                f"the filter finds {len(keys)} tasks now; look again and pass `expected`",
                count=len(keys),
            )
        detail = {"count": len(keys), "keys": [str(key) for key in keys[:_SHOWN_MAX]]}
        if body.to is not None:
            detail["to"] = body.to
        report = service.audit.audited(
            who_asks(request),
            action.value,
            _target(keys),
            {**detail, "reason": body.reason},
            lambda: _reported(service.actions.act(action, keys, to, body.wait_s)),
        )
        return {**report.value(), **_rest(selection)}


def _add_pauses(router: APIRouter, service: AdminService) -> None:
    def change(body: PauseBody, request: Request, action: str) -> dict[str, Any]:
        pauses = service.pauses
        targets = [pauses.target(t.scope, t.partition, t.ordering_id) for t in body.targets]
        who = who_asks(request)

        def act() -> tuple[dict[str, Any], str]:
            if action == "pause":
                sheet = pauses.pause(targets, who, body.reason)
            else:
                sheet = pauses.resume(targets)
            # At once, or owners that know the sheet before would pass for knowing this one.
            service.cluster.learn(sheet)
            value = [pause_value(each) for each in sheet.pauses]
            return {"version": sheet.version, "pauses": value}, f"sheet {sheet.version}"

        told = [each.model_dump(mode="json") for each in body.targets[:_SHOWN_MAX]]
        detail = {"targets": told, "count": len(targets), "reason": body.reason}
        words = f"{len(targets)} targets" if len(targets) > 1 else _target_words(targets[0])
        return service.audit.audited(who, action, words, detail, act)

    @router.post("/pauses", tags=["pauses"], summary="Pause everything, partitions, ordering ids")
    def pause(body: PauseBody, request: Request) -> dict[str, Any]:
        return change(body, request, "pause")

    @router.post("/pauses/resume", tags=["pauses"], summary="Lift pauses")
    def resume(body: PauseBody, request: Request) -> dict[str, Any]:
        return change(body, request, "resume")


def _add_replay(router: APIRouter, service: AdminService) -> None:
    @router.post(
        "/dead-letters/replay",
        tags=["dead letters"],
        summary="Append dead letters to the log again",
    )
    def replay(body: ReplayBody, request: Request) -> dict[str, Any]:
        places = parse_places(body.places)

        def act() -> tuple[list[dict[str, Any]], str]:
            results = service.letters.replay(places)
            replayed = sum(each["outcome"] == "replayed" for each in results)
            return results, f"replayed {replayed} of {len(results)}"

        detail = {"places": body.places[:_SHOWN_MAX], "reason": body.reason}
        target = body.places[0] if len(places) == 1 else f"{len(places)} letters"
        who = who_asks(request)
        return {"results": service.audit.audited(who, "replay", target, detail, act)}


def _chosen(service: AdminService, body: ActionBody) -> Selection:
    keys_max = service.settings.admin.bulk_keys_max
    if (body.keys is None) is (body.filter is None):
        raise Problem(400, "invalid-request", "name `keys` or a `filter`, one of the two")
    if body.keys is not None:
        if len(body.keys) > keys_max:
            raise Problem(400, "invalid-request", f"at most {keys_max} keys at a time")
        return Selection([parsed_key(text) for text in dict.fromkeys(body.keys)])
    assert body.filter is not None, "one of the two is there"
    return service.actions.selected(_filter(body.filter), keys_max)


def _filter(body: FilterBody) -> Filter:
    from_ms, to_ms = parsed_range(body.from_, body.to)
    return Filter(
        from_ms,
        to_ms,
        frozenset(body.states),
        body.ordering_id,
        body.partition,
        body.limit,
        None if body.after is None else parsed_key(body.after),
    )


def _rest(selection: Selection) -> dict[str, str | None]:
    following = selection.next_after
    return {"nextAfter": None if following is None else str(following)}


def _preview(keys: Sequence[TaskKey]) -> dict[str, Any]:
    return {"dryRun": True, "count": len(keys), "first": [str(key) for key in keys[:_SHOWN_MAX]]}


def _reported(report: Report) -> tuple[Report, str]:
    return report, report.words


def _target(keys: Sequence[TaskKey]) -> str:
    return str(keys[0]) if len(keys) == 1 else f"{len(keys)} tasks"


def _target_words(target: tuple[Any, int, str]) -> str:
    scope, partition, ordering_id = target
    return ordering_id or (f"partition {partition}" if partition >= 0 else scope.value)
