"""Paths that make something: a task, a recurring schedule; each after a preview, each audited."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from fastapi import Request

from actors.model.errors import LogUnavailable
from actors.model.instant import from_millis
from actors.model.task import Task
from scheduler.admin.acting import ACKNOWLEDGED_S
from scheduler.admin.answers import Answer, KeyText, ShownReceipt
from scheduler.admin.asking import (
    ACT_REFUSALS,
    RuleBody,
    TaskBody,
    admin_router,
    parsed_ms,
    parsed_time,
    who_asks,
)
from scheduler.admin.recurring import NextTime, SchedulesChanged
from scheduler.admin.service import AdminService
from scheduler.reading.inspector import TaskState
from scheduler.services.recurring.state import Recurring
from scheduler.services.typed_routes import TypedRouter

_NEXT_SHOWN = 5


class TaskPreview(Answer, frozen=True):
    """Which task would be scheduled; nothing was done."""

    dry_run: Literal[True]
    key: KeyText
    state: TaskState
    """Where the key stands now: ``unknown`` where nothing is stored under it."""


class TaskScheduled(Answer, frozen=True):
    """A task that is in the log."""

    receipt: ShownReceipt


class SchedulePreview(Answer, frozen=True):
    """Which recurring schedule would be made, and when it would be due; nothing was done."""

    dry_run: Literal[True]
    name: str
    replaces: bool
    """Whether there is a schedule of this name, which it would replace."""
    next_times: list[NextTime]


def scheduling_routes(service: AdminService) -> TypedRouter:
    """Return these paths."""
    router = admin_router(ACT_REFUSALS)
    _add_task(router, service)
    _add_recurring(router, service)
    return router


def _add_task(router: TypedRouter, service: AdminService) -> None:
    @router.post("/tasks", tags=["tasks"], summary="Schedule a task")
    def schedule(body: TaskBody, request: Request) -> TaskPreview | TaskScheduled:
        task = Task(
            ordering_id=body.ordering_id,
            scheduled_time=from_millis(parsed_ms("scheduledTime", body.scheduled_time)),
            uniqueness_key=body.uniqueness_key,
            data=body.data,
            kind=body.kind,
        )
        if body.dry_run:
            state = service.inspector.show(task.key).state
            return TaskPreview(dry_run=True, key=str(task.key), state=state)

        def act() -> tuple[TaskScheduled, str]:
            try:
                receipt = service.client.schedule_task(task).result(ACKNOWLEDGED_S)
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge the task in time") from None
            return TaskScheduled(receipt=ShownReceipt.of(receipt)), "accepted"

        detail = {"reason": body.reason, **({"kind": body.kind} if body.kind else {})}
        return service.audit.audited(who_asks(request), "schedule", str(task.key), detail, act)


def _add_recurring(router: TypedRouter, service: AdminService) -> None:
    schedules = service.recurring

    @router.post(
        "/recurring/schedule", tags=["recurring"], summary="Make or replace a recurring schedule"
    )
    def set_schedule(body: RuleBody, request: Request) -> SchedulePreview | SchedulesChanged:
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

        told = {name: str(value) for name, value in given.items() if value and name != "data"}
        detail = {"rule": told, "reason": body.reason}
        return service.audit.audited(who_asks(request), "recurring set", body.name, detail, act)


def _given(body: RuleBody, known: Recurring | None) -> Mapping[str, Any]:
    """Return what a schedule is made of; without ``data`` that of the one before stays."""
    kept = known.rule.data if known is not None else None
    return {
        "cron": body.cron,
        "every": None if body.every_ms is None else timedelta(milliseconds=body.every_ms),
        "time_zone": body.time_zone,
        "ordering_id": body.ordering_id,
        "kind": body.kind,
        "data": kept if body.data is None else body.data,
        "overlap": body.overlap,
        "catch_up": timedelta(milliseconds=body.catch_up_ms),
        "jitter": timedelta(milliseconds=body.jitter_ms),
        "starts": parsed_time("starts", body.starts),
        "ends": parsed_time("ends", body.ends),
        "count_max": body.count_max,
    }
