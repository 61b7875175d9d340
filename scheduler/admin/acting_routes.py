"""Paths that act: commands, pauses, limits, replays, and new tasks and schedules.

Every act is audited before it begins; those that make something can be previewed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Path, Request
from msgspec.structs import replace

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.task.expiry import read_expiry
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.sealed import member_of_before
from hourhand.actors.model.task.task import Task, expires_of
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask, LogUnavailable
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.ports.log import Position
from hourhand.scheduler.admin import asking
from hourhand.scheduler.admin.acting import (
    ACKNOWLEDGED_S,
    Action,
    Filter,
    Preview,
    SelectedTasks,
    TasksActedOn,
)
from hourhand.scheduler.admin.answers import Answer, KeyText, ShownReceipt
from hourhand.scheduler.admin.blocking import blocked_by, blocking_task
from hourhand.scheduler.admin.dead_letters import Replayed, letters_target, parse_places, place_text
from hourhand.scheduler.admin.limit_settings import ChangedLimits, LimitSettings, limit_words
from hourhand.scheduler.admin.pausing import CHANGED_WORDS, ShownPauses, target_words
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.admin.recurring import NextTime, SchedulesChanged, ShownBackfill
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.services.http.typed_routes import TypedRouter
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import Recurring
from hourhand.scheduler.tasks.inspector import NodesWord, TaskState
from hourhand.scheduler.tasks.pairs import require_task

_SHOWN_MAX = 20
_NEXT_SHOWN = 5


class TaskPreview(Answer, frozen=True):
    """The task that would be scheduled; nothing was done."""

    dry_run: Literal[True]
    key: KeyText
    state: TaskState
    """The current state of the key; ``unknown`` if nothing is stored under it."""


class TaskScheduled(Answer, frozen=True):
    """A task that is in the log."""

    receipt: ShownReceipt


class GroupScheduled(Answer, frozen=True):
    """A group that is in the log."""

    receipts: list[ShownReceipt]
    """In the order of its tasks."""
    then: KeyText


class SchedulePreview(Answer, frozen=True):
    """The recurring schedule that would be made, and its next times; nothing was done."""

    dry_run: Literal[True]
    name: str
    replaces: bool
    """True if a schedule of this name exists, which would be replaced."""
    next_times: list[NextTime]


def acting_routes(service: AdminService) -> TypedRouter:
    """Return the paths that act."""
    router = asking.admin_router(asking.ACT_REFUSALS)
    # Added first, or ``unblock`` would be taken for the name of an action.
    _add_unblock(router, service)
    _add_actions(router, service)
    _add_pauses(router, service)
    _add_limits(router, service)
    _add_replay(router, service)
    _add_task(router, service)
    _add_group(router, service)
    _add_recurring(router, service)
    _add_backfill(router, service)
    return router


def _add_unblock(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/actions/unblock",
        tags=["actions"],
        summary="Retry or drop the tasks that block ordering ids",
    )
    def unblock(body: asking.UnblockBody, request: Request) -> Preview | TasksActedOn:
        keys, unknown = _blocking(service, body)
        if body.dry_run:
            return replace(Preview.of(keys), not_blocked=unknown)
        if body.error_class is not None and body.expected != len(keys):
            raise _other_count(f"{body.error_class} blocks", len(keys))
        action = Action(body.how)
        named = {"errorClass": body.error_class, "orderingIds": body.ordering_ids}
        detail = {
            "how": body.how,
            "count": len(keys),
            **{name: value for name, value in named.items() if value},
        }
        if body.ordering_ids:
            detail["orderingIds"] = body.ordering_ids[:_SHOWN_MAX]
        report = service.audit.audited(
            asking.who_asks(request),
            "unblock",
            _target(keys),
            {**detail, "reason": body.reason},
            lambda: _reported(service, action, keys, None, body.wait_s),
        )
        return replace(report, not_blocked=unknown)


def _add_actions(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/actions/{action}", tags=["actions"], summary="Do something to one task or to many"
    )
    def act(
        action: Annotated[Action, Path()], body: asking.ActionBody, request: Request
    ) -> Preview | TasksActedOn:
        to = asking.target_time(body.to, moves=action is Action.RESCHEDULE)
        selection = _chosen(service, body)
        keys = selection.keys
        if body.dry_run:
            return replace(Preview.of(keys), next_after=_rest(selection))
        if body.filter is not None and body.expected != len(keys):
            raise _other_count("the filter finds", len(keys))
        shown = [str(key) for key in keys[:_SHOWN_MAX]]
        moved = {} if body.to is None else {"to": body.to}
        report = service.audit.audited(
            asking.who_asks(request),
            action.value,
            _target(keys),
            {"count": len(keys), "keys": shown, **moved, "reason": body.reason},
            lambda: _reported(service, action, keys, to, body.wait_s),
        )
        return replace(report, next_after=_rest(selection))


def _add_pauses(router: TypedRouter, service: AdminService) -> None:
    def change(body: asking.PauseBody, request: Request, action: str) -> ShownPauses:
        pauses = service.pauses
        targets = [pauses.target(t.scope, t.partition, t.ordering_id) for t in body.targets]
        who = asking.who_asks(request)

        def act() -> tuple[ShownPauses, str]:
            if action == "pause":
                config = pauses.pause(targets, who, body.reason)
            else:
                config = pauses.resume(targets)
            # The picture learns the operator config now; else owners that know only the previous
            # one would count as up to date.
            service.cluster.learn(config)
            return ShownPauses.of(config), CHANGED_WORDS[action]

        told = [each.model_dump(mode="json") for each in body.targets[:_SHOWN_MAX]]
        detail = {"targets": told, "count": len(targets), "reason": body.reason}
        return service.audit.audited(who, action, target_words(targets), detail, act)

    @router.post("/pauses", tags=["pauses"], summary="Pause everything, partitions, ordering ids")
    def pause(body: asking.PauseBody, request: Request) -> ShownPauses:
        return change(body, request, "pause")

    @router.post("/pauses/resume", tags=["pauses"], summary="Lift pauses")
    def resume(body: asking.PauseBody, request: Request) -> ShownPauses:
        return change(body, request, "resume")


def _add_limits(router: TypedRouter, service: AdminService) -> None:
    limits = service.limits

    @router.post("/limits", tags=["limits"], summary="Change a limit while nodes run")
    def change(body: asking.LimitBody, request: Request) -> LimitSettings:
        numbers = body.rate, body.per_ms, body.burst, body.concurrency
        wanted = LimitChange.of_numbers(body.limit, *numbers, body.rates)
        who = asking.who_asks(request)

        def act() -> tuple[LimitSettings, str]:
            return settled(limits.change(wanted, who, body.reason))

        detail = {**limits.planned(wanted), "reason": body.reason}
        return service.audit.audited(who, "limit", body.limit, detail, act)

    @router.post("/limits/reset", tags=["limits"], summary="Reset limits to their declaration")
    def reset(body: asking.ResetBody, request: Request) -> LimitSettings:
        def act() -> tuple[LimitSettings, str]:
            return settled(limits.reset(body.limits))

        detail = {"limits": body.limits[:_SHOWN_MAX], "reason": body.reason}
        target = limit_words(body.limits)
        return service.audit.audited(asking.who_asks(request), "reset limit", target, detail, act)

    def settled(changed: ChangedLimits) -> tuple[LimitSettings, str]:
        service.cluster.learn(changed.config)
        return limits.settings(changed.config), changed.words


def _add_replay(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/dead-letters/replay",
        tags=["dead letters"],
        summary="Bring back the tasks of dead letters",
    )
    def replay(body: asking.ReplayBody, request: Request) -> Preview | Replayed:
        places = _letters(service, body)
        texts = [place_text(each) for each in places]
        if body.dry_run:
            return Preview.of(texts)
        if body.filter is not None and body.expected != len(places):
            raise _other_count("the filter finds", len(places), "letters")

        def act() -> tuple[Replayed, str]:
            report = service.dead_letters.replay(places, body.wait_s)
            return report, report.words

        detail = {"count": len(texts), "places": texts[:_SHOWN_MAX], "reason": body.reason}
        who, target = asking.who_asks(request), letters_target(texts)
        return service.audit.audited(who, "replay", target, detail, act)


def _letters(service: AdminService, body: asking.ReplayBody) -> list[Position]:
    if (body.places is None) is (body.filter is None):
        raise Problem(400, "invalid-request", "give either `places` or a `filter`")
    if body.places is not None:
        return list(dict.fromkeys(parse_places(body.places)))
    assert body.filter is not None, "one of the two is there"
    given = body.filter
    chosen = asking.letter_filter(given.from_, given.to, given.kind, given.error_class)
    return service.dead_letters.selected(chosen, service.settings.admin.bulk_keys_max)


def _blocking(service: AdminService, body: asking.UnblockBody) -> tuple[list[TaskKey], list[str]]:
    """Return the tasks that block a body's ordering ids, and the ids that no task blocks."""
    inspector, clock = service.inspector, service.clock
    if (body.ordering_ids is None) is (body.error_class is None):
        raise Problem(400, "invalid-request", "give either `orderingIds` or an `errorClass`")
    if body.error_class is not None:
        keys_max = service.settings.admin.bulk_keys_max
        return blocked_by(inspector, clock, body.error_class, keys_max), []
    ids = dict.fromkeys(body.ordering_ids or ())
    found = {each: blocking_task(inspector, clock, each) for each in ids}
    keys = [key for key in found.values() if key is not None]
    return keys, [each for each, key in found.items() if key is None]


