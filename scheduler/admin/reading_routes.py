"""Paths that only read: tasks, attempts, troubles, nodes, partitions, the future, the past.

Unknown keys are 404, long ranges come in pages, and a figure that no node reports is null.
"""

from typing import Annotated, Any, Literal

from fastapi import Query, Request
from msgspec import UNSET
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.admin import asking
from hourhand.scheduler.admin.answers import Answer, ShownAttempt, ShownTask
from hourhand.scheduler.admin.auditing import AuditEntries, parse_place
from hourhand.scheduler.admin.blocking import WaitingBehind, waiting_behind
from hourhand.scheduler.admin.counts import BARS_MAX, BUCKET_HOURS_MAX, Ahead, Hours, Unit
from hourhand.scheduler.admin.dead_letters import LetterListing
from hourhand.scheduler.admin.limit_settings import LimitSettings
from hourhand.scheduler.admin.listing_routes import check_partition, shown_with_execution
from hourhand.scheduler.admin.masking import masked
from hourhand.scheduler.admin.pausing import ShownPauses
from hourhand.scheduler.admin.picture import (
    BlockedTasks,
    ClusterStatus,
    FailingTasks,
    History,
    LimitedFlows,
    NodeListing,
    PartitionListing,
    ShownExecutions,
)
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.observe.reporting import hourhand_version
from hourhand.scheduler.services.http.typed_routes import TypedRouter
from hourhand.scheduler.tasks.inspector import TaskState, TaskView, as_executed

_LETTER_PAGE_MAX = 200

Partition = Annotated[int | None, Query(ge=0, le=100_000)]


class TaskAnswer(Answer, frozen=True):
    """One task."""

    task: ShownTask


class AttemptPage(Answer, frozen=True):
    """Attempts of a task, in the order asked for."""

    attempts: list[ShownAttempt]
    total: int
    next_after: int | None


class Whoami(Answer, frozen=True):
    """The user that the token stands for, and its rights."""

    who: str
    may_act: bool
    shows_data: bool
    partition_count: int
    version: str


class ShownSettings(Answer, frozen=True):
    """This process's settings by their own names, secrets hidden."""

    settings: dict[str, Any]


def reading_routes(service: AdminService) -> TypedRouter:
    """Return the paths that look."""
    router = asking.admin_router()
    _add_tasks(router, service)
    _add_waiting(router, service)
    _add_cluster(router, service)
    _add_settled(router, service)
    _add_counts(router, service)
    _add_records(router, service)
    return router


def _add_tasks(router: TypedRouter, service: AdminService) -> None:
    data = service.settings.admin.show_data

    @router.get(
        "/task",
        tags=["tasks"],
        summary="One task, with all that is known about it",
        responses=asking.NOT_FOUND,
    )
    def task(key: asking.Key) -> TaskAnswer:
        view = _known(service, asking.parsed_key(key))
        shown = shown_with_execution(service, view, data=data)
        told = as_executed(view, service.cluster.word())
        waits = service.wait_reasons.of(told, service.clock.now_ms())
        return TaskAnswer(task=replace(shown, waits=waits or UNSET))

    @router.get(
        "/attempts",
        tags=["tasks"],
        summary="A task's attempts, newest or oldest first",
        responses=asking.NOT_FOUND,
    )
    def attempts(
        key: asking.Key,
        limit: asking.Limit = 20,
        order: Literal["newest", "oldest"] = "newest",
        after: Annotated[int | None, Query(ge=0, description="An attempt's number.")] = None,
    ) -> AttemptPage:
        found = list(_known(service, asking.parsed_key(key)).attempts)
        if order == "newest":
            found.reverse()
            left = [each for each in found if after is None or each.attempt < after]
        else:
            left = [each for each in found if after is None or each.attempt > after]
        page = left[:limit]
        return AttemptPage(
            attempts=[ShownAttempt.of(each) for each in page],
            total=len(found),
            next_after=page[-1].attempt if len(left) > limit else None,
        )


def _add_waiting(router: TypedRouter, service: AdminService) -> None:
    @router.get("/waiting", tags=["tasks"], summary="The number of due tasks behind one")
    def waiting(key: asking.Key) -> WaitingBehind:
        return waiting_behind(service.inspector, service.clock, asking.parsed_key(key))


