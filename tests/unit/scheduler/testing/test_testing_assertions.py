"""The test kit: its assertions, and ``execute_task``."""

import asyncio
import contextlib
from collections.abc import Awaitable
from datetime import timedelta

import pytest
import tenacity

from hourhand import Drop, RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.errors import TaskInThePast, TaskTooLarge
from hourhand.scheduler.testing import Execution, execute_task
from tests.unit.scheduler.testing.testing_bench import Failing, Noting, Waiting, a_scheduler, a_task


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


def test_an_assertion_that_fails_says_why_the_attempts_failed() -> None:
    """Each with its error and the stack that leads to the line of user code."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(name="invoice-42"))
    scheduler.schedule_task(a_task(ordering_id="other", name="other"))
    scheduler.run_due()

    with pytest.raises(AssertionError) as raised:
        scheduler.assert_executed(ordering_id="customer-7")

    text = str(raised.value)
    assert text.startswith("0 executions match {'ordering_id': 'customer-7'}, expected 1\n")
    assert f"{a_task(name='invoice-42').key} attempt 1: failure, LookupError: invoice-42" in text
    assert "raise LookupError(task.uniqueness_key)" in text and "in execute" in text
    assert "open tasks that match, at 2026-03-01T12:00:00+00:00:" in text
    assert "other attempt 1" not in text


def test_an_assertion_that_fails_names_the_tasks_that_were_refused() -> None:
    """With the reason: nobody need ask a future for it."""
    scheduler = a_scheduler()
    with contextlib.suppress(TaskInThePast):
        scheduler.schedule_task(a_task(due_in=timedelta(hours=-1)))
    scheduler.client.schedule_tasks([a_task(name="2", text="x" * 2_000_000)])

    for claim in (scheduler.assert_executed, scheduler.assert_scheduled):
        with pytest.raises(AssertionError) as raised:
            claim(ordering_id="customer-7")
        assert "tasks that were refused:" in str(raised.value)
        assert f"{a_task(due_in=timedelta(hours=-1)).key}: TaskInThePast: the task is due" in str(
            raised.value
        )
        assert f"{a_task(name='2').key}: TaskTooLarge: " in str(raised.value)
    assert [type(each.error) for each in scheduler.refusals] == [TaskInThePast, TaskTooLarge]


def test_a_drain_that_does_not_end_says_what_failed() -> None:
    """The task that is open is the one that fails."""

    class Endless(Failing):
        retry = RetryPolicy(attempts_max=100, wait=tenacity.wait_fixed(3_600))

    scheduler = a_scheduler(Endless)
    scheduler.schedule_task(a_task(name="invoice-42"))

    with pytest.raises(AssertionError, match=r"still open after 10:00:00") as raised:
        scheduler.drain(within=timedelta(hours=10))

    text = str(raised.value)
    assert "attempts of these: 11; the last one of them:" in text
    assert text.count("raise LookupError") == 1


def test_an_execution_has_the_error_and_its_stack() -> None:
    """None of them where it ended well."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(name="invoice-42"))
    [failed] = scheduler.run_due()
    [ended] = _ran_well()

    assert (failed.error_class, failed.error_message) == ("LookupError", "invoice-42")
    assert failed.error_stack is not None and "in execute" in failed.error_stack
    assert (ended.error_class, ended.error_message, ended.error_stack) == (None, None, None)


def _ran_well() -> list[Execution]:
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task())
    return scheduler.run_due()


def test_the_kit_logs_a_failed_attempt_as_a_node_does(caplog: pytest.LogCaptureFixture) -> None:
    """So that pytest shows it with a test that fails."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(name="invoice-42"))

    scheduler.run_due()

    (record,) = caplog.records
    assert record.getMessage().startswith("AttemptFailed ") and record.exc_info is not None


@pytest.mark.parametrize("executor", [Waiting, Noting])
def test_the_kit_works_inside_a_running_event_loop(executor: type[TaskExecutor]) -> None:
    """As tests of pytest-asyncio and anyio are."""

    async def test() -> tuple[list[Execution], object]:
        scheduler = a_scheduler(executor)
        scheduler.schedule_task(a_task())
        scheduler.advance(minutes=1)
        return scheduler.assert_executed(), execute_task(executor(), a_task())

    executions, outcome = asyncio.run(test())

    assert len(executions) == 1 and outcome is None


class FailingLater(Waiting):
    """Fails after it waited."""

    async def execute(self, task: Task) -> None:
        """Fail."""
        await super().execute(task)
        raise LookupError(task.uniqueness_key)


def test_what_fails_inside_a_running_event_loop_says_why() -> None:
    """The exception is that of user code, from whatever thread it comes."""

    async def test() -> None:
        with pytest.raises(LookupError, match="invoice-42"):
            execute_task(FailingLater(), a_task(name="invoice-42"))
        scheduler = a_scheduler(FailingLater)
        scheduler.schedule_task(a_task(name="invoice-42"))
        [failed] = scheduler.run_due()
        assert (failed.error_class, failed.error_message) == ("LookupError", "invoice-42")

    asyncio.run(test())


def test_lines_of_user_code_inside_a_running_event_loop_are_marked_as_its() -> None:
    """The other thread knows the attempt as well."""
    seen: list[Attempt | None] = []

    class Looking(TaskExecutor):
        async def execute(self, task: Task) -> None:
            seen.append(current_attempt())

    async def test() -> None:
        scheduler = a_scheduler(Looking)
        scheduler.schedule_task(a_task(name="invoice-42"))
        scheduler.run_due()

    asyncio.run(test())

    assert [each.task.key.uniqueness_key for each in seen if each] == ["invoice-42"]


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


class _Counting(TaskExecutor):
    retry = RetryPolicy(attempts_max=2)

    def execute(self, task: Task) -> None:
        done = (self.checkpointed or {"done": 0})["done"]
        self.checkpoint({"done": done + 1})
        self.checkpoint({"done": done + 2})
        if done < 2:
            raise LookupError("not yet")


@pytest.mark.parametrize("is_async", [False, True])
def test_execute_task_asks_code_to_end_where_the_test_says_so(is_async: bool) -> None:
    """That one call alone."""

    class Looks(TaskExecutor):
        def execute(self, task: Task) -> Drop:
            return Drop(f"cancelled: {self.cancelled}")

    class LooksAsync(TaskExecutor):
        async def execute(self, task: Task) -> Drop:
            return Drop(f"cancelled: {self.cancelled}")

    executor = LooksAsync() if is_async else Looks()

    asked = execute_task(executor, a_task(), cancelled=True)
    not_asked = execute_task(executor, a_task())

    assert asked == Drop("cancelled: True") and not_asked == Drop("cancelled: False")


def test_execute_task_gives_a_checkpoint_and_collects_what_is_made() -> None:
    """As the next attempt finds it."""
    made: list[object] = []

    execute_task(_Counting(), a_task(), checkpointed={"done": 5}, checkpoints=made)

    assert made == [{"done": 6}, {"done": 7}]


def test_the_kit_shows_the_checkpoints_of_its_tasks() -> None:
    """The next attempt has found the first one's."""
    scheduler = a_scheduler(_Counting)
    task = a_task()
    scheduler.schedule_task(task)
    scheduler.advance(timedelta(hours=1))

    assert scheduler.client.find_task(task.key).checkpoint == {"done": 4}


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
