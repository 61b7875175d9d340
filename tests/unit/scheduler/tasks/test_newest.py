"""The newest first: every task once, whatever the pages, the parts and the herds."""

from collections.abc import Iterator

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.tasks import inspector
from hourhand.scheduler.tasks.inspector import LOOKED_MAX, TaskListing, list_newest
from hourhand.scheduler.tasks.task_state import TaskState, TaskView
from tests.builders import NOW_MS

HOUR_MS = 3_600_000
FROM_MS, TO_MS = NOW_MS - 1_000 * HOUR_MS, NOW_MS + HOUR_MS


class Tasks:
    """Tasks in key order, and how often they were asked for."""

    def __init__(self, *times_ms: int) -> None:
        keys = sorted(TaskKey(time_ms, f"id-{n}", "u") for n, time_ms in enumerate(times_ms))
        self.views = [TaskView(key, 0, TaskState.SUCCESS, None, None, ()) for key in keys]
        self.asked = 0

    def part(self, from_ms: int, to_ms: int, limit: int, after: TaskKey | None) -> TaskListing:
        """List some of them."""
        self.asked += 1
        found = [
            each
            for each in self.views
            if from_ms <= each.key.scheduled_ms < to_ms and (after is None or each.key > after)
        ]
        return TaskListing(found[:limit], found[limit - 1].key if len(found) > limit else None)

    def pages(self, limit: int) -> Iterator[list[TaskKey]]:
        """Yield all pages."""
        after: TaskKey | None = None
        while True:
            page = list_newest(self.part, FROM_MS, TO_MS, limit, after)
            yield [each.key for each in page.tasks]
            after = page.next_after
            if after is None:
                return

    @property
    def newest_first(self) -> list[TaskKey]:
        """Return the keys as they are to be listed."""
        return sorted((each.key for each in self.views), key=lambda key: (-key.scheduled_ms, key))


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_every_task_is_listed_once_and_the_newest_first(limit: int) -> None:
    """Those of one millisecond in key order."""
    times = [NOW_MS - 40 * HOUR_MS, *[NOW_MS] * 5, NOW_MS - 1, NOW_MS - HOUR_MS, FROM_MS, TO_MS - 1]
    tasks = Tasks(*times)

    pages = list(tasks.pages(limit))

    assert [key for page in pages for key in page] == tasks.newest_first
    assert max(map(len, pages)) <= limit


def test_a_herd_of_one_millisecond_is_gone_through_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is never held in memory as a whole."""
    monkeypatch.setattr(inspector, "PART_TASKS_MAX", 4)
    tasks = Tasks(*[NOW_MS] * 23, *[NOW_MS - 5] * 3, NOW_MS + 1)

    pages = list(tasks.pages(3))

    assert [key for page in pages for key in page] == tasks.newest_first


def test_a_long_stretch_without_tasks_costs_few_reads() -> None:
    """Parts grow where they are empty."""
    tasks = Tasks(FROM_MS)

    (page,) = tasks.pages(10)

    assert len(page) == 1
    assert tasks.asked < 12


def test_a_page_ends_where_the_chosen_are_few_among_very_many() -> None:
    """It says where to go on, so that no request looks at everything."""
    asked: list[int] = []

    def part(from_ms: int, to_ms: int, _limit: int, _after: TaskKey | None) -> TaskListing:
        asked.append(to_ms - from_ms)
        return TaskListing([], TaskKey(from_ms, "x", "y") if to_ms - from_ms > 9 else None)

    page = list_newest(part, FROM_MS, TO_MS, 10, None)

    assert (len(asked), page.tasks) == (inspector.PARTS_MAX, [])
    assert page.next_after is not None
    assert FROM_MS < page.next_after.scheduled_ms < TO_MS
    assert LOOKED_MAX * inspector.PARTS_MAX < 1_000_000
