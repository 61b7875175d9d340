"""The test kit: its assertions, and ``execute_task``."""

from collections.abc import Awaitable
from datetime import timedelta

import pytest

from actors.model.status import AttemptResult
from scheduler import Drop, Task, TaskExecutor
from scheduler.testing import execute_task
from tests.unit.scheduler.testing.testing_bench import Failing, Waiting, a_scheduler, a_task


def test_assert_scheduled_returns_the_only_match() -> None:
    """Fields are compared; of data only the names that are given."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(hours=1), name="1", invoice=42, page=1))
    scheduler.schedule_task(a_task(due_in=timedelta(hours=1), name="2", invoice=43, page=1))

    found = scheduler.assert_scheduled(data={"invoice": 42})

    assert found.uniqueness_key == "1"
    with pytest.raises(AssertionError, match="2 open tasks match"):
        scheduler.assert_scheduled(ordering_id="customer-7")
    with pytest.raises(AssertionError, match="0 open tasks match"):
        scheduler.assert_scheduled(ordering_id="nobody")


def test_refute_scheduled_names_what_is_open() -> None:
    """And is content once it ran."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(hours=1)))

    with pytest.raises(AssertionError, match="open although it should not be"):
        scheduler.refute_scheduled(ordering_id="customer-7")
    scheduler.advance(hours=1)
    scheduler.refute_scheduled(ordering_id="customer-7")


def test_assert_executed_counts_successes_only() -> None:
    """Failed attempts are in ``executions``, not in the count."""
    scheduler = a_scheduler()
    for name in ("1", "2"):
        scheduler.schedule_task(a_task(name=name))
    scheduler.run_due()
    failing = a_scheduler(Failing)
    failing.schedule_task(a_task())
    failing.run_due()

    assert len(scheduler.assert_executed(2, ordering_id="customer-7")) == 2
    scheduler.assert_executed(uniqueness_key="1")
    with pytest.raises(AssertionError, match="2 executions match"):
        scheduler.assert_executed(1, ordering_id="customer-7")
    with pytest.raises(AssertionError, match="0 executions match"):
        failing.assert_executed()
    assert len(failing.executions) == 1


def test_execute_task_calls_user_code_once_as_a_node_would() -> None:
    """Attempt and fence are set, and data went through JSON."""
    seen: list[tuple[int, int, object]] = []

    class Looking(TaskExecutor):
        def execute(self, task: Task) -> Drop:
            seen.append((self.attempt, self.fence, task.data))
            return Drop("seen")

    outcome = execute_task(Looking(), a_task(invoice=42), attempt=3, fence=7)

    assert outcome == Drop("seen")
    assert seen == [(3, 7, {"invoice": 42})]


def test_execute_task_awaits_and_lets_exceptions_through() -> None:
    """Both colours of ``execute``."""
    assert execute_task(Waiting(), a_task()) is None
    with pytest.raises(LookupError):
        execute_task(Failing(), a_task())


class _Wrapped(TaskExecutor):
    def execute(self, task: Task) -> Awaitable[None]:
        """Return an awaitable without being a coroutine function."""
        return Waiting().execute(task)


def test_an_awaitable_of_a_plain_function_is_awaited_too() -> None:
    """A decorated ``async def`` looks like this."""
    scheduler = a_scheduler(_Wrapped)
    scheduler.schedule_task(a_task())

    assert [each.result for each in scheduler.run_due()] == [AttemptResult.SUCCESS]
    assert execute_task(_Wrapped(), a_task()) is None
