"""The task that blocks an ordering id, and the number of tasks that wait behind one.

Counts up to a bound.
"""

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.admin.answers import Answer, KeyText
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.tasks.inspector import Inspector, TaskState
from hourhand.scheduler.tasks.task_filter import TaskFilter

COUNTED_MAX = 1_000
_PAGE_TASKS = 500
_LOOKED_MAX = 10_000
_SHOWN_MAX = 20
_PAGES_MAX = 1_000


class WaitingBehind(Answer, frozen=True):
    """The number of due tasks that wait behind a key."""

    ordering_id: str
    waiting: int
    more: bool
    """True if there are more than were counted."""
    first: list[KeyText]


def blocking_task(inspector: Inspector, clock: Clock, ordering_id: str) -> TaskKey | None:
    """Return the task that blocks an ordering id, if one does."""
    after: TaskKey | None = None
    while True:
        # A task that blocks was attempted, so it was due.
        listing = inspector.list_open(
            to_ms=clock.now_ms() + 1,
            limit=_PAGE_TASKS,
            looked_max=_PAGE_TASKS,
            ordering_id=ordering_id,
            after=after,
        )
        for view in listing.tasks:
            if view.state is TaskState.BLOCKED:
                return view.key
        after = listing.next_after
        if after is None:
            return None


def blocked_by(
    inspector: Inspector, clock: Clock, error_class: str, keys_max: int
) -> list[TaskKey]:
    """Return all tasks that block their ordering ids and failed last with a class of error.

    Problem if there are more than an act may concern, or too many open tasks to look through.
    """
    wanted = TaskFilter([TaskState.BLOCKED], error_class)
    found: list[TaskKey] = []
    after: TaskKey | None = None
    for _ in range(_PAGES_MAX):
        listing = inspector.list_open(
            to_ms=clock.now_ms() + 1,
            limit=_PAGE_TASKS,
            looked_max=_LOOKED_MAX,
            after=after,
        )
        found += [view.key for view in listing.tasks if wanted.accepts(view)]
        after = listing.next_after
        if len(found) > keys_max:
            break
        if after is None:
            return found
    raise Problem(
        409,
        "too-many-tasks",
        f"more than {keys_max} tasks are blocked so (admin.bulk_keys_max), or more than"
        f" {_PAGES_MAX * _PAGE_TASKS} are due: name `orderingIds`",
    )


def waiting_behind(inspector: Inspector, clock: Clock, first: TaskKey) -> WaitingBehind:
    """Return the number of tasks that wait behind a key, and the first of them."""
    listing = inspector.list_open(
        to_ms=max(first.scheduled_ms + 1, clock.now_ms()),
        limit=COUNTED_MAX,
        looked_max=_LOOKED_MAX,
        ordering_id=first.ordering_id,
        after=first,
    )
    return WaitingBehind(
        ordering_id=first.ordering_id,
        waiting=len(listing.tasks),
        more=listing.next_after is not None,
        first=[str(view.key) for view in listing.tasks[:_SHOWN_MAX]],
    )
