"""The contract of the three stores where several writers meet: clocks, zombies, late arrivals.

Bound as ``tests.conformance.stores`` describes.  A writer's clock may be minutes off: nothing
in a store may depend on it, as write times are owner epochs.
"""

import random
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import initial_watermark
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, SURELY_DELETED_HOURS
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import (
    HOUR_START_MS,
    StoreSuite,
    done,
    hour_page,
    key_at,
    rows,
    task_at,
    write_time,
)

SKEWS_MINUTES = (-30, 0, 30)
KEY = key_at(HOUR_START_MS)
END_MS = HOUR_START_MS + HOUR_MS
HIGHEST_WRITE_TIME = 2**63 - 1

Beside = Callable[[int], Stores]
"""Opens the same data once more, as a node whose clock is so many minutes off would."""


def write_all(stores: Stores, partition: int, number: int, at: int) -> None:
    """Write version ``number`` of one row of each table."""
    completion = Completion(KEY, CompletionResult.SUCCESS, number)
    attempt = AttemptRecord(KEY, 1, AttemptResult.STARTED, number)
    outcome = RecordedOutcome(CommandOutcome.APPLIED, KEY._replace(uniqueness_key=str(number)))
    task = task_at(HOUR_START_MS, offset=number)
    done(stores.schedule.insert_tasks(partition, [task], at))
    done(stores.status.insert_completions(partition, [completion], at))
    done(stores.status.insert_attempts(partition, [attempt], at))
    done(stores.ownership.insert_outcome(partition, 0, outcome, at))


def delete_hour(stores: Stores, partition: int, at: int) -> None:
    """Delete the hour of ``KEY`` in every table of rows."""
    done(stores.schedule.delete_tasks(partition, HOUR_START_MS, END_MS, at))
    done(stores.status.delete_statuses(partition, HOUR_START_MS, END_MS, at))


def delete_all(stores: Stores, partition: int, first_ms: int, at: int) -> int:
    """Delete every hour up to ``END_MS`` in both stores; return the most calls one needed."""
    calls = []
    for delete in (stores.schedule.delete_tasks, stores.status.delete_statuses):
        done_ms, count = first_ms, 0
        while done_ms < END_MS:
            done_ms, count = done(delete(partition, done_ms, END_MS, at)), count + 1
        calls.append(count)
    return max(calls)


def versions(stores: Stores, partition: int) -> list[int | None]:
    """Return which version of task, completion and attempt stands, None where none does."""
    tasks = done(stores.schedule.find_tasks(partition, [KEY]))
    completions = done(stores.status.find_completions(partition, [KEY]))
    attempts = done(stores.status.find_attempts(partition, [KEY]))
    return [
        tasks[KEY].offset if tasks else None,
        completions[KEY].offset if completions else None,
        attempts[0].started_ms if attempts else None,
    ]


