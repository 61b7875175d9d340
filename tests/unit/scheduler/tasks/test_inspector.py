"""How rows, completions and attempts read together, over the memory stores."""

from typing import Any

import pytest

from hourhand.actors.model.operations.ownership import Straggler, Watermark
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.tasks.inspector import Inspector, TaskListing, TaskState
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task

PARTITIONS = 4
HOUR_0 = hour_of(NOW_MS)


class Installation:
    """Memory stores and an inspector of them."""

    def __init__(self) -> None:
        self.stores = open_memory_stores(MemoryStores())
        self.inspector = Inspector(self.stores, PARTITIONS)
        self._write_time = 1

    def insert(self, *tasks: StoredTask) -> None:
        """Store rows where they belong."""
        for task in tasks:
            partition = partition_of(task.key.ordering_id, PARTITIONS)
            self.stores.schedule.insert_tasks(partition, [task], 1).result(timeout=1)

    def sweep(
        self,
        partition: int,
        *,
        tasks_until_ms: int,
        statuses_until_ms: int,
        thinned_until_ms: int = 0,
    ) -> None:
        """Have an owner say how far it has removed rows and completions."""
        ownership = self.stores.ownership
        claim = ownership.claim(partition, NOW_MS).result(timeout=1)
        mark = Watermark(
            NOW_MS,
            NOW_MS,
            tasks_swept_until_ms=tasks_until_ms,
            statuses_swept_until_ms=statuses_until_ms,
            thinned_until_ms=thinned_until_ms,
        )
        ownership.save_watermark(partition, claim.epoch, mark).result(timeout=1)

    def complete(self, completion: Completion) -> None:
        """Store a completion where it belongs."""
        partition = partition_of(completion.key.ordering_id, PARTITIONS)
        self._write_time += 1
        self.stores.status.insert_completions(partition, [completion], self._write_time).result(
            timeout=1
        )

    def attempt(self, attempt: AttemptRecord) -> None:
        """Store an attempt where it belongs."""
        partition = partition_of(attempt.key.ordering_id, PARTITIONS)
        self.stores.status.insert_attempts(partition, [attempt], 3).result(timeout=1)

    def list(self, limit: int = 100, **chosen: object) -> TaskListing:
        """List everything around ``NOW_MS``."""
        arguments = {"from_ms": HOUR_0 - 5 * HOUR_MS, "to_ms": HOUR_0 + 5 * HOUR_MS, **chosen}
        return self.inspector.list_tasks(limit=limit, **arguments)  # type: ignore[arg-type]


def an_attempt_record(result: AttemptResult, next_attempt_ms: int | None = None) -> AttemptRecord:
    """Return the first attempt at ``a_key()``."""
    return AttemptRecord(
        a_key(), 1, result, NOW_MS, finished_ms=NOW_MS + 1, next_attempt_ms=next_attempt_ms
    )


def test_a_key_nobody_scheduled_is_unknown() -> None:
    """And has nothing to show."""
    view = Installation().inspector.show(a_key())

    assert (view.state, view.task, view.completion, list(view.attempts)) == (
        TaskState.UNKNOWN,
        None,
        None,
        [],
    )


@pytest.mark.parametrize(
    ("result", "next_attempt_ms", "state"),
    [
        (AttemptResult.STARTED, None, TaskState.RUNNING),
        (AttemptResult.FAILURE, NOW_MS + 9, TaskState.RETRYING),
        (AttemptResult.TIMEOUT, NOW_MS + 9, TaskState.RETRYING),
        (AttemptResult.FAILURE, None, TaskState.BLOCKED),
    ],
)
def test_an_open_task_stands_where_its_last_attempt_left_it(
    result: AttemptResult, next_attempt_ms: int | None, state: TaskState
) -> None:
    """Pending without one."""
    installation = Installation()
    installation.insert(a_stored_task())
    assert installation.inspector.show(a_key()).state is TaskState.PENDING

    installation.attempt(an_attempt_record(result, next_attempt_ms))

    assert installation.inspector.show(a_key()).state is state
    assert [view.state for view in installation.list().tasks] == [state]


@pytest.mark.parametrize("result", sorted({*CompletionResult} - {CompletionResult.REOPENED}))
def test_a_closed_task_says_how_it_ended(result: CompletionResult) -> None:
    """With or without its row."""
    installation = Installation()
    installation.complete(a_completion(result=result, offset=5))
    assert installation.inspector.show(a_key()).state.value == result.value

    installation.insert(a_stored_task(offset=5))

    assert installation.inspector.show(a_key()).state.value == result.value


def test_a_later_record_opens_a_cancelled_key_and_not_a_done_one() -> None:
    """P5 and P6, as the inspector tells them."""
    installation = Installation()
    installation.insert(a_stored_task(offset=9))

    installation.complete(a_completion(result=CompletionResult.CANCELLED, offset=5))
    assert installation.inspector.show(a_key()).state is TaskState.PENDING

    installation.complete(a_completion(result=CompletionResult.SUCCESS, offset=5))
    assert installation.inspector.show(a_key()).state is TaskState.SUCCESS


