"""Paths that only look: tasks, attempts, troubles, nodes, partitions, the future, the past.

Unknown keys are 404, long windows come in pages, and what nobody answers for is null.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from actors.model.bucket import HOUR_MS
from actors.model.key import TaskKey
from scheduler.admin.asking import (
    Instant,
    Key,
    Limit,
    OrderingId,
    may_act,
    parsed_key,
    parsed_ms,
    parsed_range,
    who_asks,
)
from scheduler.admin.auditing import entry_value, parse_place, place_text
from scheduler.admin.behind import waiting_behind
from scheduler.admin.counts import BARS_MAX, BUCKET_HOURS_MAX, Unit
from scheduler.admin.letters import letter_value
from scheduler.admin.masking import masked
from scheduler.admin.pausing import pause_value
from scheduler.admin.refusals import Problem
from scheduler.admin.service import AdminService
from scheduler.admin.values import attempt_value, instant_value, view_value
from scheduler.observe.overseeing import hourhand_version
from scheduler.reading.inspector import TaskState, TaskView

_LETTER_PAGE_MAX = 200

Optional = Annotated[str | None, Query(max_length=60_000)]
Partition = Annotated[int | None, Query(ge=0, le=100_000)]


def reading_routes(service: AdminService) -> APIRouter:
    """Return the paths that look."""
    router = APIRouter()
    _add_tasks(router, service)
    _add_listing(router, service)
    _add_waiting(router, service)
    _add_cluster(router, service)
    _add_settled(router, service)
    _add_counts(router, service)
    _add_records(router, service)
    return router


def _add_tasks(router: APIRouter, service: AdminService) -> None:
    data = service.settings.admin.show_data

    @router.get("/task", tags=["tasks"], summary="One task, with all that is known of it")
    def task(key: Key) -> dict[str, Any]:
        view = _known(service, parsed_key(key))
        return {"task": _live(service, view_value(view, data=data))}

    @router.get("/attempts", tags=["tasks"], summary="A task's attempts, newest or oldest first")
    def attempts(
        key: Key,
        limit: Limit = 20,
        order: Literal["newest", "oldest"] = "newest",
        after: Annotated[int | None, Query(ge=0, description="An attempt's number.")] = None,
    ) -> dict[str, Any]:
        found = list(_known(service, parsed_key(key)).attempts)
        if order == "newest":
            found.reverse()
            left = [each for each in found if after is None or each.attempt < after]
        else:
            left = [each for each in found if after is None or each.attempt > after]
        page = left[:limit]
        return {
            "attempts": [attempt_value(each) for each in page],
            "total": len(found),
            "nextAfter": page[-1].attempt if len(left) > limit else None,
        }


def _add_listing(router: APIRouter, service: AdminService) -> None:
    data = service.settings.admin.show_data

    @router.get("/tasks", tags=["tasks"], summary="Tasks of a stretch of time, in key order")
    def tasks(
        *,
        from_: Annotated[Instant, Query(alias="from")],
        to: Instant,
        limit: Limit = 100,
        state: Annotated[list[TaskState] | None, Query(max_length=20)] = None,
        ordering_id: OrderingId = None,
        partition: Partition = None,
        after: Optional = None,
        attempts: bool = False,
    ) -> dict[str, Any]:
        from_ms, to_ms = parsed_range(from_, to)
        _check_partition(service, partition)
        listing = service.inspector.list_tasks(
            from_ms=from_ms,
            to_ms=to_ms,
            limit=limit,
            states=frozenset(state or ()),
            ordering_id=ordering_id,
            partition=partition,
            after=None if after is None else parsed_key(after),
        )
        values = [_live(service, view_value(view, data=data)) for view in listing.tasks]
        for value in values:
            value["attemptCount"] = _attempt_count(value)
            if not attempts:
                del value["attempts"]
        following = None if listing.next_after is None else str(listing.next_after)
        return {"tasks": values, "nextAfter": following}


def _add_waiting(router: APIRouter, service: AdminService) -> None:
    @router.get("/waiting", tags=["tasks"], summary="How many due tasks wait behind one")
    def waiting(key: Key) -> dict[str, Any]:
        return waiting_behind(service.inspector, service.clock, parsed_key(key))


def _add_cluster(router: APIRouter, service: AdminService) -> None:
    cluster = service.cluster

    @router.get("/status", tags=["cluster"], summary="The cluster at a glance")
    def status() -> dict[str, Any]:
        return {**cluster.status(), "version": hourhand_version()}

    @router.get("/blocked", tags=["cluster"], summary="Tasks that block their ordering ids")
    def blocked() -> dict[str, Any]:
        return cluster.troubled("blocked")

    @router.get("/failing", tags=["cluster"], summary="Tasks whose attempts fail")
    def failing() -> dict[str, Any]:
        return cluster.troubled("failing")

    @router.get("/nodes", tags=["cluster"], summary="Every node heard of lately")
    def nodes() -> dict[str, Any]:
        return {"nodes": cluster.nodes()}

    @router.get("/partitions", tags=["cluster"], summary="Every partition and its owner's word")
    def partitions() -> dict[str, Any]:
        return {"partitions": cluster.partitions()}

    @router.get("/running", tags=["cluster"], summary="Tasks whose user code runs")
    def running() -> dict[str, Any]:
        found = cluster.running()
        return {
            "running": [
                {"key": key, "attempt": attempt, "node": node}
                for key, (attempt, node) in sorted(found.items())
            ]
        }

    @router.get("/history", tags=["cluster"], summary="The last hour, as this process saw it")
    def history(partition: Partition = None) -> dict[str, Any]:
        return cluster.history(partition)


def _add_settled(router: APIRouter, service: AdminService) -> None:
    @router.get("/pauses", tags=["pauses"], summary="What is paused")
    def pauses() -> dict[str, Any]:
        sheet = service.pauses.sheet()
        return {"version": sheet.version, "pauses": [pause_value(each) for each in sheet.pauses]}

    @router.get("/whoami", tags=["cluster"], summary="Whom the token names, and what it may do")
    def whoami(request: Request) -> dict[str, Any]:
        return {
            "who": who_asks(request),
            "mayAct": may_act(request),
            "showsData": service.settings.admin.show_data,
            "partitionCount": service.partition_count,
            "version": hourhand_version(),
        }

    @router.get("/settings", tags=["cluster"], summary="This process's settings, secrets hidden")
    def settings() -> dict[str, Any]:
        return {"settings": masked(service.settings)}


def _add_counts(router: APIRouter, service: AdminService) -> None:
    @router.get("/ahead", tags=["counts"], summary="How many tasks are due when")
    def ahead(
        unit: Unit = Unit.MINUTE,
        from_: Annotated[str | None, Query(alias="from", max_length=40)] = None,
        bars: Annotated[int, Query(ge=1, le=1_440)] = 60,
        partition: Partition = None,
    ) -> dict[str, Any]:
        now_ms = service.clock.now_ms()
        from_ms = now_ms if from_ is None else parsed_ms("from", from_)
        if bars > BARS_MAX[unit]:
            raise Problem(400, "invalid-request", f"bars: at most {BARS_MAX[unit]} by {unit}")
        _check_partition(service, partition)
        found = service.counts.ahead(unit, from_ms, bars, partition)
        return {"asOf": instant_value(now_ms), **found}

    @router.get("/buckets", tags=["counts"], summary="What became of each partition's hours")
    def buckets(from_: Annotated[Instant, Query(alias="from")], to: Instant) -> dict[str, Any]:
        from_ms, to_ms = parsed_range(from_, to)
        if to_ms - from_ms > BUCKET_HOURS_MAX * HOUR_MS:
            raise Problem(400, "invalid-request", f"at most {BUCKET_HOURS_MAX} hours at a time")
        return {"buckets": service.counts.buckets(from_ms, to_ms)}


def _add_records(router: APIRouter, service: AdminService) -> None:
    data = service.settings.admin.show_data

    @router.get("/dead-letters", tags=["dead letters"], summary="Records put aside, newest first")
    def dead_letters(
        limit: Annotated[int, Query(ge=1, le=_LETTER_PAGE_MAX)] = 50,
        before: Annotated[str | None, Query(max_length=20_000)] = None,
    ) -> dict[str, Any]:
        page = service.letters.page(before, limit)
        return {
            "letters": [letter_value(each, data=data) for each in page.letters],
            "nextBefore": page.next_before,
        }

    @router.get("/audit", tags=["audit"], summary="Who did what, newest first")
    def audit(
        limit: Limit = 100, before: Annotated[str | None, Query(max_length=100)] = None
    ) -> dict[str, Any]:
        try:
            place = None if before is None else parse_place(before)
        except ValueError as error:
            raise Problem(400, "invalid-request", str(error)) from None
        page = service.audit.page(place, limit)
        following = None if page.next_before is None else place_text(page.next_before)
        return {"entries": [entry_value(each) for each in page.entries], "nextBefore": following}


def _check_partition(service: AdminService, partition: int | None) -> None:
    if partition is not None and partition >= service.partition_count:
        raise Problem(404, "unknown-partition", f"there is no partition {partition}")


def _known(service: AdminService, key: TaskKey) -> TaskView:
    view = service.inspector.show(key)
    if view.state is TaskState.UNKNOWN:
        raise Problem(
            404,
            "unknown-key",
            "nothing is stored under this key: never scheduled, still in the log, or forgotten",
            key=str(key),
        )
    return view


def _live(service: AdminService, value: dict[str, Any]) -> dict[str, Any]:
    """Add what only the owner knows: that user code runs right now."""
    running = service.cluster.running().get(value["key"])
    if running is not None and value["state"] in (TaskState.PENDING, TaskState.RETRYING):
        value["state"] = TaskState.RUNNING.value
        value["running"] = {"attempt": running[0], "node": running[1]}
    return value


def _attempt_count(value: dict[str, Any]) -> int:
    numbers: list[int] = [each["attempt"] for each in value["attempts"]]
    closed: int = value.get("completion", {}).get("attempts", 0)
    return max([closed, *numbers])