class WritersSuite(StoreSuite):
    """The contract of every store with several writers."""

    @pytest.mark.parametrize("skew_minutes", SKEWS_MINUTES)
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_the_owner_with_the_higher_epoch_wins_whatever_the_clocks_say(
        self,
        stores: Stores,
        beside: Beside,
        partition: int,
        skew_minutes: int,
        *,
        newest_first: bool,
    ) -> None:
        """In every table, whichever write arrives first."""
        old, new = beside(skew_minutes), stores
        writes = [(old, 1, write_time(1, 2**40 - 1)), (new, 2, write_time(2, 1))]
        for writer, number, at in reversed(writes) if newest_first else writes:
            write_all(writer, partition, number, at)
        for reader in (old, new):
            assert versions(reader, partition) == [2, 2, 2]
            found = done(reader.ownership.find_outcome(partition, 0))
            assert found is not None
            assert found.key.uniqueness_key == "2"

    @pytest.mark.parametrize("skew_minutes", SKEWS_MINUTES)
    def test_a_late_insert_of_an_old_owner_stays_deleted(
        self,
        stores: Stores,
        beside: Beside,
        reopen: Callable[[], Stores],
        partition: int,
        skew_minutes: int,
    ) -> None:
        """A zombie writes after the sweep: into the hour that had its row, and after a restart."""
        old = beside(skew_minutes)
        write_all(old, partition, 1, write_time(1, 5))
        delete_hour(stores, partition, write_time(2, 1))
        write_all(old, partition, 2, write_time(1, 6))
        assert versions(stores, partition) == [None, None, None]
        again = reopen()
        write_all(old, partition, 3, write_time(1, 7))
        assert versions(again, partition) == [None, None, None]
        # What the new owner writes from then on is not touched by its own delete.
        write_all(again, partition, 4, write_time(2, 2))
        assert versions(again, partition) == [4, 4, 4]

    @pytest.mark.parametrize("skew_minutes", SKEWS_MINUTES)
    def test_a_late_delete_of_an_old_owner_removes_nothing_of_the_new_one(
        self, stores: Stores, beside: Beside, partition: int, skew_minutes: int
    ) -> None:
        """It was sent before the assignment, and arrives after the new owner's writes."""
        old = beside(skew_minutes)
        write_all(stores, partition, 2, write_time(2, 1))
        delete_hour(old, partition, write_time(1, 2**40 - 1))
        assert versions(stores, partition) == [2, 2, 2]

    @pytest.mark.parametrize("skew_minutes", SKEWS_MINUTES)
    def test_epochs_and_watermarks_do_not_depend_on_clocks(
        self, stores: Stores, beside: Beside, partition: int, skew_minutes: int
    ) -> None:
        """Two nodes take a partition from each other, each seeing all the other saved."""
        nodes = (stores, beside(skew_minutes))
        expected = initial_watermark(HOUR_START_MS)
        for epoch in range(1, 7):
            node, other = nodes[epoch % 2], nodes[1 - epoch % 2]
            claim = done(node.ownership.claim(partition, HOUR_START_MS))
            assert (claim.epoch, claim.watermark) == (epoch, expected)
            saved = replace(expected, next_offset=epoch, write_time=write_time(epoch))
            done(node.ownership.save_watermark(partition, epoch, saved))
            if epoch > 1:
                with pytest.raises(OwnershipLost):
                    done(other.ownership.save_watermark(partition, epoch - 1, expected))
            expected = saved
            row = done(other.ownership.read_watermark(partition))
            assert row is not None
            assert (row.epoch, row.watermark) == (epoch, expected)

    @pytest.mark.parametrize("seed", range(3))
    def test_concurrent_writers_and_deletes_come_to_one_result(
        self, stores: Stores, beside: Beside, partition: int, seed: int
    ) -> None:
        """Three owners write and delete the same hours at once; write times alone decide."""
        chance = random.Random(seed)
        nodes = [beside(-30), stores, beside(30)]
        keys = [key_at(HOUR_START_MS + n * HOUR_MS // 2, "id", str(n % 3)) for n in range(6)]
        highest = dict.fromkeys(keys, (0, -1))
        deleted = dict.fromkeys((HOUR_START_MS + n * HOUR_MS for n in range(3)), 0)
        operations: list[Callable[[], Future[None] | Future[int]]] = []

        def insert(node: Stores, written: list[StoredTask], at: int) -> Callable[[], Future[None]]:
            return lambda: node.schedule.insert_tasks(partition, written, at)

        def delete(node: Stores, hour_ms: int, at: int) -> Callable[[], Future[int]]:
            return lambda: node.schedule.delete_tasks(partition, hour_ms, hour_ms + HOUR_MS, at)

        for number in range(120):
            epoch = chance.randrange(3)
            at = write_time(epoch + 1, number + 1)
            if number % 6 == 0:
                hour_ms = chance.choice(list(deleted))
                deleted[hour_ms] = max(deleted[hour_ms], at)
                operations.append(delete(nodes[epoch], hour_ms, at))
            else:
                chosen = chance.sample(keys, 3)
                written = [StoredTask(key, b'{"n":%d}' % number, number) for key in chosen]
                highest.update({key: max(highest[key], (at, number)) for key in chosen})
                operations.append(insert(nodes[epoch], written, at))
        chance.shuffle(operations)
        for future in [operation() for operation in operations]:
            done(future)
        living = [
            StoredTask(key, b'{"n":%d}' % number, number)
            for key, (at, number) in sorted(highest.items())
            if at > deleted[key.scheduled_ms - key.scheduled_ms % HOUR_MS]
        ]
        assert rows(hour_page(stores, partition, HOUR_START_MS, hours=3).tasks) == rows(living)

    def test_of_two_rows_of_a_key_in_one_call_the_last_stands(
        self, stores: Stores, partition: int
    ) -> None:
        """Both have the same write time, so it is their order that counts."""
        for first, last in ((1, 2), (4, 3)):
            at = write_time(1, last)
            tasks = [task_at(HOUR_START_MS, offset=each) for each in (first, last)]
            completions = [
                Completion(KEY, CompletionResult.SUCCESS, each) for each in (first, last)
            ]
            attempts = [
                AttemptRecord(KEY, 1, AttemptResult.STARTED, each) for each in (first, last)
            ]
            done(stores.schedule.insert_tasks(partition, tasks, at))
            done(stores.status.insert_completions(partition, completions, at))
            done(stores.status.insert_attempts(partition, attempts, at))
            assert versions(stores, partition) == [last, last, last]

    def test_write_times_from_the_lowest_to_the_highest(
        self, stores: Stores, partition: int
    ) -> None:
        """A bulk writer stands below every owner, and the last epoch's last write above all."""
        times = [1, 2**40 - 1, write_time(1, 0), write_time(2**20, 5), HIGHEST_WRITE_TIME]
        for number, at in enumerate(times):
            write_all(stores, partition, number, at)
            assert versions(stores, partition) == [number, number, number]
            if number:
                write_all(stores, partition, 99, times[number - 1])
                assert versions(stores, partition) == [number, number, number]

    @pytest.mark.parametrize("hours", [49, 1_501, 490_000])
    def test_a_delete_of_many_hours_buries_the_last_ones_and_those_with_rows(
        self, stores: Stores, partition: int, hours: int
    ) -> None:
        """What arrives late is dead there; a hole of years costs nothing."""
        first_ms, at = HOUR_START_MS - (hours - 1) * HOUR_MS, write_time(2, 1)
        surely_ms = END_MS - SURELY_DELETED_HOURS * HOUR_MS
        held = [key_at(first_ms + each) for each in (0, HOUR_MS - 1)]
        tasks = [StoredTask(key, b"{}", 1) for key in held]
        write_all(stores, partition, 1, write_time(1, 1))
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))
        completions = [Completion(key, CompletionResult.SUCCESS, 1) for key in held[:1]]
        done(stores.status.insert_completions(partition, completions, write_time(1, 1)))

        assert delete_all(stores, partition, first_ms, at) <= 2

        assert versions(stores, partition) == [None, None, None]
        late = [*held, *(key_at(each) for each in range(surely_ms, END_MS, HOUR_MS))]
        beyond = [key_at(first_ms - 1), key_at(END_MS)]
        keys = late + beyond
        tasks = [StoredTask(key, b"{}", 1) for key in keys]
        completions = [Completion(key, CompletionResult.SUCCESS, 1) for key in keys]
        attempts = [AttemptRecord(key, 1, AttemptResult.STARTED, 1) for key in keys]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 2)))
        done(stores.status.insert_completions(partition, completions, write_time(1, 2)))
        done(stores.status.insert_attempts(partition, attempts, write_time(1, 2)))
        assert set(done(stores.schedule.find_tasks(partition, keys))) == set(beyond)
        assert set(done(stores.status.find_completions(partition, keys))) == set(beyond)
        assert {a.key for a in done(stores.status.find_attempts(partition, keys))} == set(beyond)

    def test_a_delete_says_how_far_it_came(self, stores: Stores, partition: int) -> None:
        """Called again from there, it comes to its end, however many hours held rows."""
        hours, at = 2_200, write_time(2, 1)
        first_ms = END_MS - hours * HOUR_MS
        keys = [key_at(each) for each in range(first_ms, END_MS, HOUR_MS)]
        tasks = [StoredTask(key, b"{}", 1) for key in keys]
        done(stores.schedule.insert_tasks(partition, tasks, write_time(1, 1)))

        assert delete_all(stores, partition, first_ms, at) <= 4

        assert not done(stores.schedule.find_tasks(partition, keys[::100]))
        page = done(stores.schedule.load_tasks(partition, keys[0], END_MS, 10))
        assert not page.tasks and page.complete

    @pytest.mark.parametrize("bounds", [(1, HOUR_MS), (0, HOUR_MS - 1), (-1, HOUR_MS)])
    def test_no_delete_cuts_an_hour(
        self, stores: Stores, partition: int, bounds: tuple[int, int]
    ) -> None:
        """It is refused, and nothing is removed."""
        first_ms, end_ms = (HOUR_START_MS + each for each in bounds)
        write_all(stores, partition, 1, write_time(1))
        with pytest.raises(ValueError, match="not the start of an hour"):
            done(stores.schedule.delete_tasks(partition, first_ms, end_ms, write_time(2)))
        with pytest.raises(ValueError, match="not the start of an hour"):
            done(stores.status.delete_statuses(partition, first_ms, end_ms, write_time(2)))
        assert versions(stores, partition) == [1, 1, 1]