def test_a_reopened_task_is_pending_whatever_was_attempted_before() -> None:
    """An operator's retry begins from the beginning."""
    installation = Installation()
    installation.insert(a_stored_task(offset=1))
    installation.attempt(an_attempt_record(AttemptResult.FAILURE))

    installation.complete(
        Completion(a_key(), CompletionResult.REOPENED, 3, finished_ms=NOW_MS + 50)
    )

    assert installation.inspector.show(a_key()).state is TaskState.PENDING


def test_a_listing_is_in_key_order_over_all_partitions_and_pages_without_gaps() -> None:
    """Whatever the size of a page."""
    installation = Installation()
    tasks = [
        a_stored_task(due_in_ms=(number * 37 % 40) * 120_000, ordering_id=f"id-{number}")
        for number in range(40)
    ]
    installation.insert(*tasks)
    found: list[TaskKey] = []
    after: TaskKey | None = None

    while True:
        page = installation.list(limit=7, after=after)
        found += [view.key for view in page.tasks]
        after = page.next_after
        if after is None:
            break

    assert found == sorted(task.key for task in tasks)


def test_the_range_is_closed_below_and_open_above() -> None:
    """As ranges of time are everywhere else."""
    installation = Installation()
    installation.insert(*(a_stored_task(due_in_ms=due) for due in (0, 1, 2)))

    listing = installation.list(from_ms=NOW_MS, to_ms=NOW_MS + 2)

    assert [view.key.scheduled_ms - NOW_MS for view in listing.tasks] == [0, 1]


def test_states_and_an_ordering_id_choose() -> None:
    """Both together, too."""
    installation = Installation()
    mine = a_stored_task(uniqueness_key="mine")
    closed = a_stored_task(uniqueness_key="closed")
    other = a_stored_task(ordering_id="other")
    installation.insert(mine, closed, other)
    installation.complete(a_completion(key=closed.key))

    by_id = installation.list(ordering_id="customer-7")
    pending = installation.list(states={TaskState.PENDING})
    both = installation.list(states={TaskState.PENDING}, ordering_id="customer-7")

    assert [view.key for view in by_id.tasks] == [closed.key, mine.key]
    assert {view.key for view in pending.tasks} == {mine.key, other.key}
    assert [view.key for view in both.tasks] == [mine.key]


def test_an_ordering_id_that_no_task_can_have_finds_nothing() -> None:
    """A terminal may hand over bytes that are not UTF-8; stores cannot be asked for them."""
    installation = Installation()
    installation.insert(a_stored_task())

    listing = installation.list(ordering_id="x\udfff")

    assert not listing.tasks and listing.next_after is None


@pytest.mark.parametrize("ordering_id", [None, "customer-7"])
def test_closed_tasks_whose_rows_are_swept_are_listed_too(ordering_id: str | None) -> None:
    """Rows go soon after their hour is complete; what ran this morning is asked for at noon."""
    installation = Installation()
    partition = partition_of("customer-7", PARTITIONS)
    swept = [a_key(due_in_ms=-2 * HOUR_MS), a_key(due_in_ms=-HOUR_MS)]
    for key in swept:
        installation.complete(a_completion(key=key))
    installation.insert(a_stored_task())
    installation.sweep(partition, tasks_until_ms=HOUR_0, statuses_until_ms=HOUR_0 - HOUR_MS)

    listing = installation.list(ordering_id=ordering_id)

    # Of the older hour even the completions are gone, as far as the watermark knows.
    assert [(view.key, view.state) for view in listing.tasks] == [
        (swept[1], TaskState.SUCCESS),
        (a_key(), TaskState.PENDING),
    ]


@pytest.mark.parametrize("ordering_id", [None, "customer-7"])
@pytest.mark.parametrize("start_ago_ms", [5 * HOUR_MS, HOUR_MS + 5_000])
def test_of_hours_that_were_thinned_all_tasks_are_listed(
    ordering_id: str | None, start_ago_ms: int
) -> None:
    """Those that ended well have completions alone; what failed, or was opened again, has data."""
    installation = Installation()
    partition = partition_of("customer-7", PARTITIONS)
    well, failed, reopened = (
        a_key(due_in_ms=-HOUR_MS - ago_ms) for ago_ms in (3_000, 2_000, 1_000)
    )
    waiting = a_stored_task(due_in_ms=HOUR_MS)
    kept = [StoredTask(key, b"{}", 1) for key in (failed, reopened)]
    installation.insert(*kept, waiting)
    installation.complete(a_completion(key=well))
    installation.complete(a_completion(key=failed, result=CompletionResult.FAILURE))
    swept_ms = HOUR_0 - 4 * HOUR_MS
    installation.sweep(
        partition, tasks_until_ms=swept_ms, statuses_until_ms=swept_ms, thinned_until_ms=HOUR_0
    )

    listing = installation.list(ordering_id=ordering_id, from_ms=HOUR_0 - start_ago_ms)

    assert [(view.key, view.state, view.task is not None) for view in listing.tasks] == [
        (well, TaskState.SUCCESS, False),
        (failed, TaskState.FAILURE, True),
        (reopened, TaskState.PENDING, True),
        (waiting.key, TaskState.PENDING, True),
    ]


