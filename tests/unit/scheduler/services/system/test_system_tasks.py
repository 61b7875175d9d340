"""System tasks beside a user's: each is run by whom it belongs to."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from hourhand import Task, TaskExecutor
from hourhand.actors.model.operations.events import AttemptFinished
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.recurring.requests import rule_of
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Noting(TaskExecutor):
    """Notes what it ran in the class that a test made of it."""

    ran: ClassVar[list[str]]

    def execute(self, task: Task) -> None:
        """Note the task."""
        self.ran.append(f"{task.ordering_id}/{self.attempt}/{self.fence}")


def a_noting() -> type[Noting]:
    """Make an executor of its own for one test."""

    class OneTestsNoting(Noting):
        """Shares nothing with other tests."""

        ran: ClassVar[list[str]] = []

    return OneTestsNoting


def a_task(ordering_id: str, **data: Any) -> Task:
    """Return a task due in a second."""
    return Task(
        ordering_id=ordering_id,
        scheduled_time=NOON + timedelta(seconds=1),
        uniqueness_key="u",
        data=data,
    )


def append(scheduler: VirtualScheduler, task: Task) -> None:
    """Append a task as somebody does who writes to the log by hand."""
    writer = MemoryWriter(scheduler.broker)
    TaskAppender(writer, writer.partition_count()).append(task)


def test_a_users_tasks_reach_the_users_executor_with_everything() -> None:
    """Attempt and fence are told as ever."""
    executor = a_noting()
    scheduler = VirtualScheduler(executor, now=NOON)
    scheduler.schedule_task(a_task("customer-7"))
    scheduler.advance(seconds=1)

    assert executor.ran == ["customer-7/1/1"]


def test_a_users_executor_that_cannot_be_made_is_a_failed_attempt() -> None:
    """And recreated for each attempt, as without us, after a first try at the start."""
    made = []

    def make() -> Noting:
        made.append(1)
        if len(made) < 5:
            raise LookupError("not yet")
        return a_noting()()

    scheduler = VirtualScheduler(make, now=NOON)
    scheduler.schedule_task(a_task("customer-7"))
    scheduler.advance(hours=1)

    ended = [event for event in scheduler.events if isinstance(event, AttemptFinished)]
    assert [event.error_class for event in ended] == [*["LookupError"] * 3, None]


@pytest.mark.parametrize("kind", ["claims", "send", "timer", "recurring"])
def test_a_task_of_ours_that_somebody_made_up_is_dropped(kind: str) -> None:
    """It never reaches the user's executor, and does no harm."""
    executor = a_noting()
    scheduler = VirtualScheduler(executor, now=NOON)
    made_up: list[dict[str, Any]] = [
        {},
        {"pop": "x"},
        {"place": "x"},
        {"action": 7},
        {"generation": []},
        {"message": 1},
    ]
    for number, data in enumerate(made_up):
        append(scheduler, a_task(f"hourhand:{kind}:{number}", **data))
    scheduler.advance(seconds=5)

    assert executor.ran == []
    results = {scheduler.result_of(a_task(f"hourhand:{kind}:{number}").key) for number in range(6)}
    assert results <= {CompletionResult.DROPPED, CompletionResult.SUCCESS}


def test_a_task_of_a_kind_we_do_not_know_waits_for_a_node_that_does() -> None:
    """A newer node of the group may have made it."""
    executor = a_noting()
    scheduler = VirtualScheduler(executor, now=NOON)
    append(scheduler, a_task("hourhand:future:1"))
    scheduler.advance(minutes=10)

    assert executor.ran == []
    assert len(scheduler.all_scheduled()) == 1


def test_a_user_cannot_schedule_a_task_with_an_ordering_id_of_ours() -> None:
    """It would be run by us; the error says so, and nothing is sent."""
    scheduler = VirtualScheduler(a_noting(), now=NOON)

    refused = scheduler.schedule_task(a_task("hourhand:timer:1"))

    assert isinstance(refused.exception(timeout=0), InvalidTask)
    assert "'hourhand:'" in str(refused.exception())
    assert scheduler.all_scheduled() == []
    with pytest.raises(InvalidTask, match="'hourhand:'"):
        rule_of("mine", every=timedelta(seconds=5), ordering_id="hourhand:call:x")


def test_unique_keys_sort_in_the_order_of_the_calls() -> None:
    """However many are made in one millisecond."""
    made = [unique_in_order(1_000) for _ in range(100)] + [unique_in_order(1_001)]

    assert made == sorted(made)
    assert len(set(made)) == 101
