"""Reads of a client over each store: single tasks by ``task_queries``, and listings.

Bound as ``tests.conformance.stores`` describes.
"""

import uuid
from itertools import pairwise

import pytest

from hourhand.actors.model.operations.ownership import Straggler, Watermark
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.tasks.pairs import open_keys
from hourhand.scheduler.tasks.task_info import Absence, TaskInfo
from hourhand.scheduler.tasks.task_queries import found_attempts, found_task
from hourhand.scheduler.tasks.task_state import OPEN_STATES, TaskState
from tests.conformance.store_values import FAR_MS, HOUR_START_MS, done, task_at, write_time

_PARTITIONS = 1_000_000
"""A number of partitions of which no two tests share one."""


class ReadingBench:
    """One ordering id's tasks in a store, and what is read of them."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.ordering_id = f"customer-{uuid.uuid4()}"
        self.partition = partition_of(self.ordering_id, _PARTITIONS)
        self._writes = 1

    def row(self, time_ms: int, uniqueness_key: str = "u", offset: int = 7) -> TaskKey:
        """Store a row."""
        row = task_at(time_ms, self.ordering_id, uniqueness_key, offset=offset)
        self.rows([row])
        return row.key

    def rows(self, rows: list[StoredTask]) -> None:
        """Store rows."""
        self._writes += 1
        time = write_time(1, self._writes)
        done(self.stores.schedule.insert_tasks(self.partition, rows, time))

    def close(self, key: TaskKey, result: CompletionResult, offset: int = 7) -> None:
        """Store a completion."""
        self._writes += 1
        completion = Completion(key, result, offset, attempts=1, finished_ms=HOUR_START_MS)
        done(
            self.stores.status.insert_completions(
                self.partition, [completion], write_time(1, self._writes)
            )
        )

    def attempt(self, key: TaskKey, number: int) -> None:
        """Store a failed attempt."""
        attempt = AttemptRecord(
            key,
            number,
            AttemptResult.FAILURE,
            HOUR_START_MS + number,
            finished_ms=HOUR_START_MS + number + 1,
            next_attempt_ms=HOUR_START_MS + number + 2,
            error_class="ValueError",
            error_message="no such invoice",
        )
        done(self.stores.status.insert_attempts(self.partition, [attempt], write_time(1)))

    def mark(self, watermark: Watermark) -> None:
        """Have an owner say how far it is."""
        claim = done(self.stores.ownership.claim(self.partition, HOUR_START_MS))
        done(self.stores.ownership.save_watermark(self.partition, claim.epoch, watermark))

    def find(self, key: TaskKey, offset: int | None = None) -> TaskInfo:
        """Read one task."""
        return done(begun(found_task(self.stores, _PARTITIONS, key, offset)))

    def open(self, uniqueness_key: str) -> list[TaskKey]:
        """Read the keys of open tasks."""
        pair = TaskPair(self.ordering_id, uniqueness_key)
        return done(begun(open_keys(self.stores, self.partition, pair)))


class ReadingSuite:
    """The reads of a client over every store."""

    @pytest.fixture
    def bench(self, stores: Stores) -> ReadingBench:
        """An ordering id that no other test uses."""
        return ReadingBench(stores)

    def test_a_task_is_read_with_data_state_and_attempts(self, bench: ReadingBench) -> None:
        """Whatever is stored of it."""
        key = bench.row(HOUR_START_MS)
        assert bench.find(key) == TaskInfo(key, TaskState.PENDING, {"invoice": 42})

        for number in (1, 2):
            bench.attempt(key, number)

        info = bench.find(key)
        assert (info.state, info.error) == (TaskState.RETRYING, "ValueError: no such invoice")
        assert info.attempts == done(begun(found_attempts(bench.stores, _PARTITIONS, key)))
        assert [each.attempt for each in info.attempts] == [1, 2]

        bench.close(key, CompletionResult.SUCCESS)
        assert bench.find(key).state is TaskState.SUCCESS

    def test_why_nothing_is_stored(self, bench: ReadingBench) -> None:
        """By key alone, and by the offset of a record, before and after a node has read it."""
        key = TaskKey(HOUR_START_MS, bench.ordering_id, "u")
        assert bench.find(key).absence is Absence.UNSEEN
        assert bench.find(key, 5).absence is Absence.NOT_STORED_YET

        bench.mark(Watermark(HOUR_START_MS, HOUR_START_MS, next_offset=5))
        assert bench.find(key, 5).absence is Absence.NOT_STORED_YET
        assert bench.find(key, 4).absence is Absence.GONE

    def test_a_record_opens_what_was_closed_before_it(self, bench: ReadingBench) -> None:
        """As soon as it is stored, and it is not stored yet before."""
        key = bench.row(HOUR_START_MS, offset=7)
        bench.close(key, CompletionResult.CANCELLED, offset=8)
        assert bench.find(key).state is TaskState.CANCELLED
        assert bench.find(key, 7).state is TaskState.CANCELLED
        assert bench.find(key, 9).absence is Absence.NOT_STORED_YET

        bench.rows([task_at(HOUR_START_MS, bench.ordering_id, offset=9)])
        assert bench.find(key, 9).state is TaskState.PENDING

    def test_a_pair_has_its_open_tasks(self, bench: ReadingBench) -> None:
        """Of whatever hours, and not those that are closed or of another pair."""
        keys = [bench.row(HOUR_START_MS + hours * HOUR_MS) for hours in (0, 5, 900)]
        bench.row(HOUR_START_MS + HOUR_MS, "other")
        bench.close(keys[1], CompletionResult.SUCCESS)

        assert bench.open("u") == [keys[0], keys[2]]
        assert bench.open("nobody") == []

    def test_a_pair_is_found_behind_a_page(self, bench: ReadingBench) -> None:
        """An ordering id may have very many tasks."""
        rows = [
            task_at(HOUR_START_MS + number, bench.ordering_id, f"{number}")
            for number in range(2_300)
        ]
        bench.rows(rows)

        assert bench.open("2299") == [rows[2299].key]

    def test_open_tasks_are_looked_for_from_the_first_that_may_be_open(
        self, bench: ReadingBench
    ) -> None:
        """A straggler included; what lies before is not read."""
        due_ms = [HOUR_START_MS + hours * HOUR_MS for hours in (0, 2, 4, 6)]
        keys = [bench.row(each) for each in due_ms]
        straggler = Straggler(bench.ordering_id, due_ms[1])
        bench.mark(Watermark(due_ms[2] + 1, due_ms[3], stragglers=(straggler,)))

        assert bench.open("u") == keys[1:]
        assert bench.find(keys[0]).state is TaskState.PENDING

    def test_listings_are_in_order(self, bench: ReadingBench) -> None:
        """Of open states as of all, with and without an owner's word."""
        keys = [bench.row(HOUR_START_MS + hours * HOUR_MS) for hours in range(5)]
        bench.close(keys[1], CompletionResult.SUCCESS)
        inspector = Inspector(bench.stores, _PARTITIONS)

        def listed(states: frozenset[TaskState]) -> list[TaskKey]:
            page = inspector.list_tasks(
                from_ms=HOUR_START_MS,
                to_ms=FAR_MS,
                limit=10,
                states=states,
                ordering_id=bench.ordering_id,
            )
            found = [view.key for view in page.tasks]
            assert all(one < other for one, other in pairwise(found))
            return found

        assert listed(OPEN_STATES) == [each for each in keys if each != keys[1]]
        bench.mark(Watermark(keys[2].scheduled_ms, keys[4].scheduled_ms))
        assert listed(OPEN_STATES) == keys[2:]
        assert listed(frozenset()) == keys
        assert listed(frozenset({TaskState.SUCCESS, TaskState.PENDING})) == keys
