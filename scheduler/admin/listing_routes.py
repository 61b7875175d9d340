"""Paths that list tasks: those in a range of time, by key or the newest first, and open ones.

A page reads a bounded number of tasks: it may hold few, even none, while there are more.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Query
from msgspec import UNSET
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.admin import asking
from hourhand.scheduler.admin.answers import ShownTask, ShownTasks, executed_task
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.services.http.typed_routes import TypedRouter
from hourhand.scheduler.tasks.inspector import (
    LOOKED_MAX,
    ListPart,
    TaskListing,
    TaskState,
    TaskView,
    as_executed,
    cut_listing,
    list_newest,
)
from hourhand.scheduler.tasks.task_filter import TaskFilter

_AHEAD_MS = 86_400_000
_PAGES_MAX = 20
"""Most reads for one page of open tasks."""
_EXECUTED = frozenset({TaskState.RUNNING, TaskState.CANCELLING})
"""States in which user code runs: nodes name these tasks, so no store is searched for them."""

Partition = Annotated[int | None, Query(ge=0, le=100_000)]
States = Annotated[list[TaskState] | None, Query(max_length=20)]
System = Annotated[
    bool,
    Query(
        description="True to list Hourhand's own tasks; those of an orderingId are always listed."
    ),
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of a listing, without its range of time."""

    limit: asking.Limit = 100
    state: States = None
    ordering_id: asking.OrderingId = None
    partition: Partition = None
    error_class: asking.ErrorClass = None
    kind: asking.Kind = None
    system: System = False
    after: asking.KeyBehind = None
    data: asking.WithData = False

    @property
    def filter(self) -> TaskFilter:
        """The filter for the tasks."""
        system = self.system or asking.is_system_id(self.ordering_id)
        kinds = frozenset() if self.kind is None else frozenset({self.kind})
        return TaskFilter(frozenset(self.state or ()), self.error_class, system, kinds)

    @property
    def behind(self) -> TaskKey | None:
        """The key behind which the page begins."""
        return None if self.after is None else asking.parsed_key(self.after)


def listing_routes(service: AdminService) -> TypedRouter:
    """Return the paths that list tasks."""
    router = asking.admin_router()
    _add_listing(router, service)
    _add_open(router, service)
    return router


def _add_listing(router: TypedRouter, service: AdminService) -> None:
    @router.get(
        "/tasks",
        tags=["tasks"],
        summary="Tasks of a stretch of time, in key order or the newest first",
        responses=asking.NOT_FOUND,
    )
    def tasks(
        *,
        from_: Annotated[asking.Instant, Query(alias="from")],
        to: asking.Instant,
        asked: Annotated[_Asked, Depends()],
        order: Literal["key", "newest"] = "key",
        attempts: bool = False,
    ) -> ShownTasks:
        from_ms, to_ms = asking.parsed_range(from_, to)
        check_partition(service, asked.partition)
        part, behind = _parts(service, asked), asked.behind
        if asked.filter.states and _EXECUTED.issuperset(asked.filter.states):
            stretch = _Stretch(
                from_ms, to_ms, asked.ordering_id, asked.partition, order == "newest", behind
            )
            found = _running(service, stretch, asked)
        elif order == "newest":
            found = list_newest(part, from_ms, to_ms, asked.limit, behind)
        else:
            found = part(from_ms, to_ms, asked.limit, behind)
        return _page(service, found, asked, attempts=attempts)


def _add_open(router: TypedRouter, service: AdminService) -> None:
    @router.get(
        "/tasks/open",
        tags=["tasks"],
        summary="Tasks that are not finished, from the first on, in key order",
        responses=asking.NOT_FOUND,
    )
    def open_tasks(*, to: asking.Time = None, asked: Annotated[_Asked, Depends()]) -> ShownTasks:
        check_partition(service, asked.partition)
        to_ms = service.clock.now_ms() + _AHEAD_MS if to is None else asking.parsed_ms("to", to)
        return _page(service, _open(service, asked, to_ms), asked)