def _other_count(who: str, count: int, what: str = "tasks") -> Problem:
    words = f"{who} {count} {what} now; look again and pass `expected`"
    return Problem(409, "other-count", words, count=count)


def _chosen(service: AdminService, body: asking.ActionBody) -> SelectedTasks:
    keys_max = service.settings.admin.bulk_keys_max
    if (body.keys is None) is (body.filter is None):
        raise Problem(400, "invalid-request", "give either `keys` or a `filter`")
    if body.keys is not None:
        if len(body.keys) > keys_max:
            raise Problem(400, "invalid-request", f"at most {keys_max} keys at a time")
        return SelectedTasks([asking.parsed_name(text) for text in dict.fromkeys(body.keys)])
    assert body.filter is not None, "one of the two is there"
    return service.actions.selected(_filter(body.filter, service.cluster.word()), keys_max)


def _filter(body: asking.FilterBody, word: NodesWord) -> Filter:
    from_ms, to_ms = asking.parsed_range(body.from_, body.to)
    return Filter(
        from_ms,
        to_ms,
        frozenset(body.states),
        body.ordering_id,
        body.partition,
        body.limit,
        None if body.after is None else asking.parsed_key(body.after),
        body.error_class,
        body.system or asking.is_system_id(body.ordering_id),
        frozenset() if body.kind is None else frozenset({body.kind}),
        word,
    )