def _add_cluster(router: TypedRouter, service: AdminService) -> None:
    cluster = service.cluster

    @router.get("/status", tags=["cluster"], summary="The cluster at a glance")
    def status() -> ClusterStatus:
        return cluster.status()

    @router.get("/blocked", tags=["cluster"], summary="Tasks that block their ordering ids")
    def blocked() -> BlockedTasks:
        return cluster.blocked()

    @router.get("/failing", tags=["cluster"], summary="Tasks whose attempts fail")
    def failing() -> FailingTasks:
        return cluster.failing()

    @router.get("/nodes", tags=["cluster"], summary="Every node that reported lately")
    def nodes() -> NodeListing:
        return cluster.nodes()

    @router.get("/partitions", tags=["cluster"], summary="Every partition and its owner's report")
    def partitions() -> PartitionListing:
        return cluster.partitions()

    @router.get("/running", tags=["cluster"], summary="Tasks whose user code runs")
    def running() -> ShownExecutions:
        return cluster.running()

    @router.get("/limited", tags=["cluster"], summary="Tasks that wait because of a limit")
    def limited() -> LimitedFlows:
        return cluster.limited()

    @router.get("/history", tags=["cluster"], summary="The last hour, as this process saw it")
    def history(partition: Partition = None) -> History:
        return cluster.history(partition)


def _add_settled(router: TypedRouter, service: AdminService) -> None:
    @router.get("/pauses", tags=["pauses"], summary="What is paused")
    def pauses() -> ShownPauses:
        return ShownPauses.of(service.pauses.config())

    @router.get("/limits", tags=["limits"], summary="Every limit, and what operators changed")
    def limits() -> LimitSettings:
        return service.limits.settings()

    @router.get(
        "/whoami", tags=["cluster"], summary="The user that the token stands for, and its rights"
    )
    def whoami(request: Request) -> Whoami:
        return Whoami(
            who=asking.who_asks(request),
            may_act=asking.may_act(request),
            shows_data=service.settings.admin.show_data,
            partition_count=service.partition_count,
            version=hourhand_version(),
        )

    @router.get("/settings", tags=["cluster"], summary="This process's settings, secrets hidden")
    def settings() -> ShownSettings:
        return ShownSettings(settings=masked(service.settings))


def _add_counts(router: TypedRouter, service: AdminService) -> None:
    @router.get(
        "/ahead",
        tags=["counts"],
        summary="The number of due tasks by time",
        responses=asking.NOT_FOUND,
    )
    def ahead(
        unit: Unit = Unit.MINUTE,
        from_: Annotated[asking.Time, Query(alias="from")] = None,
        bars: Annotated[int, Query(ge=1, le=1_440)] = 60,
        partition: Partition = None,
    ) -> Ahead:
        from_ms = None if from_ is None else asking.parsed_ms("from", from_)
        if bars > BARS_MAX[unit]:
            raise Problem(400, "invalid-request", f"bars: at most {BARS_MAX[unit]} by {unit}")
        check_partition(service, partition)
        return service.counts.ahead(unit, service.clock.now_ms(), bars, partition, from_ms)

    @router.get("/buckets", tags=["counts"], summary="The results of each partition's hours")
    def buckets(from_: Annotated[asking.Instant, Query(alias="from")], to: asking.Instant) -> Hours:
        from_ms, to_ms = asking.parsed_range(from_, to)
        if to_ms - from_ms > BUCKET_HOURS_MAX * HOUR_MS:
            raise Problem(400, "invalid-request", f"at most {BUCKET_HOURS_MAX} hours at a time")
        return service.counts.buckets(from_ms, to_ms, service.cluster.blocked_hours())


def _add_records(router: TypedRouter, service: AdminService) -> None:
    data = service.settings.admin.show_data

    @router.get("/dead-letters", tags=["dead letters"], summary="Records put aside, newest first")
    def dead_letters(
        limit: Annotated[int, Query(ge=1, le=_LETTER_PAGE_MAX)] = 50,
        before: Annotated[
            str | None, Query(max_length=20_000, json_schema_extra={"format": "letter-place"})
        ] = None,
        from_: Annotated[asking.Time, Query(alias="from")] = None,
        to: asking.Time = None,
        kind: asking.Kind = None,
        error_class: asking.ErrorClass = None,
    ) -> LetterListing:
        chosen = asking.letter_filter(from_, to, kind, error_class)
        return service.dead_letters.listing(before, limit, chosen, data=data)

    @router.get("/audit", tags=["audit"], summary="Acts and their users, newest first")
    def audit(
        limit: asking.Limit = 100,
        before: Annotated[
            str | None, Query(max_length=100, json_schema_extra={"format": "audit-place"})
        ] = None,
    ) -> AuditEntries:
        try:
            place = None if before is None else parse_place(before)
        except ValueError as error:
            raise Problem(400, "invalid-request", str(error)) from None
        return AuditEntries.of(service.audit.page(place, limit))


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
