"""The contract of ``ScheduleStore``: rows, ranges, write times, whole-hour deletes.

Bound as ``tests.conformance.stores`` describes.
"""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import ID_BYTES_MAX, StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import (
    AWKWARD_IDS,
    FAR_MS,
    HOUR_START_MS,
    StoreSuite,
    before,
    done,
    hour_page,
    key_at,
    rows,
    task_at,
    write_time,
)

OLD = task_at(HOUR_START_MS, data=b'{"version":"old"}', offset=1)
NEW = task_at(HOUR_START_MS, data=b'{"version":"new"}', offset=2)


class ScheduleSuite(StoreSuite):
    """The contract of every ``ScheduleStore``."""

    def test_rows_come_back_in_key_order_with_data_and_offset(
        self, stores: Stores, partition: int
    ) -> None:
        """Order of writing does not show, nor does the width of an offset get lost."""
        tasks = [
            task_at(HOUR_START_MS, "a", "1", data=b"{}", offset=0),
            task_at(HOUR_START_MS, "a", "2", data=b'{"a": [1,2]}', offset=2**62),
            task_at(HOUR_START_MS, "b", "1"),
            task_at(HOUR_START_MS + 1, "a", "1"),
            task_at(HOUR_START_MS + HOUR_MS - 1, "a", "1"),
        ]
        shuffled = random.Random(1).sample(tasks, len(tasks))
        done(stores.schedule.insert_tasks(partition, shuffled, write_time(1)))
        page = hour_page(stores, partition, HOUR_START_MS)
        assert rows(page.tasks) == rows(tasks)
        assert page.complete

    def test_a_partition_knows_only_its_own_rows(self, stores: Stores, partition: int) -> None:
        """Neighbouring partition numbers share nothing."""
        done(stores.schedule.insert_tasks(partition, [NEW], write_time(1)))
        assert not hour_page(stores, partition + 1, HOUR_START_MS).tasks
        assert not done(stores.schedule.find_tasks(partition + 1, [NEW.key]))

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_the_higher_write_time_wins_whichever_arrives_first(
        self, stores: Stores, partition: int, *, newest_first: bool
    ) -> None:
        """All of a row is replaced, never one column of it."""
        writes = [(OLD, write_time(1, 1)), (NEW, write_time(1, 2))]
        for task, at in reversed(writes) if newest_first else writes:
            done(stores.schedule.insert_tasks(partition, [task], at))
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows([NEW])

    def test_a_new_owner_beats_the_last_write_of_an_old_one(
        self, stores: Stores, partition: int
    ) -> None:
        """One epoch outweighs every counter of the epoch before."""
        done(stores.schedule.insert_tasks(partition, [NEW], write_time(2, 1)))
        done(stores.schedule.insert_tasks(partition, [OLD], write_time(1, 2**40 - 1)))
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows([NEW])

    def test_writing_the_same_again_changes_nothing(self, stores: Stores, partition: int) -> None:
        """Writes are idempotent: what was retried stands there once."""
        for _ in range(3):
            done(stores.schedule.insert_tasks(partition, [NEW], write_time(3)))
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows([NEW])

    @pytest.mark.parametrize("delete_first", [False, True])
    @pytest.mark.parametrize(("lead", "lives"), [(-1, False), (0, False), (1, True)])
    def test_a_delete_removes_what_was_written_up_to_its_write_time(
        self, stores: Stores, partition: int, *, delete_first: bool, lead: int, lives: bool
    ) -> None:
        """Equal times die, higher ones live, whichever of the two arrives first."""
        end_ms = HOUR_START_MS + HOUR_MS

        def insert() -> None:
            done(stores.schedule.insert_tasks(partition, [NEW], write_time(5, 100 + lead)))

        def delete() -> None:
            done(stores.schedule.delete_tasks(partition, HOUR_START_MS, end_ms, write_time(5, 100)))

        for step in (delete, insert) if delete_first else (insert, delete):
            step()
        expected = [NEW] if lives else []
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows(expected)
        assert (NEW.key in done(stores.schedule.find_tasks(partition, [NEW.key]))) is lives

    def test_a_delete_keeps_to_its_hours(self, stores: Stores, partition: int) -> None:
        """The first hour goes from its first millisecond, the end's hour stays whole."""
        kept_before = task_at(HOUR_START_MS - 1)
        kept_after = task_at(HOUR_START_MS + 3 * HOUR_MS)
        gone = [task_at(HOUR_START_MS + each) for each in (0, HOUR_MS, 3 * HOUR_MS - 1)]
        tasks = [kept_before, *gone, kept_after]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))
        done(
            stores.schedule.delete_tasks(
                partition, HOUR_START_MS, HOUR_START_MS + 3 * HOUR_MS, write_time(1, 2)
            )
        )
        page = hour_page(stores, partition, HOUR_START_MS - HOUR_MS, hours=5)
        assert rows(page.tasks) == rows([kept_before, kept_after])

    def test_a_range_is_open_below_and_open_above(self, stores: Stores, partition: int) -> None:
        """``after`` itself and ``before_ms`` itself are outside."""
        tasks = [
            task_at(HOUR_START_MS, "a", "1"),
            task_at(HOUR_START_MS, "a", "2"),
            task_at(HOUR_START_MS, "b", ""),
            task_at(HOUR_START_MS + 1, "", "0"),
            task_at(HOUR_START_MS + 2, "a", "1"),
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))

        def load(after: TaskKey, before_ms: int) -> list[TaskKey]:
            page = done(stores.schedule.load_tasks(partition, after, before_ms, 100))
            assert page.complete
            return [task.key for task in page.tasks]

        keys = [task.key for task in tasks]
        assert load(keys[0], HOUR_START_MS + 2) == keys[1:4]
        assert load(keys[0], HOUR_START_MS + 3) == keys[1:5]
        assert load(first_key_at(HOUR_START_MS), HOUR_START_MS + 1) == keys[:3]
        assert load(key_at(HOUR_START_MS, "a", "11"), HOUR_START_MS + 1) == keys[1:3]
        assert load(keys[0], HOUR_START_MS) == []
        assert load(keys[4], HOUR_START_MS) == []
        assert load(keys[4], HOUR_START_MS + HOUR_MS) == []

    @pytest.mark.parametrize("limit", [1, 7, 50])
    def test_pages_follow_each_other_across_hours_and_equal_times(
        self, stores: Stores, partition: int, limit: int
    ) -> None:
        """Going on after the last key reads everything once."""
        tasks = [
            task_at(HOUR_START_MS + hour * HOUR_MS, ordering_id, unique, offset=hour)
            for hour in (0, 1, 4)
            for ordering_id in ("a", "b", "c")
            for unique in ("", "1", "2", "3", "4", "5")
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        after, read, complete = before(HOUR_START_MS), list[StoredTask](), False
        while not complete:
            page = done(
                stores.schedule.load_tasks(partition, after, HOUR_START_MS + 6 * HOUR_MS, limit)
            )
            assert len(page.tasks) <= limit
            assert len(page.tasks) == limit or page.complete
            read.extend(page.tasks)
            after, complete = read[-1].key, page.complete
        assert rows(read) == rows(tasks)

    @pytest.mark.parametrize(("limit", "complete"), [(1, False), (3, False), (4, True), (5, True)])
    def test_complete_means_that_no_further_row_is_there(
        self, stores: Stores, partition: int, limit: int, *, complete: bool
    ) -> None:
        """A limit that is met exactly still tells the truth, also where the next row is far."""
        starts = (0, 1, HOUR_MS, 40 * HOUR_MS)
        tasks = [task_at(HOUR_START_MS + each) for each in starts]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        end_ms = HOUR_START_MS + 41 * HOUR_MS
        page = done(stores.schedule.load_tasks(partition, before(HOUR_START_MS), end_ms, limit))
        assert rows(page.tasks) == rows(tasks[:limit])
        assert page.complete is complete

    @pytest.mark.parametrize("gap_hours", [15, 16, 100, 3_000, 400_000])
    def test_rows_far_apart_are_found(self, stores: Stores, partition: int, gap_hours: int) -> None:
        """A long stretch of empty hours hides nothing behind it, however old its start (P8)."""
        tasks = [task_at(HOUR_START_MS - gap_hours * HOUR_MS), NEW]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        after = before(tasks[0].key.scheduled_ms)
        page = done(stores.schedule.load_tasks(partition, after, HOUR_START_MS + 1, 10))
        assert rows(page.tasks) == rows(tasks)
        assert page.complete

    def test_many_rows_of_many_hours_in_one_call(self, stores: Stores, partition: int) -> None:
        """However an adapter cuts a large insert, nothing is lost or doubled."""
        tasks = sorted(
            (
                task_at(
                    HOUR_START_MS + number * 9_001,
                    f"id-{number % 97}",
                    str(number),
                    data=b'{"text":"%b"}' % (b"x" * (number % 300)),
                    offset=number,
                )
                for number in range(3_000)
            ),
            key=lambda task: task.key,
        )
        shuffled = random.Random(2).sample(tasks, len(tasks))
        done(stores.schedule.insert_tasks(partition, shuffled, write_time(1)))
        page = hour_page(stores, partition, HOUR_START_MS, hours=9)
        assert rows(page.tasks) == rows(tasks)

    def test_large_rows_beside_small_ones(self, stores: Stores, partition: int) -> None:
        """A megabyte of data is one row like any other."""
        tasks = [
            task_at(HOUR_START_MS + number, data=b'{"text":"%b"}' % (b"x" * size))
            for number, size in enumerate((1_000_000, 1, 300_000, 300_000, 1, 1_000_000))
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows(tasks)

    def test_every_id_comes_back_as_it_was_in_the_order_of_its_bytes(
        self, stores: Stores, partition: int
    ) -> None:
        """Empty, quoted, NUL, long and astral ids, in both places, sort as Python strings do."""
        tasks = sorted(
            (
                task_at(HOUR_START_MS, ordering_id, uniqueness_key, data=b"{}")
                for ordering_id in AWKWARD_IDS
                for uniqueness_key in AWKWARD_IDS
            ),
            key=lambda task: task.key,
        )
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        # ``after`` is the very first key of the range, one with two empty ids.
        page = hour_page(stores, partition, HOUR_START_MS)
        assert [task.key for task in page.tasks] == [task.key for task in tasks]
        keys = [task.key for task in tasks]
        assert set(done(stores.schedule.find_tasks(partition, keys))) == set(keys)

    def test_ids_as_long_as_a_key_may_hold(self, stores: Stores, partition: int) -> None:
        """The longest id in both places at once is still a row, and still a bound."""
        task = task_at(HOUR_START_MS, "o" * ID_BYTES_MAX, "u" * ID_BYTES_MAX)
        done(stores.schedule.insert_tasks(partition, [task], write_time(1)))
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows([task])
        end_ms = HOUR_START_MS + 1
        assert not done(stores.schedule.load_tasks(partition, task.key, end_ms, 1)).tasks
        page = done(
            stores.schedule.load_ordering(
                partition, task.key.ordering_id, before(HOUR_START_MS), task.key, 1
            )
        )
        assert rows(page.tasks) == rows([task])

    @pytest.mark.parametrize(
        "time_ms", [-62_135_596_800_000, -HOUR_MS - 1, -1, 0, 1, FAR_MS - 1, FAR_MS]
    )
    def test_every_year_of_the_calendar(self, stores: Stores, partition: int, time_ms: int) -> None:
        """Years 1 to 9999, before and after 1970, keep their milliseconds and their hour."""
        tasks = [task_at(time_ms, ordering_id) for ordering_id in ("a", "b")]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))
        found = done(stores.schedule.load_tasks(partition, tasks[0].key, time_ms + 1, 10))
        assert rows(found.tasks) == rows(tasks[1:])
        assert set(done(stores.schedule.find_tasks(partition, [tasks[0].key]))) == {tasks[0].key}
        hour_ms = hour_of(time_ms)
        done(stores.schedule.delete_tasks(partition, hour_ms, hour_ms + HOUR_MS, write_time(1, 2)))
        assert not done(stores.schedule.find_tasks(partition, [tasks[0].key]))

    def test_finding_many_keys_answers_only_those_that_are_there(
        self, stores: Stores, partition: int
    ) -> None:
        """Keys of many hours, doubled and absent ones among them."""
        tasks = [
            task_at(HOUR_START_MS + number * 60_000, "id", str(number), offset=number)
            for number in range(400)
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        absent = [key_at(task.key.scheduled_ms, "id", "absent") for task in tasks]
        asked = [*absent, *(task.key for task in tasks[::2]), tasks[0].key]
        found = done(stores.schedule.find_tasks(partition, asked))
        assert rows(sorted(found.values(), key=lambda task: task.key)) == rows(tasks[::2])
        assert all(key == task.key for key, task in found.items())

    @pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 65])
    def test_any_number_of_keys_is_found_at_once(
        self, stores: Stores, partition: int, count: int
    ) -> None:
        """Each with its own row, of its own partition, whatever is asked for in one statement."""
        tasks = [
            task_at(HOUR_START_MS + number // 3, f"id-{number % 3}", offset=number)
            for number in range(count)
        ]
        others = [replace(task, offset=9_999) for task in tasks]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        done(stores.schedule.insert_tasks(partition + 1, others, write_time(1)))

        found = done(stores.schedule.find_tasks(partition, [task.key for task in tasks]))

        assert rows([found[task.key] for task in tasks]) == rows(tasks) and len(found) == count

    def test_a_key_no_row_can_have_is_absent(self, stores: Stores, partition: int) -> None:
        """A key typed by an operator may hold what no record can."""
        keys = [key_at(HOUR_START_MS, "\ud800", "u"), key_at(HOUR_START_MS, "x" * 70_000, "u")]
        done(stores.schedule.insert_tasks(partition, [NEW], write_time(1)))
        assert set(done(stores.schedule.find_tasks(partition, [*keys, NEW.key]))) == {NEW.key}

    def test_nothing_asked_is_nothing_answered(self, stores: Stores, partition: int) -> None:
        """Empty inputs and empty ranges succeed."""
        done(stores.schedule.insert_tasks(partition, [], write_time(1)))
        done(stores.schedule.delete_tasks(partition, HOUR_START_MS, HOUR_START_MS, write_time(1)))
        assert done(stores.schedule.find_tasks(partition, [])) == {}
        page = hour_page(stores, partition, HOUR_START_MS)
        assert (list(page.tasks), page.complete) == ([], True)

    def test_one_ordering_id_across_hours(self, stores: Stores, partition: int) -> None:
        """Only its rows, open below and closed above, in key order, up to the limit."""
        tasks = [
            task_at(HOUR_START_MS + hour * HOUR_MS, ordering_id, unique)
            for hour in (0, 1, 2, 50)
            for ordering_id in ("", "a", "aa", "b")
            for unique in ("1", "2", "3")
        ]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1)))
        own = [task for task in tasks if task.key.ordering_id == "a"]

        def load(after: TaskKey, up_to: TaskKey, limit: int) -> tuple[list[TaskKey], bool]:
            page = done(stores.schedule.load_ordering(partition, "a", after, up_to, limit))
            return [task.key for task in page.tasks], page.complete

        keys = [task.key for task in own]
        assert load(before(HOUR_START_MS), keys[-1], 100) == (keys, True)
        assert load(keys[1], keys[7], 100) == (keys[2:8], True)
        assert load(keys[1], keys[7], 6) == (keys[2:8], True)
        assert load(keys[1], keys[7], 5) == (keys[2:7], False)
        assert load(keys[0], keys[-1], 1) == (keys[1:2], False)
        assert load(keys[2], keys[2], 9) == ([], True)
        # Bounds are whole keys, so they may be of another ordering id, or of none.
        assert load(key_at(HOUR_START_MS, "b", ""), keys[4], 9) == (keys[3:5], True)
        assert load(keys[2], key_at(HOUR_START_MS + HOUR_MS, "Z", "9"), 9) == ([], True)

    @pytest.mark.parametrize("limit", [1, 7, 18, 54, 1_000])
    def test_the_keys_of_a_range_are_found_page_by_page(
        self, stores: Stores, partition: int, limit: int
    ) -> None:
        """Each once and in order, across hours and equal times, and no other."""
        tasks = [
            task_at(HOUR_START_MS + hour * HOUR_MS, f"{hour}-{ordering_id}", unique)
            for hour in (0, 1, 4)
            for ordering_id in AWKWARD_IDS[:6]
            for unique in ("", "1", "2")
        ]
        outside = [
            task_at(HOUR_START_MS - 1, "early"),
            task_at(HOUR_START_MS + 4 * HOUR_MS + 1, "late"),
        ]
        done(stores.schedule.insert_tasks(partition, [*tasks, *outside], write_time(1)))
        after, found, end_ms = before(HOUR_START_MS), list[TaskKey](), HOUR_START_MS + 4 * HOUR_MS
        complete, pages = False, 0
        while not complete:
            page = done(stores.schedule.find_keys(partition, after, end_ms + 1, limit))
            complete, pages = page.complete, pages + 1
            found += page.keys
            after = page.reached(first_key_at(end_ms + 1))
        assert found == sorted(task.key for task in tasks)
        assert len(tasks) // limit <= pages <= len(tasks) // limit + 1

    def test_no_rows_have_no_keys(self, stores: Stores, partition: int) -> None:
        """Neither an empty range nor another partition's rows."""
        done(stores.schedule.insert_tasks(partition, [NEW], write_time(1)))
        for asked, after in ((partition, NEW.key), (partition + 1, before(HOUR_START_MS))):
            page = done(stores.schedule.find_keys(asked, after, HOUR_START_MS + 1, 10))
            assert (list(page.keys), page.complete) == ([], True)

    def test_rows_outlive_a_restart(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """Acknowledged writes and removals hold after close and open."""
        done(stores.schedule.insert_tasks(partition, [OLD, task_at(0)], write_time(1, 1)))
        done(stores.schedule.delete_tasks(partition, 0, HOUR_MS, write_time(1, 2)))
        opened = reopen()
        assert rows(hour_page(opened, partition, HOUR_START_MS).tasks) == rows([OLD])
        assert not hour_page(opened, partition, 0).tasks
        done(opened.schedule.insert_tasks(partition, [task_at(0)], write_time(1, 2)))
        assert not hour_page(opened, partition, 0).tasks

    def test_writes_of_one_partition_may_be_in_flight_together(
        self, stores: Stores, partition: int
    ) -> None:
        """No write waits for another, and the highest write time still wins."""
        versions = [
            [
                task_at(HOUR_START_MS + number, data=b"%d" % version, offset=version)
                for number in range(50)
            ]
            for version in range(20)
        ]
        shuffled = random.Random(3).sample(range(20), 20)
        futures = [
            stores.schedule.insert_tasks(partition, versions[each], write_time(1, each))
            for each in shuffled
        ]
        for future in futures:
            done(future)
        assert rows(hour_page(stores, partition, HOUR_START_MS).tasks) == rows(versions[-1])
