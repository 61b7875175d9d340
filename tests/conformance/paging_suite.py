"""The contract of ``ScheduleStore`` where pages, bounds and ids are hard, and of all that is read
through many hours.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable, Iterator

import pytest

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores, TaskPage
from tests.conformance.store_values import (
    AWKWARD_IDS,
    FAR_MS,
    HOUR_START_MS,
    StoreSuite,
    before,
    done,
    rows,
    task_at,
    write_time,
)

FIRST_MS = -62_135_596_800_000
"""The first millisecond of year 1, the lowest a key can hold."""
MEGABYTE = b'{"text":"%b"}' % (b"x" * 1_000_000)
PAGE_BYTES_MAX = 20 * 2**20
"""More than a page of any adapter holds, and less than the tests of large rows write."""
LAST_ID = "\U0010ffff" * 10


def pages(read: Callable[[TaskKey], TaskPage], after: TaskKey) -> Iterator[list[StoredTask]]:
    """Yield pages that follow each other, to the one that says it is the last."""
    complete = False
    while not complete:
        page = read(after)
        assert page.tasks or page.complete, "neither a row nor the end"
        yield list(page.tasks)
        complete = page.complete
        if not complete:
            after = page.tasks[-1].key


def all_rows(
    stores: Stores, partition: int, after: TaskKey, before_ms: int, limit: int
) -> list[StoredTask]:
    """Read a range page by page."""

    def read(last: TaskKey) -> TaskPage:
        page = done(stores.schedule.load_tasks(partition, last, before_ms, limit))
        assert len(page.tasks) <= limit
        return page

    return [task for page in pages(read, after) for task in page]


class PagingSuite(StoreSuite):
    """The contract of every ``ScheduleStore`` with pages."""

    @pytest.mark.parametrize("first_ms", [HOUR_START_MS, -40 * HOUR_MS])
    def test_many_hours_with_rows_are_read_in_order(
        self, stores: Stores, partition: int, first_ms: int
    ) -> None:
        """However many hours are read at a time, and on both sides of 1970."""
        hours = 80
        tasks = sorted(
            (
                task_at(first_ms + hour * HOUR_MS + number, "a", str(number))
                for hour in range(hours)
                for number in range(20 if hour % 7 else 1)
            ),
            key=lambda task: task.key,
        )
        keys = [task.key for task in tasks]
        completions = [
            Completion(key, CompletionResult.SUCCESS, 1, 1, first_ms, first_ms) for key in keys
        ]
        attempts = [
            AttemptRecord(key, number, AttemptResult.FAILURE, first_ms, first_ms)
            for key in keys
            for number in (1, 2)
        ]
        at, after = write_time(1), before(first_ms)
        done(stores.schedule.insert_tasks(partition, tasks, at))
        done(stores.status.insert_completions(partition, completions, at))
        done(stores.status.insert_attempts(partition, attempts, at))

        found = all_rows(stores, partition, after, first_ms + hours * HOUR_MS, 150)

        assert rows(found) == rows(tasks)
        assert done(stores.status.load_completions(partition, after, keys[-1])) == completions
        assert done(stores.status.load_attempts(partition, after, keys[-1])) == attempts

    bounds_bytes = True
    """True if a page ends early where rows are large; one that is memory itself need not."""

    def test_the_order_of_keys_is_that_of_their_utf8_bytes(
        self, stores: Stores, partition: int
    ) -> None:
        """Not of UTF-16, where astral characters sort below U+FFFF; page by page nothing is lost.

        Equal times, so ids alone decide, in both places.
        """
        ids = AWKWARD_IDS[:16]
        tasks = [task_at(HOUR_START_MS, each, other) for each in ids for other in ids]
        tasks.sort(
            key=lambda task: (task.key.ordering_id.encode(), task.key.uniqueness_key.encode())
        )
        assert tasks == sorted(tasks, key=lambda task: task.key)
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        found = all_rows(stores, partition, before(HOUR_START_MS), HOUR_START_MS + 1, 7)
        assert rows(found) == rows(tasks)

    def test_every_id_is_a_bound(self, stores: Stores, partition: int) -> None:
        """A page goes on right behind any id, the empty one and one with a NUL included."""
        ids = sorted(AWKWARD_IDS)
        tasks = [task_at(HOUR_START_MS, "o", each) for each in ids]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        end_ms = HOUR_START_MS + 1
        for number, task in enumerate(tasks):
            page = done(stores.schedule.load_tasks(partition, task.key, end_ms, 100))
            assert rows(page.tasks) == rows(tasks[number + 1 :])
            own = done(stores.schedule.load_ordering(partition, "o", task.key, tasks[-1].key, 100))
            assert rows(own.tasks) == rows(tasks[number + 1 :])
            assert own.complete

    @pytest.mark.parametrize("ordering_id", AWKWARD_IDS)
    def test_one_awkward_ordering_id_page_by_page(
        self, stores: Stores, partition: int, ordering_id: str
    ) -> None:
        """Its rows alone, over equal times and over hours, beside ids just below and above."""
        beside = [ordering_id + "\0", ordering_id[:-1], "\U0010ffff" * 2]
        own = [
            task_at(HOUR_START_MS + offset_ms, ordering_id, unique)
            for offset_ms in (0, 1, HOUR_MS - 1, HOUR_MS, 9 * HOUR_MS)
            for unique in ("", "\uffff", "🐈")
        ]
        others = [
            task_at(task.key.scheduled_ms, other, task.key.uniqueness_key)
            for task in own
            for other in beside
            if other != ordering_id
        ]
        done(stores.schedule.insert_tasks(partition, own + others, write_time(1)))
        schedule = stores.schedule

        def read_by(limit: int) -> Callable[[TaskKey], TaskPage]:
            return lambda after: done(
                schedule.load_ordering(partition, ordering_id, after, own[-1].key, limit)
            )

        for limit in (1, 2, 15):
            read = pages(read_by(limit), before(HOUR_START_MS))
            assert rows([task for page in read for task in page]) == rows(own)

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_a_range_ends_at_its_millisecond(
        self, stores: Stores, partition: int, limit: int
    ) -> None:
        """At the start of an hour, in its first and in its last millisecond."""
        edges = (-1, 0, 1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS - 1, 2 * HOUR_MS)
        tasks = [
            task_at(HOUR_START_MS + edge, ordering_id)
            for edge in edges
            for ordering_id in ("", LAST_ID)
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        for first in edges:
            for end in edges:
                found = all_rows(
                    stores,
                    partition,
                    first_key_at(HOUR_START_MS + first),
                    HOUR_START_MS + end,
                    limit,
                )
                # The bound is the lowest key of its millisecond, which no row of this test has.
                expected = [
                    task for task in tasks if first <= task.key.scheduled_ms - HOUR_START_MS < end
                ]
                assert rows(found) == rows(expected), (first, end)

    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_the_whole_calendar_in_one_walk(
        self, stores: Stores, partition: int, limit: int
    ) -> None:
        """Year 1, the millisecond before 1970, its first, today, and the last of 9999 (P8)."""
        tasks = [
            task_at(time_ms, ordering_id)
            for time_ms in (FIRST_MS, -HOUR_MS, -1, 0, 1, HOUR_START_MS, FAR_MS - 1, FAR_MS)
            for ordering_id in ("a", "b")
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        after = TaskKey(FIRST_MS, "", "")
        assert rows(all_rows(stores, partition, after, FAR_MS + 1, limit)) == rows(tasks)
        assert rows(all_rows(stores, partition, after, FAR_MS, limit)) == rows(tasks[:-2])
        own = done(stores.schedule.load_ordering(partition, "b", after, tasks[-1].key, 100))
        assert rows(own.tasks) == rows(tasks[1::2])

    def test_large_rows_come_in_pages_of_few(self, stores: Stores, partition: int) -> None:
        """A thousand rows of a megabyte asked for at once are not held at once (P13)."""
        small = [task_at(HOUR_START_MS + n, "a", data=b"{}") for n in range(300)]
        large = [task_at(HOUR_START_MS + 1_000 + n, "b", data=MEGABYTE) for n in range(30)]
        late = [task_at(HOUR_START_MS + HOUR_MS + n, "a", data=b"{}") for n in range(300)]
        for number in range(0, len(large), 10):
            done(
                stores.schedule.insert_tasks(partition, large[number : number + 10], write_time(1))
            )
        done(stores.schedule.insert_tasks(partition, small + late, write_time(1)))

        def of_all(after: TaskKey) -> TaskPage:
            end_ms = HOUR_START_MS + 2 * HOUR_MS
            return done(stores.schedule.load_tasks(partition, after, end_ms, 1_000))

        def of_one(after: TaskKey) -> TaskPage:
            return done(stores.schedule.load_ordering(partition, "b", after, large[-1].key, 1_000))

        for read, expected in ((of_all, small + large + late), (of_one, large)):
            found = list(pages(read, before(HOUR_START_MS)))
            assert rows([task for page in found for task in page]) == rows(expected)
            if self.bounds_bytes:
                sizes = [sum(len(task.data) for task in page) for page in found]
                assert max(sizes) < PAGE_BYTES_MAX

    @pytest.mark.parametrize("page_bytes", [1, 150_000, 350_000])
    def test_a_page_ends_with_the_row_that_reaches_its_bytes(
        self, stores: Stores, partition: int, page_bytes: int
    ) -> None:
        """A page asks for the rows that fit into memory; at least one comes, and none is lost."""
        large = [task_at(HOUR_START_MS + n, "b", data=b"x" * 100_000) for n in range(7)]
        done(stores.schedule.insert_tasks(partition, large, write_time(1)))

        def of_all(after: TaskKey) -> TaskPage:
            end_ms = HOUR_START_MS + HOUR_MS
            return done(stores.schedule.load_tasks(partition, after, end_ms, 100, page_bytes))

        def of_one(after: TaskKey) -> TaskPage:
            last = large[-1].key
            return done(stores.schedule.load_ordering(partition, "b", after, last, 100, page_bytes))

        for read in (of_all, of_one):
            found = list(pages(read, before(HOUR_START_MS)))
            assert rows([task for page in found for task in page]) == rows(large)
            assert {len(page) for page in found[:-1]} == {page_bytes // 100_000 + 1}

    def test_a_row_larger_than_any_page_is_a_page(self, stores: Stores, partition: int) -> None:
        """However large its neighbours are, each page brings at least one row."""
        data = b'{"text":"%b"}' % (b"x" * 9_000_000)
        tasks = [task_at(HOUR_START_MS + n, data=data) for n in range(3)]
        for task in tasks:
            done(stores.schedule.insert_tasks(partition, [task], write_time(1)))
        after, end_ms = before(HOUR_START_MS), HOUR_START_MS + HOUR_MS
        assert rows(all_rows(stores, partition, after, end_ms, 100)) == rows(tasks)

    def test_a_page_sees_what_changed_since_the_last_one(
        self, stores: Stores, partition: int
    ) -> None:
        """A row written, replaced or removed ahead of the reader; behind it nothing moves."""
        tasks = [
            task_at(HOUR_START_MS + n * HOUR_MS // 2, unique) for n in range(6) for unique in "ab"
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))
        end_ms = HOUR_START_MS + 3 * HOUR_MS
        first = done(stores.schedule.load_tasks(partition, before(HOUR_START_MS), end_ms, 3))
        replaced = StoredTask(tasks[4].key, b'{"new":1}', 99)
        behind = task_at(HOUR_START_MS, "0", "late")
        ahead = task_at(end_ms - 1, "z", "late")
        done(stores.schedule.insert_tasks(partition, [replaced, behind, ahead], write_time(1, 2)))
        hour_ms = HOUR_START_MS + HOUR_MS
        done(stores.schedule.delete_tasks(partition, hour_ms, hour_ms + HOUR_MS, write_time(1, 2)))
        rest = all_rows(stores, partition, first.tasks[-1].key, end_ms, 2)
        assert rows(first.tasks) == rows(tasks[:3])
        assert rows(rest) == rows([tasks[3], *tasks[8:], ahead])