def _parts(service: AdminService, asked: _Asked) -> ListPart:
    chosen = asked.filter

    def part(from_ms: int, to_ms: int, limit: int, after: TaskKey | None) -> TaskListing:
        return service.inspector.list_tasks(
            from_ms=from_ms,
            to_ms=to_ms,
            limit=limit,
            states=chosen.states,
            ordering_id=asked.ordering_id,
            partition=asked.partition,
            after=after,
            error_class=chosen.error_class,
            kinds=chosen.kinds,
            system=chosen.system,
            word=service.cluster.word(),
        )

    return part


def _open(service: AdminService, asked: _Asked, to_ms: int) -> TaskListing:
    """Return open tasks, with states from the store and the nodes' reports together."""
    word, chosen, after = service.cluster.word(), asked.filter, asked.behind
    found: list[TaskView] = []
    for _ in range(_PAGES_MAX):
        listing = service.inspector.list_open(
            to_ms=to_ms,
            limit=asked.limit,
            looked_max=LOOKED_MAX,
            ordering_id=asked.ordering_id,
            after=after,
        )
        views = [as_executed(each, word) for each in listing.tasks]
        found += [
            each
            for each in views
            if asked.partition in (None, each.partition) and chosen.accepts(each)
        ]
        after = listing.next_after
        if after is None or len(found) >= asked.limit:
            break
    return cut_listing(found, asked.limit, after)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A range of keys, and its order."""

    from_ms: int
    to_ms: int
    ordering_id: str | None
    partition: int | None
    is_newest_first: bool
    after: TaskKey | None

    def holds(self, key: TaskKey, partition: int) -> bool:
        """True if a key is in the range."""
        return (
            self.from_ms <= key.scheduled_ms < self.to_ms
            and self.ordering_id in (None, key.ordering_id)
            and self.partition in (None, partition)
            and (self.after is None or self.rank(key) > self.rank(self.after))
        )

    def rank(self, key: TaskKey) -> tuple[int, TaskKey]:
        """Return the value by which keys are ordered."""
        return (-key.scheduled_ms if self.is_newest_first else 0), key


def _running(service: AdminService, stretch: _Stretch, asked: _Asked) -> TaskListing:
    """Return the running tasks that owners report: the store does not know of a first attempt."""
    word = service.cluster.word()
    count, limit, chosen = service.partition_count, asked.limit, asked.filter
    held = [
        key for key in word.executing if stretch.holds(key, partition_of(key.ordering_id, count))
    ]
    held.sort(key=stretch.rank)
    shown = [as_executed(service.inspector.show(key), word) for key in held[:limit]]
    rest = held[limit - 1] if len(held) > limit else None
    return TaskListing([each for each in shown if chosen.accepts(each)], rest)


def _page(
    service: AdminService, listing: TaskListing, asked: _Asked, *, attempts: bool = False
) -> ShownTasks:
    page = ShownTasks.of(listing, data=asked.data and service.settings.admin.show_data)
    executed, limits = service.cluster.executions(), service.cluster.limits()
    shown = (executed_task(each, executed, limits) for each in page.tasks)
    return replace(page, tasks=[_counted(each, attempts=attempts) for each in shown])


def check_partition(service: AdminService, partition: int | None) -> None:
    """Refuse a partition that does not exist."""
    if partition is not None and partition >= service.partition_count:
        raise Problem(404, "unknown-partition", f"there is no partition {partition}")


def shown_with_execution(service: AdminService, view: TaskView, *, data: bool) -> ShownTask:
    """Show a task with the facts that only nodes know: its running attempt, or the limit it waits
    for.
    """
    shown = ShownTask.of(as_executed(view, service.cluster.word()), data=data)
    return executed_task(shown, service.cluster.executions(), service.cluster.limits())


def _counted(task: ShownTask, *, attempts: bool) -> ShownTask:
    """Return the task with its number of attempts, and with the attempts only if ``attempts`` is
    True.
    """
    numbers = [each.attempt for each in task.attempts or ()]
    closed = task.completion.attempts if task.completion else 0
    begun = task.running.attempt if task.running else 0
    count = max([closed, begun, *numbers])
    return replace(task, attempt_count=count, attempts=task.attempts if attempts else UNSET)