@pytest.mark.parametrize("ordering_id", [None, "customer-7"])
def test_what_is_being_swept_is_listed_before_its_owner_says_so(ordering_id: str | None) -> None:
    """Rows go some seconds before the owner saves how far it has removed them."""
    installation = Installation()
    partition = partition_of("customer-7", PARTITIONS)
    gone, there = a_key(due_in_ms=-2 * HOUR_MS), a_key(due_in_ms=-HOUR_MS)
    installation.insert(StoredTask(there, b"{}", 1))
    for key in (gone, there):
        installation.complete(a_completion(key=key, offset=1))
    swept_ms = HOUR_0 - 4 * HOUR_MS
    installation.sweep(partition, tasks_until_ms=swept_ms, statuses_until_ms=swept_ms)

    listing = installation.list(ordering_id=ordering_id)

    assert [(view.key, view.state, view.task is not None) for view in listing.tasks] == [
        (gone, TaskState.SUCCESS, False),
        (there, TaskState.SUCCESS, True),
    ]


def test_what_was_swept_is_listed_across_long_stretches_without_tasks() -> None:
    """Each hour once, however many are asked for together."""
    installation = Installation()
    partition = partition_of("customer-7", PARTITIONS)
    hours_ago = [400, 399, 300, 299, 298, 200, 77, 12, 1]
    swept = [a_key(due_in_ms=-hours * HOUR_MS) for hours in hours_ago]
    for key in swept:
        installation.complete(a_completion(key=key))
    installation.sweep(partition, tasks_until_ms=HOUR_0, statuses_until_ms=HOUR_0 - 500 * HOUR_MS)

    listing = installation.list(from_ms=NOW_MS - 600 * HOUR_MS)

    assert [view.key for view in listing.tasks] == swept


def test_open_tasks_are_listed_from_the_first_that_may_be_open() -> None:
    """Stragglers behind the watermark included; what is closed, or lies behind both, is not."""
    installation = Installation()
    due = {"old": -5, "straggler": -3, "closed": -2, "now": 0, "later": 4}
    partition = partition_of("customer-7", PARTITIONS)
    keys = {
        name: a_key(due_in_ms=hours * HOUR_MS, uniqueness_key=name) for name, hours in due.items()
    }
    rows = [a_stored_task(due_in_ms=h * HOUR_MS, uniqueness_key=n) for n, h in due.items()]
    installation.insert(*rows)
    installation.complete(a_completion(key=keys["closed"]))
    claim = installation.stores.ownership.claim(partition, NOW_MS).result(timeout=1)
    straggler = Straggler("customer-7", keys["straggler"].scheduled_ms)
    mark = Watermark(NOW_MS - HOUR_MS, NOW_MS, stragglers=(straggler,))
    installation.stores.ownership.save_watermark(partition, claim.epoch, mark).result(timeout=1)

    def listed(**chosen: Any) -> list[str]:
        asked = {"to_ms": NOW_MS + 4 * HOUR_MS, "limit": 10, "looked_max": 100, **chosen}
        listing = installation.inspector.list_open(**asked)
        return [view.key.uniqueness_key for view in listing.tasks]

    assert listed() == listed(ordering_id="customer-7") == ["straggler", "now"]
    assert listed(to_ms=NOW_MS + 5 * HOUR_MS)[-1] == "later"
    assert listed(after=keys["straggler"]) == ["now"]
    assert listed(begins="nobody") == listed(ordering_id="\ud800") == []


def test_a_listing_of_open_tasks_looks_at_so_many_rows_and_no_more() -> None:
    """It says where to go on, though it found nothing, and finds each task once."""
    installation = Installation()
    ids = [f"{'mine' if number % 5 == 4 else 'other'}-{number}" for number in range(25)]
    for number, ordering_id in enumerate(ids):
        installation.insert(a_stored_task(due_in_ms=number, ordering_id=ordering_id))
    found: list[list[str]] = []
    after: TaskKey | None = None
    while not found or after is not None:
        listing = installation.inspector.list_open(
            to_ms=NOW_MS + HOUR_MS, limit=2, looked_max=4, begins="mine", after=after
        )
        found.append([view.key.ordering_id for view in listing.tasks])
        after = listing.next_after

    assert [len(page) for page in found] == [0, 1, 1, 1, 1, 0, 1]
    assert [each for page in found for each in page] == ids[4::5]