def _rest(selection: SelectedTasks) -> str | None:
    return None if selection.next_after is None else str(selection.next_after)


def _reported(
    service: AdminService,
    action: Action,
    keys: Sequence[TaskKey | TaskPair],
    to: datetime | None,
    wait_s: float,
) -> tuple[TasksActedOn, str]:
    tried = service.actions.act(action, keys, to, wait_s)
    if len(tried) == 1 and isinstance(tried[0].name, TaskPair):
        # One answer has one status: with several tasks the report has their outcomes.
        require_task(tried[0].name, tried[0].outcome)
    report = TasksActedOn.of(tried, action.value)
    return report, report.words


def _target(keys: Sequence[TaskKey | TaskPair]) -> str:
    return str(keys[0]) if len(keys) == 1 else f"{len(keys)} tasks"


def _expires_of(text: str | None) -> datetime | timedelta | None:
    try:
        return None if text is None else expires_of(read_expiry(text))
    except ValueError as error:
        raise InvalidTask(f"expires: {error}") from None


def _task_of(body: asking.TaskBody | asking.MemberBody | asking.FollowerBody) -> Task:
    return Task(
        ordering_id=body.ordering_id,
        scheduled_time=from_millis(asking.parsed_ms("scheduledTime", body.scheduled_time)),
        uniqueness_key=body.uniqueness_key,
        data=body.data,
        kind=body.kind,
        priority=body.priority,
        expires=_expires_of(body.expires),
    )


_ONE_OF_THEM = (
    "the first call wins with `uniqueForMs`, the last one with `debounceMs`, and `replace` moves"
    " the open task at once: send one of them"
)


def _add_task(router: TypedRouter, service: AdminService) -> None:
    @router.post("/tasks", tags=["tasks"], summary="Schedule a task")
    def schedule(body: asking.TaskBody, request: Request) -> TaskPreview | TaskScheduled:
        task = _task_of(body)
        then = None if body.then is None else _task_of(body.then)
        on = "success" if body.then is None else body.then.on
        if len(body.asked) > 1:
            raise Problem(400, "invalid-request", _ONE_OF_THEM)
        if body.dry_run:
            state = service.inspector.show(task.key).state
            return TaskPreview(dry_run=True, key=str(task.key), state=state)

        def act() -> tuple[TaskScheduled, str]:
            try:
                sent = service.client.schedule_task(task, **body.asked, then=then, on=on)
                receipt = sent.result(ACKNOWLEDGED_S)
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge the task in time") from None
            return TaskScheduled(receipt=ShownReceipt.of(receipt)), "accepted"

        named = {
            "kind": body.kind,
            "priority": body.priority,
            "expires": body.expires,
            "uniqueForMs": body.unique_for_ms,
            "debounceMs": body.debounce_ms,
            "replace": body.replace or None,
            "then": None if then is None else str(then.key),
        }
        told = {name: value for name, value in named.items() if value is not None}
        detail = {"reason": body.reason, **told}
        return service.audit.audited(
            asking.who_asks(request), "schedule", str(task.key), detail, act
        )


