"""The contract of ``StatusStore``: completions and attempts, found again field by field.

Bound as ``tests.conformance.stores`` describes.
"""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    FAILED_RESULTS,
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import ID_BYTES_MAX
from hourhand.actors.model.values.bucket import HOUR_MS
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
    task_at,
    write_time,
)

KEY = key_at(HOUR_START_MS)
MOVED = Completion(
    KEY, CompletionResult.MOVED, 8, 3, None, HOUR_START_MS + 1, FAR_MS, True, "run now"
)
SUCCESS = Completion(KEY, CompletionResult.SUCCESS, 9, 1, HOUR_START_MS, HOUR_START_MS + 1)
STARTED = AttemptRecord(KEY, 1, AttemptResult.STARTED, HOUR_START_MS, suspect=True, fence=4)
FAILED = AttemptRecord(
    KEY,
    1,
    AttemptResult.RETRY,
    HOUR_START_MS,
    HOUR_START_MS + 5,
    HOUR_START_MS + 20_000,
    1,
    False,
    "ValueError",
    "bad",
    "Traceback …",
    4,
)
SNOOZED = replace(
    STARTED, attempt=2, result=AttemptResult.SNOOZED, finished_ms=HOUR_START_MS + 9, snoozed=3
)
"""Stores have a retry in its place, which nodes of the version before read."""
END_KEY = key_at(HOUR_START_MS + 100 * HOUR_MS)


def completion_at(time_ms: int, ordering_id: str = "a", unique: str = "u") -> Completion:
    """Return a plain success."""
    key = TaskKey(time_ms, ordering_id, unique)
    return Completion(key, CompletionResult.SUCCESS, 1, 1, time_ms, time_ms + 1)


def attempt_at(time_ms: int, attempt: int = 1, ordering_id: str = "a") -> AttemptRecord:
    """Return a plain failure."""
    return AttemptRecord(
        key_at(time_ms, ordering_id), attempt, AttemptResult.FAILURE, time_ms, time_ms + 1
    )


def all_completions(stores: Stores, partition: int) -> list[Completion]:
    """Load whatever is near the hour all tests write around."""
    after = before(HOUR_START_MS - HOUR_MS)
    return list(done(stores.status.load_completions(partition, after, END_KEY)))


def all_attempts(stores: Stores, partition: int) -> list[AttemptRecord]:
    """Load whatever is near the hour all tests write around."""
    after = before(HOUR_START_MS - HOUR_MS)
    return list(done(stores.status.load_attempts(partition, after, END_KEY)))


