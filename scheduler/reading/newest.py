"""Tasks of a stretch of time, the newest first, although stores read forward only.

Decides which parts of the stretch are read, from its end backwards, and how wide they are.
"""

from collections.abc import Callable, Sequence

from actors.model.key import TaskKey, first_key_at
from scheduler.reading.inspector import TaskListing
from scheduler.reading.task_state import TaskView

PART_TASKS_MAX = 1_000
_FIRST_PART_MS = 60_000
_WIDENED = 4
PARTS_MAX = 40
"""Parts of one page: where few are chosen out of very many, the page ends with what it has."""

ListPart = Callable[[int, int, int, TaskKey | None], TaskListing]
"""Lists the tasks from a time to before another, so many at most, behind a key; in key order."""


def list_newest(
    list_part: ListPart, from_ms: int, to_ms: int, limit: int, after: TaskKey | None
) -> TaskListing:
    """Return up to ``limit`` tasks, the latest first; those of one millisecond in key order.

    ``after`` continues behind the ``next_after`` of the page before.  Fewer, even none, come
    while there are more.
    """
    found: list[TaskView] = []
    if after is not None and after.scheduled_ms < to_ms:
        at_ms = after.scheduled_ms
        rest = list_part(at_ms, at_ms + 1, limit, after)
        if rest.next_after is not None:
            return rest
        found += rest.tasks
        to_ms = at_ms
    width_ms = _FIRST_PART_MS
    for _ in range(PARTS_MAX):
        if to_ms <= from_ms or len(found) > limit:
            break
        start_ms = max(from_ms, to_ms - width_ms)
        part = list_part(start_ms, to_ms, PART_TASKS_MAX, None)
        if part.next_after is not None and to_ms - start_ms > 1:
            width_ms = max(1, (to_ms - start_ms) // _WIDENED)
            continue
        found += _newest_first(part.tasks)
        if part.next_after is not None:
            # One millisecond holds more than a page: it is gone through in key order.
            return _cut(found, limit, part.next_after)
        to_ms = start_ms
        width_ms *= _WIDENED
    return _cut(found, limit, None if to_ms <= from_ms else first_key_at(to_ms - 1))


def _newest_first(tasks: Sequence[TaskView]) -> list[TaskView]:
    return sorted(tasks, key=lambda view: -view.key.scheduled_ms)


def _cut(found: list[TaskView], limit: int, next_after: TaskKey | None) -> TaskListing:
    if len(found) > limit:
        return TaskListing(found[:limit], found[limit - 1].key)
    return TaskListing(found, next_after)