def _add_group(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/groups", tags=["tasks"], summary="Schedule tasks, and one that follows all of them"
    )
    def group(body: asking.GroupBody, request: Request) -> Preview | GroupScheduled:
        tasks, then = [_task_of(each) for each in body.tasks], _task_of(body.then)
        keys = [each.key for each in tasks]
        if body.dry_run:
            return Preview.of(keys)

        def act() -> tuple[GroupScheduled, str]:
            try:
                sent = service.client.group(tasks, then=then, on=body.then.on)
                receipts = sent.result(ACKNOWLEDGED_S)
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge the group in time") from None
            shown = [ShownReceipt.of(each) for each in receipts]
            return GroupScheduled(receipts=shown, then=str(then.key)), "accepted"

        told = [str(each) for each in keys[:_SHOWN_MAX]]
        detail = {"count": len(keys), "keys": told, "then": str(then.key), "reason": body.reason}
        return service.audit.audited(
            asking.who_asks(request), "schedule group", _target(keys), detail, act
        )


def _add_recurring(router: TypedRouter, service: AdminService) -> None:
    schedules = service.recurring

    @router.post(
        "/recurring/schedule", tags=["recurring"], summary="Make or replace a recurring schedule"
    )
    def set_schedule(body: asking.RuleBody, request: Request) -> SchedulePreview | SchedulesChanged:
        known = schedules.find(body.name)
        given = _given(body, known)
        times = schedules.times_of(body.name, given, _NEXT_SHOWN)
        if body.dry_run:
            replaces = known is not None
            return SchedulePreview(
                dry_run=True, name=body.name, replaces=replaces, next_times=times
            )

        def act() -> tuple[SchedulesChanged, str]:
            report = schedules.set_rule(body.name, given, body.wait_s)
            return report, report.words

        # Zero is a valid priority, so it is kept.
        said = {name: value for name, value in given.items() if value or name == "priority"}
        told = {
            name: str(value) for name, value in said.items() if value is not None and name != "data"
        }
        detail = {"rule": told, "reason": body.reason}
        return service.audit.audited(
            asking.who_asks(request), "recurring set", body.name, detail, act
        )


def _add_backfill(router: TypedRouter, service: AdminService) -> None:
    @router.post(
        "/recurring/backfill",
        tags=["recurring"],
        summary="Make the tasks of past times of a schedule",
        responses=asking.NOT_FOUND,
    )
    def backfill(body: asking.BackfillBody, request: Request) -> ShownBackfill:
        if service.recurring.find(body.name) is None:
            raise Problem(404, "unknown-schedule", "no recurring schedule has this name")
        starts, ends = (
            asking.parsed_time("starts", body.starts),
            asking.parsed_time("ends", body.ends),
        )
        assert starts is not None, "it is required"
        assert ends is not None, "it is required"

        def act() -> tuple[ShownBackfill, str]:
            return ShownBackfill.of(fill(), dry_run=body.dry_run), "accepted"

        fill = partial(
            service.client.backfill_recurring, body.name, starts, ends, dry_run=body.dry_run
        )
        if body.dry_run:
            return act()[0]
        detail = {"from": str(starts), "to": str(ends), "reason": body.reason}
        who = asking.who_asks(request)
        return service.audit.audited(who, "recurring backfill", body.name, detail, act)


def _refuse_sealed(name: str, rule: RecurringRule) -> None:
    """Refuse sealed data for another kind of task, which could not open it."""
    sealed = rule.envelope or member_of_before(rule.data)
    if sealed is not None:
        raise Problem(
            409,
            "payload-sealed",
            f"the data of the schedule {shown(name)} is {sealed}, for tasks of the kind"
            f" {shown(rule.kind)}: send data with the new kind, or set the schedule where the key"
            " is",
        )


def _expires_after(after_ms: int | None) -> timedelta | None:
    return None if after_ms is None else timedelta(milliseconds=after_ms)


def _given(body: asking.RuleBody, known: Recurring | None) -> Mapping[str, Any]:
    """Return the arguments of a schedule; without ``data`` it keeps the previous data."""
    kept = known.rule if known is not None and body.data is None else None
    if kept is not None and body.kind != kept.kind:
        _refuse_sealed(body.name, kept)
    return {
        "cron": body.cron,
        "every": None if body.every_ms is None else timedelta(milliseconds=body.every_ms),
        "time_zone": body.time_zone,
        "ordering_id": body.ordering_id,
        "kind": body.kind,
        "priority": body.priority,
        "expires_after": _expires_after(body.expires_after_ms),
        "data": body.data if kept is None else kept.task_data,
        "overlap": body.overlap,
        "catch_up": timedelta(milliseconds=body.catch_up_ms),
        "jitter": timedelta(milliseconds=body.jitter_ms),
        "starts": asking.parsed_time("starts", body.starts),
        "ends": asking.parsed_time("ends", body.ends),
        "except_dates": body.except_dates,
        "count_max": body.count_max,
    }