class StatusSuite(StoreSuite):
    """The contract of every ``StatusStore``."""

    @pytest.mark.parametrize("result", list(CompletionResult))
    @pytest.mark.parametrize("reason", [None, "", "late \x00 'quoted' 🐈"])
    def test_every_field_of_a_completion_comes_back(
        self, stores: Stores, partition: int, result: CompletionResult, reason: str | None
    ) -> None:
        """None, nothing, zero and empty stay what they are."""
        moved = result is CompletionResult.MOVED
        full = Completion(
            KEY, result, 2**61, 2**31 - 1, -1, FAR_MS, 0 if moved else None, moved, reason
        )
        bare = Completion(KEY._replace(uniqueness_key=""), result, 0, reason=reason)
        done(stores.status.insert_completions(partition, [full, bare], write_time(1)))
        assert all_completions(stores, partition) == [bare, full]
        found = done(stores.status.find_completions(partition, [KEY, bare.key]))
        assert found == {KEY: full, bare.key: bare}

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize(("older", "newer"), [(MOVED, SUCCESS), (SUCCESS, MOVED)])
    def test_a_newer_completion_replaces_all_of_an_older_one(
        self,
        stores: Stores,
        partition: int,
        older: Completion,
        newer: Completion,
        *,
        newest_first: bool,
    ) -> None:
        """No field of the one shines through the other."""
        writes = [(older, write_time(1, 9)), (newer, write_time(2, 1))]
        for completion, at in reversed(writes) if newest_first else writes:
            done(stores.status.insert_completions(partition, [completion], at))
        assert all_completions(stores, partition) == [newer]

    def test_a_range_of_completions_is_open_below_and_closed_above(
        self, stores: Stores, partition: int
    ) -> None:
        """All of a range, in key order, across hours, however many."""
        completions = [
            completion_at(HOUR_START_MS + hour * HOUR_MS, ordering_id, unique)
            for hour in (0, 1, 2, 40)
            for ordering_id in ("a", "b")
            for unique in ("", "1", "2")
        ]
        shuffled = random.Random(4).sample(completions, len(completions))
        done(stores.status.insert_completions(partition, shuffled, write_time(1)))

        def load(after: TaskKey, up_to: TaskKey) -> list[Completion]:
            return list(done(stores.status.load_completions(partition, after, up_to)))

        keys = [each.key for each in completions]
        assert load(before(HOUR_START_MS), keys[-1]) == completions
        assert load(keys[0], keys[1]) == completions[1:2]
        assert load(keys[4], keys[-2]) == completions[5:-1]
        assert load(keys[4], keys[4]) == []
        assert load(keys[5], keys[4]) == []
        assert load(keys[5], key_at(HOUR_START_MS + HOUR_MS, "a", "0")) == completions[6:7]

    def test_what_failed_is_found_alone(self, stores: Stores, partition: int) -> None:
        """Failed, expired and dropped, in key order across hours, as many as are asked for."""
        results = list(CompletionResult)
        completions = [
            replace(completion_at(HOUR_START_MS + n * HOUR_MS // 3, f"id-{n % 4}"), result=each)
            for n in range(30)
            for each in (results[n % len(results)],)
        ]
        done(stores.status.insert_completions(partition, completions, write_time(1)))
        failed = [
            each for each in completions if each.result.value in ("failure", "dropped", "expired")
        ]

        def load(after: TaskKey, up_to: TaskKey, failed_max: int) -> list[Completion]:
            status = stores.status
            return list(done(status.load_completions(partition, after, up_to, failed_max)))

        start = before(HOUR_START_MS)
        assert load(start, END_KEY, 100) == failed
        assert load(start, END_KEY, 3) == failed[:3]
        assert load(failed[2].key, failed[5].key, 100) == failed[3:6]
        assert load(failed[2].key, END_KEY, 2) == failed[3:5]
        assert load(failed[5].key, failed[5].key, 9) == []

    def test_many_of_one_instant_failed(self, stores: Stores, partition: int) -> None:
        """In the order of their keys, whichever way they failed."""
        failed = [
            replace(completion_at(HOUR_START_MS, "a", f"{n:04}"), result=each)
            for n in range(900)
            for each in (FAILED_RESULTS[n * n % 7 % 2],)
        ]
        done(stores.status.insert_completions(partition, failed, write_time(1)))
        start, found = before(HOUR_START_MS), list[Completion]()
        while page := done(stores.status.load_completions(partition, start, END_KEY, 70)):
            found += page
            start = page[-1].key
        assert found == failed

    def test_thousands_of_completions(self, stores: Stores, partition: int) -> None:
        """More than any page or batch of an adapter."""
        completions = [
            completion_at(HOUR_START_MS + number * 2_000, f"id-{number % 13}", str(number))
            for number in range(4_000)
        ]
        done(stores.status.insert_completions(partition, completions, write_time(1)))
        assert all_completions(stores, partition) == completions
        keys = [each.key for each in completions[::5]]
        absent = [key._replace(uniqueness_key="absent") for key in keys]
        found = done(stores.status.find_completions(partition, [*keys, *absent, keys[0]]))
        assert found == {each.key: each for each in completions[::5]}

    def test_attempts_of_a_key_are_one_row_for_each_number(
        self, stores: Stores, partition: int
    ) -> None:
        """By key, then number; the number counts as a number, not as text."""
        attempts = [
            attempt_at(HOUR_START_MS + hour * HOUR_MS, number, ordering_id)
            for hour in (0, 3)
            for ordering_id in ("a", "b")
            for number in (1, 2, 10, 101)
        ]
        shuffled = random.Random(5).sample(attempts, len(attempts))
        done(stores.status.insert_attempts(partition, shuffled, write_time(1)))
        assert all_attempts(stores, partition) == attempts
        key = key_at(HOUR_START_MS, "b")
        assert (
            list(done(stores.status.load_attempts(partition, key_at(HOUR_START_MS, "a"), key)))
            == attempts[4:8]
        )
        asked = [attempts[-1].key, key, key_at(HOUR_START_MS, "c"), key]
        found = done(stores.status.find_attempts(partition, asked))
        assert list(found) == [*attempts[4:8], *attempts[12:]]

    @pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 65])
    def test_any_number_of_keys_is_found_at_once(
        self, stores: Stores, partition: int, count: int
    ) -> None:
        """Whatever is asked for in one statement, and whichever of the keys there are."""
        keys = [key_at(HOUR_START_MS + number // 3, f"id-{number % 3}") for number in range(count)]
        completions = [Completion(key, CompletionResult.DROPPED, 1) for key in keys[::2]]
        attempts = [attempt_at(key[0], number, key[1]) for key in keys[1::2] for number in (1, 12)]
        done(stores.status.insert_completions(partition, completions, write_time(1)))
        done(stores.status.insert_attempts(partition, attempts, write_time(1)))

        shuffled = random.Random(6).sample(keys, count)
        found = done(stores.status.find_completions(partition, shuffled))
        attempted = done(stores.status.find_attempts(partition, shuffled))

        assert found == {each.key: each for each in completions}
        assert list(attempted) == attempts

    @pytest.mark.parametrize("result", list(AttemptResult))
    def test_every_field_of_an_attempt_comes_back(
        self, stores: Stores, partition: int, result: AttemptResult
    ) -> None:
        """None and empty stay what they are."""
        full = AttemptRecord(
            KEY, 1, result, HOUR_START_MS, FAR_MS, 0, 100, True, "E", "", "s" * 50_000, 2**22
        )
        bare = AttemptRecord(KEY, 2, result, HOUR_START_MS)
        done(stores.status.insert_attempts(partition, [bare, full], write_time(1)))
        assert all_attempts(stores, partition) == [full, bare]
        assert list(done(stores.status.find_attempts(partition, [KEY]))) == [full, bare]

    def test_a_snoozed_attempt_comes_back_with_its_count(
        self, stores: Stores, partition: int
    ) -> None:
        """Also where it goes on, and its start is durable."""
        going_on = replace(STARTED, attempt=3, snoozed=12)

        done(stores.status.insert_attempts(partition, [SNOOZED, going_on], write_time(1)))

        assert all_attempts(stores, partition) == [SNOOZED, going_on]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize(("older", "newer"), [(STARTED, FAILED), (FAILED, STARTED)])
    def test_a_newer_attempt_row_replaces_all_of_an_older_one(
        self,
        stores: Stores,
        partition: int,
        older: AttemptRecord,
        newer: AttemptRecord,
        *,
        newest_first: bool,
    ) -> None:
        """An attempt's end takes the place of its start, whichever arrives first."""
        writes = [(older, write_time(1, 9)), (newer, write_time(2, 1))]
        for attempt, at in reversed(writes) if newest_first else writes:
            done(stores.status.insert_attempts(partition, [attempt], at))
        assert all_attempts(stores, partition) == [newer]

    def test_awkward_ids(self, stores: Stores, partition: int) -> None:
        """Ids come back as they were, from both tables, in the order of their bytes."""
        keys = sorted(
            TaskKey(HOUR_START_MS, ordering_id, uniqueness_key)
            for ordering_id in AWKWARD_IDS[:12]
            for uniqueness_key in AWKWARD_IDS
        )
        completions = [Completion(key, CompletionResult.SUCCESS, 1) for key in keys]
        attempts = [AttemptRecord(key, 1, AttemptResult.STARTED, 0) for key in keys]
        done(stores.status.insert_completions(partition, completions, write_time(1)))
        done(stores.status.insert_attempts(partition, attempts, write_time(1)))
        assert all_completions(stores, partition) == completions
        assert all_attempts(stores, partition) == attempts
        assert set(done(stores.status.find_completions(partition, keys))) == set(keys)
        assert list(done(stores.status.find_attempts(partition, keys))) == attempts

    def test_ids_as_long_as_a_key_may_hold(self, stores: Stores, partition: int) -> None:
        """Beside the longest ids there is room for the number of an attempt."""
        key = key_at(HOUR_START_MS, "o" * ID_BYTES_MAX, "u" * ID_BYTES_MAX)
        completion = Completion(key, CompletionResult.SUCCESS, 1)
        attempt = AttemptRecord(key, 2**31 - 1, AttemptResult.STARTED, 0)
        done(stores.status.insert_completions(partition, [completion], write_time(1)))
        done(stores.status.insert_attempts(partition, [attempt], write_time(1)))
        assert all_completions(stores, partition) == [completion]
        assert all_attempts(stores, partition) == [attempt]
        assert list(done(stores.status.find_attempts(partition, [key]))) == [attempt]

    @pytest.mark.parametrize("delete_first", [False, True])
    @pytest.mark.parametrize(("lead", "lives"), [(-1, False), (0, False), (1, True)])
    def test_a_delete_removes_both_tables_up_to_its_write_time(
        self, stores: Stores, partition: int, *, delete_first: bool, lead: int, lives: bool
    ) -> None:
        """Equal times die, higher ones live, whichever of the two arrives first."""

        def insert() -> None:
            at = write_time(5, 100 + lead)
            done(stores.status.insert_completions(partition, [SUCCESS], at))
            done(stores.status.insert_attempts(partition, [FAILED], at))

        def delete() -> None:
            done(
                stores.status.delete_statuses(
                    partition, HOUR_START_MS, HOUR_START_MS + HOUR_MS, write_time(5, 100)
                )
            )

        for step in (delete, insert) if delete_first else (insert, delete):
            step()
        assert all_completions(stores, partition) == ([SUCCESS] if lives else [])
        assert all_attempts(stores, partition) == ([FAILED] if lives else [])

    def test_deletes_keep_to_their_hours_and_tables(self, stores: Stores, partition: int) -> None:
        """A schedule row outlives its completion's delete, and the other way round."""
        times = [HOUR_START_MS + each for each in (-1, 0, HOUR_MS - 1, HOUR_MS)]
        done(
            stores.schedule.insert_tasks(
                partition, [task_at(each) for each in times], write_time(1)
            )
        )
        done(
            stores.status.insert_completions(
                partition, [completion_at(each) for each in times], write_time(1)
            )
        )
        done(
            stores.status.insert_attempts(
                partition, [attempt_at(each) for each in times], write_time(1)
            )
        )
        end_ms = HOUR_START_MS + HOUR_MS
        done(stores.status.delete_statuses(partition, HOUR_START_MS, end_ms, write_time(2)))
        outer = [key_at(times[0]), key_at(times[3])]
        assert [each.key for each in all_completions(stores, partition)] == outer
        assert [each.key for each in all_attempts(stores, partition)] == outer
        assert len(hour_page(stores, partition, HOUR_START_MS).tasks) == 2
        done(stores.schedule.delete_tasks(partition, end_ms, end_ms + HOUR_MS, write_time(2)))
        assert [each.key for each in all_completions(stores, partition)] == outer

    def test_nothing_asked_is_nothing_answered(self, stores: Stores, partition: int) -> None:
        """Empty inputs succeed, and open keys are absent."""
        done(stores.status.insert_completions(partition, [], write_time(1)))
        done(stores.status.insert_attempts(partition, [], write_time(1)))
        done(stores.status.delete_statuses(partition, HOUR_START_MS, HOUR_START_MS, write_time(1)))
        assert done(stores.status.find_completions(partition, [])) == {}
        assert list(done(stores.status.find_attempts(partition, []))) == []
        assert done(stores.status.find_completions(partition, [KEY])) == {}
        assert all_completions(stores, partition) == []
        assert all_attempts(stores, partition) == []

    def test_statuses_outlive_a_restart(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """What was acknowledged is there after close and open."""
        done(stores.status.insert_completions(partition, [MOVED], write_time(1)))
        done(stores.status.insert_attempts(partition, [FAILED], write_time(1)))
        opened = reopen()
        assert all_completions(opened, partition) == [MOVED]
        assert all_attempts(opened, partition) == [FAILED]
